// What a coordination store says it granted, checked against what it was asked for.
#include <algorithm>
#include <string>

#include "plugin_host/guarded_call.hpp"
#include "plugin_host/guards.hpp"

namespace gearbox::plugin_host {

namespace {

constexpr milliseconds kSlack{1'000};  // beyond a deadline, before it counts as an overrun

/// What is wrong with `answer`, or nothing.
std::string fault_of(const plugin::LeaseAnswer& answer, const plugin::LeaseWish& wish) {
  if (!answer.granted) return {};
  if (answer.term == 0) return "granted a lease without a term";
  if (answer.term < wish.term) return "granted a lower term than it had granted before";
  if (answer.term != wish.term && answer.term <= wish.above) return "granted a term that had been obeyed already";
  if (answer.holder != wish.holder) return "granted the lease of another holder";
  return {};
}

class GuardedCoordination final : public plugin::Coordination {
 public:
  GuardedCoordination(std::shared_ptr<Library> library, std::unique_ptr<plugin::Coordination> inner)
      : held_(std::move(library), std::move(inner)) {}

  Outcome<plugin::LeaseAnswer> ask(const plugin::LeaseWish& wish, Instant deadline) override {
    Call call = begin("ask");
    auto answer = without_throw(call, Errc::plugin_fault, [&] { return held_.object->ask(wish, deadline); });
    end(call, deadline);
    if (!answer) return answer;
    const std::string fault = fault_of(answer.value(), wish);
    if (!fault.empty()) return call.fault(Errc::plugin_fault, fault);
    return tidy(std::move(answer));
  }
  Outcome<void> release(const plugin::LeaseWish& wish, Instant deadline) override {
    Call call = begin("release");
    auto released = without_throw(call, Errc::plugin_fault, [&] { return held_.object->release(wish, deadline); });
    end(call, deadline);
    return released;
  }
  Outcome<plugin::LeaseAnswer> look(std::string_view name, Instant deadline) override {
    Call call = begin("look");
    auto answer = without_throw(call, Errc::plugin_fault, [&] { return held_.object->look(name, deadline); });
    end(call, deadline);
    if (answer && answer.value().granted) return call.fault(Errc::plugin_fault, "granted what nobody asked for");
    return tidy(std::move(answer));
  }

 private:
  /// It blocks on a thread that only it has, and what it waits for may be a name server that is gone: the lease runs
  /// out meanwhile, and that is all. To end the scheduler for it, and bar the plugin, would make it worse.
  Call begin(const char* function) { return {*held_.library, function, Clock::now(), Instant::max()}; }
  static void end(Call& call, Instant deadline) {
    const Instant now = Clock::now();
    call.ended(now > deadline && now - deadline > kSlack ? Clock::duration::zero() : kNoBudget);
  }
  /// What others wrote into the store goes into logs and pages.
  static Outcome<plugin::LeaseAnswer> tidy(Outcome<plugin::LeaseAnswer> answer) {
    if (answer) answer.value().holder = escaped(answer.value().holder, kMaxNameBytes);
    return answer;
  }

  Held<plugin::Coordination> held_;
};

}  // namespace

std::shared_ptr<plugin::Coordination> guarded(std::shared_ptr<Library> library,
                                              std::unique_ptr<plugin::Coordination> inner) {
  return std::make_shared<GuardedCoordination>(std::move(library), std::move(inner));
}

}  // namespace gearbox::plugin_host
