#include "gear/cost_model.hpp"

namespace {

using gearbox::plugin::OptionType;

constexpr gearbox::plugin::OptionSpec kOptions[] = {
    {"memory", OptionType::number, "0.85", "", "memory pressure above which only moves that lower it are looked at", 0,
     1},
    {"least_gain", OptionType::number, "0.1", "", "share of the latency that a change must promise", 0, 1},
    {"large_gain", OptionType::number, "0.25", "", "share of the latency from which on a shift is urgent", 0, 1},
    {"horizon_s", OptionType::number, "60", "s", "time over which a gain must pay for its shift", 1, 86400},
    {"expect", OptionType::number, "0.8", "", "share of the highest load of the last minutes that is expected again", 0,
     2},
    {"remember_s", OptionType::number, "3600", "s",
     "time in which a load that was too much fades to 37 % of what it was; 0: it is not remembered", 0, 1e6},
    {"long_stay", OptionType::number, "1.8", "",
     "caches of the requests that run, of the mean request's: above 1 where lengths differ", 1, 100},
    {"at_once", OptionType::integer, "2", "groups", "groups of a pool that are proposed together", 1, 1000}};

gearbox::Outcome<std::unique_ptr<gearbox::plugin::GearPolicy>> make(const gearbox::plugin::Options& options) {
  gearbox::gear::CostModelLimits limits;
  BOOST_OUTCOME_TRY(limits.memory, options.number("memory"));
  BOOST_OUTCOME_TRY(limits.least_gain, options.number("least_gain"));
  BOOST_OUTCOME_TRY(limits.large_gain, options.number("large_gain"));
  BOOST_OUTCOME_TRY(limits.horizon_s, options.number("horizon_s"));
  BOOST_OUTCOME_TRY(limits.expect, options.number("expect"));
  BOOST_OUTCOME_TRY(limits.remember_s, options.number("remember_s"));
  BOOST_OUTCOME_TRY(limits.long_stay, options.number("long_stay"));
  BOOST_OUTCOME_TRY(const auto at_once, options.integer("at_once"));
  limits.at_once = static_cast<std::uint32_t>(at_once);
  return std::make_unique<gearbox::gear::CostModel>(limits);
}

}  // namespace

GEARBOX_PLUGIN(gear, "cost_model", "1.0", "prices every gear at the load that is expected, and moves little", kOptions,
               make)
