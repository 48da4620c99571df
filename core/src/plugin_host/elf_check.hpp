// elf_check.hpp: a look at a library's bytes before anybody maps it: a file cut by one byte loads, one cut at half is
// SIGBUS.
#pragma once

#include "gearbox/base/bytes.hpp"
#include "gearbox/base/outcome.hpp"

namespace gearbox::plugin_host {

/// Is it a whole shared library for this machine that exports `gearbox_plugin` and no unique symbols (glibc never
/// unloads those)? Never reads outside `file`, whatever its headers say. Errors: bad_plugin, with the reason.
Outcome<void> check_elf(ByteView file);

}  // namespace gearbox::plugin_host
