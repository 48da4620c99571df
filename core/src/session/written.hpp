// written.hpp: a request and its end as text, for the node's journal: what the next process of the node reads.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "gearbox/base/clock.hpp"
#include "gearbox/wire/messages.hpp"
#include "session/identity.hpp"

namespace gearbox::session {

/// All that a request is begun again with, but its bytes.
struct WrittenRequest {
  wire::Submit submit;
  Identity identity;
  std::uint8_t priority = 0;
  std::uint32_t attempt = 0;
  Instant deadline{};
  std::string models{};  // of a stream: what its parts are made by
};

std::string to_text(const WrittenRequest& request);
/// In the same boot of the host the deadline is the same instant. After another one, when nobody knows how long the
/// host was off, what was left of the time when it was written is left again. Errors: corrupt_data.
Outcome<WrittenRequest> written_request(std::string_view text);

struct WrittenEnd {
  wire::ResultMessage result;
  std::optional<Error> error;  // in place of the result
  // For the sinks, which may hear of it from a later process. 0: a build before these wrote it.
  std::int64_t accepted_unix_ms = 0, finished_unix_ms = 0;
  std::uint64_t input_bytes = 0;
};

std::int64_t unix_ms();  // now

std::string to_text(const WrittenEnd& end);
/// Errors: corrupt_data.
Outcome<WrittenEnd> written_end(std::string_view text);

}  // namespace gearbox::session
