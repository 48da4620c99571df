// whole_file.hpp: a small file that is either as it was or as it is to be, whatever dies meanwhile.
#pragma once

#include <filesystem>
#include <string_view>

#include "gearbox/base/outcome.hpp"

namespace gearbox::executor {

/// Beside it, synced, renamed, the folder synced: durable when it returns. Mode 0600. Errors: no_space, io_error.
Outcome<void> write_durably(const std::filesystem::path& file, std::string_view text);

}  // namespace gearbox::executor
