// quarantine_file.hpp: the quarantine on disk, so that what was deadly is not run again by the next process of the
// node.
#pragma once

#include <deque>
#include <filesystem>

#include "session/quarantine.hpp"

namespace gearbox::session {

/// What `file` holds; nothing when it is not there. One that cannot be read is set aside as FILE.damaged, which is said
/// in the log.
std::deque<Quarantined> read_quarantine(const std::filesystem::path& file);

/// Writes all of it beside, synced, and renames. Errors: io_error, no_space; the file is as it was.
Outcome<void> write_quarantine(const std::filesystem::path& file, const std::deque<Quarantined>& held);

}  // namespace gearbox::session
