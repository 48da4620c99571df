// moment.hpp: the time as the ledger keeps it, now.
#pragma once

#include "executor/ledger.hpp"
#include "gear_facts/times.hpp"
#include "gearbox/base/boot.hpp"

namespace gearbox::executor {

inline Moment this_moment() {
  static const std::string boot = own_boot_id();
  return {boot, gear_facts::boot_ms(), gear_facts::unix_ms()};
}

}  // namespace gearbox::executor
