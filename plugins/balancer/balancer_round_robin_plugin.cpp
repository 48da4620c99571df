#include "balancer/queue_limit.hpp"
#include "balancer/round_robin.hpp"

namespace {

constexpr gearbox::plugin::OptionSpec kOptions[] = {gearbox::balancer::kQueueLimitOption};

gearbox::Outcome<std::unique_ptr<gearbox::plugin::Balancer>> make(const gearbox::plugin::Options& options) {
  BOOST_OUTCOME_TRY(const auto limit, options.integer("queue_limit"));
  return std::make_unique<gearbox::balancer::RoundRobin>(static_cast<std::uint64_t>(limit));
}

}  // namespace

GEARBOX_PLUGIN(balancer, "round_robin", "1.0", "one candidate after the other", kOptions, make)
