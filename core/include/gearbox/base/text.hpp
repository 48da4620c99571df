// text.hpp: strings from outside: which names are allowed, and how outside text may appear in a log line.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "gearbox/base/outcome.hpp"

namespace gearbox {

inline constexpr std::size_t kMaxNameBytes = 64;

/// A name of a task, model, version, user, device, node or plugin: 1 to 64 of [A-Za-z0-9._-], first one a letter or
/// digit, no "..". Checked before any file access.
bool is_name(std::string_view text);

/// Errors: bad_name, which quotes at most 64 bytes of `text`, escaped; `what` is said in it ("task", "model").
Outcome<void> check_name(std::string_view what, std::string_view text);

/// One printable line: control bytes, quotes' backslashes and invalid UTF-8 as \xNN; cut at `limit` bytes with "...".
std::string escaped(std::string_view text, std::size_t limit = 256);

/// True when `text` is well-formed UTF-8.
bool is_utf8(std::string_view text);

/// The candidate nearest to `text` by edit distance, for "did you mean"; empty when none is near.
std::string_view nearest(std::string_view text, const std::vector<std::string>& candidates);

}  // namespace gearbox
