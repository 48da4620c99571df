#include "balancer/least_loaded.hpp"
#include "balancer/queue_limit.hpp"

namespace {

constexpr gearbox::plugin::OptionSpec kOptions[] = {gearbox::balancer::kQueueLimitOption};

gearbox::Outcome<std::unique_ptr<gearbox::plugin::Balancer>> make(const gearbox::plugin::Options& options) {
  BOOST_OUTCOME_TRY(const auto limit, options.integer("queue_limit"));
  return std::make_unique<gearbox::balancer::LeastLoaded>(static_cast<std::uint64_t>(limit));
}

}  // namespace

GEARBOX_PLUGIN(balancer, "least_loaded", "1.0", "the candidate expected to finish first; equals take turns", kOptions,
               make)
