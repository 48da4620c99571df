// learned_file.hpp: what a node last heard from central, for its next process: so that devices with tickets are served
// also when the node starts while central is away.
#pragma once

#include <filesystem>

#include "gearbox/base/outcome.hpp"
#include "gearbox/wire/messages.hpp"

namespace gearbox::node {

/// Central's time in it is aged on the clock that runs through sleep, so it is good for this boot of the host only.
/// Public keys and revocations: nothing secret, but whoever could change it could let devices in (mode 0600).
/// Errors: io_error, no_space; the file is then as it was.
Outcome<void> save_learned(const std::filesystem::path& file, const wire::ReportOk& learned);

/// With central's time as it is now. Errors: not_found: there is none, or it is of another boot; corrupt_data;
/// io_error.
Outcome<wire::ReportOk> load_learned(const std::filesystem::path& file);

}  // namespace gearbox::node
