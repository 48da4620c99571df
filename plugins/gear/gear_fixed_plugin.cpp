#include "gear/fixed.hpp"

namespace {

using gearbox::plugin::OptionType;

constexpr gearbox::plugin::OptionSpec kOptions[] = {
    {"gear", OptionType::integer, "0", "", "the gear of every group that has it; 0: each stays in its own", 0, 6}};

gearbox::Outcome<std::unique_ptr<gearbox::plugin::GearPolicy>> make(const gearbox::plugin::Options& options) {
  BOOST_OUTCOME_TRY(const auto gear, options.integer("gear"));
  return std::make_unique<gearbox::gear::Fixed>(static_cast<std::uint8_t>(gear));
}

}  // namespace

GEARBOX_PLUGIN(gear, "fixed", "1.0", "one gear, whatever comes", kOptions, make)
