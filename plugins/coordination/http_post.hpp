// http_post.hpp: one JSON text posted on a connection of its own, and the whole of a small answer.
#pragma once

#include <string>
#include <string_view>

#include "gearbox/base/clock.hpp"
#include "gearbox/base/outcome.hpp"
#include "sink/http_url.hpp"

namespace gearbox::coordination {

inline constexpr std::size_t kMostAnswerBytes = 64 * 1024;

struct HttpReply {
  unsigned status = 0;
  std::string body;
};

/// Posts `json` to `path` at the server of `url`. `authorization`: sent as the header of that name, unless it is empty.
/// Blocks until the answer is there, or `deadline`; a name that is no address is resolved without a bound of ours.
/// Errors: unreachable (resolve, connect), timeout, closed (ended in the middle, or no HTTP), too_large.
Outcome<HttpReply> post(const sink::HttpUrl& url, std::string_view path, std::string json,
                        std::string_view authorization, Instant deadline);

}  // namespace gearbox::coordination
