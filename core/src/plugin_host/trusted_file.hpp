// trusted_file.hpp: small files beside a plugin's library: read whole, bounded, only when nobody else may write to
// them.
#pragma once

#include <filesystem>

#include "gearbox/base/bytes.hpp"
#include "gearbox/base/outcome.hpp"

namespace gearbox::plugin_host {

/// The content of a regular file of at most `limit` bytes (never waits on a FIFO or device). Errors: not_found;
/// bad_plugin: too large, unreadable, its owner or mode cannot be trusted (see check_trusted). The detail does not name
/// the file.
Outcome<Bytes> read_trusted_file(const std::filesystem::path& file, std::size_t limit);

/// The same without a look at owner and mode: for content that is checked in itself, or only looked at.
Outcome<Bytes> read_bounded_file(const std::filesystem::path& file, std::size_t limit);

}  // namespace gearbox::plugin_host
