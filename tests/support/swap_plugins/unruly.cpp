// A balancer that serves well until it has been called often enough, more often than any check calls it: then it
// crashes, hangs or throws, as it was compiled. "favours" sends everything to one candidate, from the first call on.
#include <unistd.h>

#include <csignal>
#include <stdexcept>

#include "balancer/least_loaded.hpp"
#include "balancer/queue_limit.hpp"

namespace {

namespace plugin = gearbox::plugin;

constexpr int kGoodCalls = 20;

class Unruly final : public plugin::Balancer {
 public:
  explicit Unruly(std::uint64_t limit) : good_(limit) {}
  gearbox::Outcome<plugin::CandidateId> pick(const plugin::RequestView& request,
                                             std::span<const plugin::CandidateView> candidates,
                                             gearbox::Instant now) override {
#if defined(UNRULY_favours)
    return candidates.front().id;
#endif
    if (++calls_ > kGoodCalls) misbehave();
    return good_.pick(request, candidates, now);
  }

 private:
  static void misbehave() {
#if defined(UNRULY_crashes)
    std::raise(SIGSEGV);
#elif defined(UNRULY_hangs)
    for (;;) ::pause();
#else
    throw std::runtime_error("had enough");
#endif
  }

  gearbox::balancer::LeastLoaded good_;
  int calls_ = 0;
};

constexpr plugin::OptionSpec kOptions[] = {gearbox::balancer::kQueueLimitOption};

gearbox::Outcome<std::unique_ptr<plugin::Balancer>> make(const plugin::Options& options) {
  BOOST_OUTCOME_TRY(const auto limit, options.integer("queue_limit"));
  return std::make_unique<Unruly>(static_cast<std::uint64_t>(limit));
}

}  // namespace

GEARBOX_PLUGIN(balancer, "least_loaded", UNRULY_VERSION, "serves well at first", kOptions, make)
