// files.hpp: the few things that the store does to files.
#pragma once

#include <filesystem>
#include <vector>

#include "gearbox/base/bytes.hpp"
#include "gearbox/base/outcome.hpp"

namespace gearbox::store {

/// Writes `parts` one after the other beside `file` and renames, so that a file is whole or not there; mode 0600.
/// Errors: no_space, io_error.
Outcome<void> write_whole(const std::filesystem::path& file, const std::vector<ByteView>& parts);
/// No error when it is gone already.
Outcome<void> remove_file(const std::filesystem::path& file);

}  // namespace gearbox::store
