#include "gear/flexpipe.hpp"

namespace {

using gearbox::plugin::OptionType;

constexpr gearbox::plugin::OptionSpec kOptions[] = {
    {"memory", OptionType::number, "0.85", "", "memory pressure above which a group goes down to memory_gear", 0, 1},
    {"memory_gear", OptionType::integer, "3", "", "the highest gear while memory is short", 1, 6},
    {"queue", OptionType::integer, "50", "requests", "waiting requests above which a group may go one up", 0, 1000000},
    {"utilisation", OptionType::number, "0.6", "", "a group goes up only while its utilisation is below this", 0, 1},
    {"healthy", OptionType::number, "0.8", "", "a group goes up only with links better than this", 0, 1},
    {"unhealthy", OptionType::number, "0.4", "", "with links worse than this a group goes one down", 0, 1}};

gearbox::Outcome<std::unique_ptr<gearbox::plugin::GearPolicy>> make(const gearbox::plugin::Options& options) {
  gearbox::gear::FlexpipeLimits limits;
  BOOST_OUTCOME_TRY(limits.memory, options.number("memory"));
  BOOST_OUTCOME_TRY(const auto memory_gear, options.integer("memory_gear"));
  limits.memory_gear = static_cast<std::uint8_t>(memory_gear);
  BOOST_OUTCOME_TRY(const auto queue, options.integer("queue"));
  limits.queue = static_cast<std::uint32_t>(queue);
  BOOST_OUTCOME_TRY(limits.utilisation, options.number("utilisation"));
  BOOST_OUTCOME_TRY(limits.healthy, options.number("healthy"));
  BOOST_OUTCOME_TRY(limits.unhealthy, options.number("unhealthy"));
  if (limits.unhealthy > limits.healthy) {
    return gearbox::Error{gearbox::Errc::bad_input, "unhealthy is above healthy: a group would swing between gears"};
  }
  return std::make_unique<gearbox::gear::Flexpipe>(limits);
}

}  // namespace

GEARBOX_PLUGIN(gear, "flexpipe", "1.0", "three principles: memory hard, link health soft, queue length a hint",
               kOptions, make)
