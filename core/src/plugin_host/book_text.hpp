// book_text.hpp: the book of builds as text: one JSON object.
//
//   {"gearbox_book": 1, "builds": [{"kind", "name", "version", "checksum", "since_unix_ms"}...],
//    "bars": [the same and "reason"]}
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "plugin_host/build_book.hpp"

namespace gearbox::plugin_host {

inline constexpr std::size_t kMostBuilds = 1024;  // of all plugins together; the oldest give way
inline constexpr std::size_t kMostRulings = 256;  // likewise

/// Can there be such a build? Names on the allow-list, a checksum of 64 lower-case hexadecimal digits.
bool makes_sense(const Build& build);
bool makes_sense(const Bar& bar);
bool makes_sense(const Ruling& ruling);

/// Versions and reasons are escaped and cut.
std::string text_of_book(const BuildBook& book);
/// Entries that make no sense, and those past the limits, are left out; a text that is no book at all is nothing.
std::optional<BuildBook> book_of_text(std::string_view text);

}  // namespace gearbox::plugin_host
