// Having shifts ordered: priced by the group's own driver just before, then told to the executor of its host.
#include <boost/asio/awaitable.hpp>

#include <utility>

#include "gear_facts/engine_status.hpp"
#include "gear_facts/times.hpp"
#include "gearbox/base/text.hpp"
#include "scheduler/scheduler.hpp"

namespace gearbox::scheduler {

namespace asio = boost::asio;
namespace json = boost::json;

namespace {

constexpr milliseconds kAnswer{2'000};
constexpr milliseconds kPrice{10'000};

/// Memory is short, and nothing else: a group that is busy says no as well.
bool does_not_fit(const json::object& priced) {
  const json::value* fits = priced.if_contains("fits");
  return fits != nullptr && fits->is_bool() && !fits->get_bool();
}

std::uint64_t number_in(const json::object& object, std::string_view member) {
  const json::value* value = object.if_contains(json::string_view(member.data(), member.size()));
  boost::system::error_code bad;
  const auto number = value != nullptr && value->is_number() ? value->to_number<std::uint64_t>(bad) : 0;
  return bad ? 0 : number;
}

void held_back(Decision& decision, const char* rule, std::string why) {
  decision.shift = false;
  decision.governor = rule;
  decision.why = escaped(why, 300);
}

}  // namespace

asio::awaitable<void> Scheduler::order_all(Scheduler* self, HostPtr host, std::vector<Order> orders) {
  for (Order& each : orders) {
    Noted& noted = each.noted;
    // The lease may have ended while others were ordered.
    const bool leads = self->keeper_.holds(Clock::now());
    noted.term = leads ? *self->keeper_.term() : 0;
    if (leads) {
      noted.shift_number = co_await self->order(&each, host, noted.term);
    } else {
      held_back(noted.decision, "leader", "the lease has ended");
    }
    self->book_.add(std::move(noted), gear_facts::unix_ms());
  }
  host->ordering = false;
  ++host->orders;
}

asio::awaitable<std::uint64_t> Scheduler::order(Order* passed, HostPtr host, std::uint64_t term) {
  Decision* const decision = &passed->noted.decision;
  const gear_facts::GroupFacts& facts = passed->facts;
  const gear_facts::Answer priced = co_await host->door->price(facts.name, decision->to, kPrice);
  if (!priced) {
    held_back(*decision, "engine", "it cannot be asked what the gear needs: " + describe(priced.error()));
    co_return 0;
  }
  const gear_facts::EngineWord word = gear_facts::word_of(priced.value());
  if (!word.ok && does_not_fit(priced.value())) {
    misfits_.add(passed->noted.group, decision->to, facts.epoch, Clock::now());
    held_back(*decision, "memory", "its engine says: " + word.why);
    co_return 0;
  }
  if (!word.ok) {
    held_back(*decision, "engine", "its engine says: " + word.why);
    co_return 0;
  }
  // It may have ended while the engine thought about it.
  if (!keeper_.holds(Clock::now()) || *keeper_.term() != term) {
    held_back(*decision, "leader", "the lease has ended");
    co_return 0;
  }
  gear_facts::ShiftOrder wanted;
  wanted.group = facts.name;
  wanted.gear = decision->to;
  wanted.term = term;
  wanted.origin = "scheduler";
  wanted.decision = decision->rule + ": " + decision->reason;
  json::object command = gear_facts::to_json(wanted);
  command["command"] = "shift";
  const gear_facts::Answer ordered = co_await host->door->ask("executor", std::move(command), kAnswer);
  if (!ordered) {
    held_back(*decision, "executor", "the executor: " + describe(ordered.error()));
    co_return 0;
  }
  co_return number_in(ordered.value(), "number");
}

}  // namespace gearbox::scheduler
