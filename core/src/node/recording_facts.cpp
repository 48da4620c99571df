#include "node/recording_facts.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>
#include <utility>

#include "gearbox/base/ids.hpp"

namespace gearbox::node {

namespace json = boost::json;

namespace {

constexpr std::size_t kPieceBytes = 56 * 1024;                           // a frame may have 64 KiB of JSON
constexpr std::size_t kPayloadPieceBytes = 28 * 1024;                    // twice as long in hexadecimal digits
constexpr std::int64_t kLongestUs = std::int64_t{366} * 86'400'000'000;  // what a recording can tell

std::int64_t us_of(Instant at) {
  return elapsed(Instant{}, at).count();
}

/// `otherwise` when it is not there.
Outcome<std::int64_t> number_in(const json::object& request, const char* name, std::int64_t otherwise) {
  const json::value* found = request.if_contains(name);
  if (found == nullptr) return otherwise;
  boost::system::error_code odd;
  const auto number = found->to_number<std::int64_t>(odd);
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 1000;  // a time has nanoseconds
  if (odd || number < 0 || number > kMost)
    return Error{Errc::bad_input, "recording: \"" + std::string(name) + "\" is a number from 0 on"};
  return number;
}

}  // namespace

Outcome<json::object> answer_recording(const recording::Recorder& recorder, const json::object& request,
                                       const std::string& node) {
  if (!recorder.keeps_any()) return Error{Errc::bad_input, "this node keeps no recording: node.recorded_requests is 0"};
  const Instant now = Clock::now();
  BOOST_OUTCOME_TRY(const std::int64_t from, number_in(request, "from", 0));
  BOOST_OUTCOME_TRY(const std::int64_t last, number_in(request, "last_us", 0));
  const std::int64_t first_us =
      std::max<std::int64_t>(us_of(now) - (last == 0 ? kLongestUs : std::min(last, kLongestUs)), 0);
  BOOST_OUTCOME_TRY(const std::int64_t since_us, number_in(request, "since_us", first_us));
  const Instant since = Instant{} + microseconds(since_us);
  // It is looked for in all of them, once.
  const bool is_first = !request.contains("zero_us");
  const std::int64_t earliest_us = is_first ? us_of(recorder.earliest(since, now)) : 0;
  BOOST_OUTCOME_TRY(const std::int64_t zero_us, number_in(request, "zero_us", earliest_us));
  const Instant zero = Instant{} + microseconds(zero_us);
  const json::value* asked = request.if_contains("payloads");
  const bool with_payloads = asked != nullptr && asked->is_bool() && asked->get_bool();
  recording::Piece piece = recorder.piece(static_cast<std::uint64_t>(from), since, zero, kPieceBytes, with_payloads);
  const auto unix_ms =
      std::chrono::duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  return json::object{{"node", node},
                      {"zero_us", zero_us},
                      {"since_us", since_us},
                      {"begins_unix_ms", unix_ms - elapsed(zero, now).count() / 1000},
                      {"lines", std::move(piece.lines)},
                      {"requests", piece.requests},
                      {"forgotten", recorder.forgotten()},
                      {"next", piece.next}};
}

Outcome<json::object> answer_recorded_payload(const recording::Recorder& recorder, const json::object& request) {
  BOOST_OUTCOME_TRY(const std::int64_t number, number_in(request, "number", -1));
  BOOST_OUTCOME_TRY(const std::int64_t from, number_in(request, "from", 0));
  const recording::Payload* payload = number < 0 ? nullptr : recorder.payload(static_cast<std::uint64_t>(number));
  if (payload == nullptr)
    return Error{Errc::not_found, "recorded_payload: what was in request " + std::to_string(number) + " is not kept"};
  const std::size_t size = payload->bytes.size();
  const std::size_t begin = std::min(static_cast<std::size_t>(from), size);
  const ByteView piece = ByteView(payload->bytes).subspan(begin, std::min(size - begin, kPayloadPieceBytes));
  const std::size_t next = begin + piece.size();
  return json::object{{"bytes", to_hex(piece)}, {"size", size}, {"next", next < size ? next : 0}};
}

}  // namespace gearbox::node
