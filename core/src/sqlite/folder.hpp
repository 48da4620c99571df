// folder.hpp: where a database lies: a folder for the broker's user alone, and what becomes of one that is damaged.
#pragma once

#include <filesystem>

#include "gearbox/base/outcome.hpp"

namespace gearbox::sqlite {

/// Makes the folder (and the ones above it), mode 0700. Errors: io_error, no_space.
Outcome<void> make_private_folder(const std::filesystem::path& folder);

/// Renames a damaged database (a file, with its -wal and -shm; or a whole folder, whose files belong together) to
/// NAME.damaged-N, the first that is free: people may want to look at it. Nobody has it open. Returns the new name.
/// Errors: io_error, no_space.
Outcome<std::filesystem::path> set_aside(const std::filesystem::path& what);

}  // namespace gearbox::sqlite
