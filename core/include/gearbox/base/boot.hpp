// boot.hpp: which boot of this host it is: start times of processes and the monotonic clock begin anew with each.
#pragma once

#include <string>

namespace gearbox {

/// The kernel's id of this boot; empty where the kernel does not tell.
std::string own_boot_id();

}  // namespace gearbox
