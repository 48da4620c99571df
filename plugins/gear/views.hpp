// views.hpp: what the policies look for in the view of one group.
#pragma once

#include "gearbox/plugin/gear.hpp"

namespace gearbox::gear {

/// May be shifted to: allowed and it fits.
inline bool is_open(const plugin::GearView& gear) {
  return gear.allowed && gear.fits;
}

/// Null when the group has no such gear.
inline const plugin::GearView* gear_of(const plugin::GroupView& group, std::uint8_t number) {
  for (const plugin::GearView& gear : group.gears) {
    if (gear.number == number) return &gear;
  }
  return nullptr;
}

/// The nearest open gear above (`up`) or below the group's own; null when there is none.
inline const plugin::GearView* next_open(const plugin::GroupView& group, bool up) {
  const plugin::GearView* found = nullptr;
  for (const plugin::GearView& gear : group.gears) {
    if (!is_open(gear)) continue;
    if (up && gear.number > group.gear) return &gear;
    if (!up && gear.number < group.gear) found = &gear;
  }
  return found;
}

}  // namespace gearbox::gear
