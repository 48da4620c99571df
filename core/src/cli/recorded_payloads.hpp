// recorded_payloads.hpp: what was in recorded requests, fetched from a running node into files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <ostream>
#include <string_view>

#include "gearbox/base/outcome.hpp"

namespace gearbox::cli {

/// Makes `folder`, 0700, unless it is there. Errors: io_error, also when it has something in it: a recording is whole
/// by itself.
Outcome<void> make_payload_folder(const std::filesystem::path& folder);

/// Fetches what the lines of a recording name in their column before the last, into files of `folder`, 0600. A payload
/// that the node has forgotten meanwhile is named in no line of `out`, where all lines go. Returns how many there are.
/// Errors: io_error, no_space, and what asking the node gives.
Outcome<std::uint64_t> fetch_payloads(const std::filesystem::path& socket, const std::filesystem::path& folder,
                                      std::string_view lines, std::ostream& out);

}  // namespace gearbox::cli
