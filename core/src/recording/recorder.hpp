// recorder.hpp: when what came, how large it was and how long it took, of the last requests, as lines of a recording
// that `broker replay` reads; and, only when that is asked for, what was in them. One strand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "explain/trace.hpp"
#include "gearbox/base/bytes.hpp"
#include "gearbox/base/clock.hpp"

namespace gearbox::recording {

/// The two head lines of a recording; docs/replay.md tells what the columns are.
inline constexpr std::string_view kMagic = "# gearbox-trace 1";
inline constexpr std::string_view kColumns =
    "at_us,model,tenant,input_tokens,output_tokens,bytes,upload_us,first_us,latency_us,result_bytes,error,steps";

/// Further columns of a recording with payloads.
inline constexpr std::string_view kPayloadColumns = ",payload,inputs";

/// What was in a request: its inputs as the models got them, one behind the other.
struct Payload {
  std::string inputs;  // "image:UINT8:480x640x3", with ';' between; no commas
  Bytes bytes;
};
/// The name of its file, of the request's number.
std::string payload_file(std::uint64_t number);

/// Some lines, one for each request, in the order in which they ended.
struct Piece {
  std::string lines;
  std::uint64_t requests = 0;  // in them
  std::uint64_t next = 0;      // the number to go on from; 0: there are no more
};

class Recorder {
 public:
  static constexpr std::size_t kMaxBytes = 32 << 20;  // of lines; the oldest are forgotten first

  /// `limit`: how many requests are kept; 0: none. `began`: the zero of all times in here.
  Recorder(std::size_t limit, Instant began)
      : limit_(limit), began_(std::chrono::floor<microseconds>(began.time_since_epoch())) {}
  /// From now on.
  void limit(std::size_t limit);
  bool keeps_any() const { return limit_ > 0; }
  /// `limit`: bytes of payloads that are kept, of the last requests; 0: none, which is the default. From now on.
  void limit_payloads(std::size_t limit);
  /// Whether one of so many bytes would be kept.
  bool keeps_payload_of(std::uint64_t bytes) const { return limit_ > 0 && bytes > 0 && bytes <= payload_limit_; }

  /// A request that is over, with what was in it if that is to be kept.
  void note(const explain::Trace& trace, std::optional<Payload> payload = std::nullopt);

  /// The lines of those that arrived at `since` or later, from number `from` on; times in them are since `zero`. At
  /// most `most_bytes`, but one line at least. `with_payloads`: with the columns that name their files.
  Piece piece(std::uint64_t from, Instant since, Instant zero, std::size_t most_bytes,
              bool with_payloads = false) const;
  /// What was in the request of that number; null: it is not kept (any more).
  const Payload* payload(std::uint64_t number) const;
  /// When the first of those arrived; `otherwise` when there are none.
  Instant earliest(Instant since, Instant otherwise) const;

  std::size_t size() const { return entries_.size(); }
  std::size_t bytes() const { return bytes_; }
  std::size_t payload_bytes() const { return payload_bytes_; }
  std::uint64_t forgotten() const { return first_; }

 private:
  struct Entry {
    std::int64_t at_us = 0;  // since began_
    std::string rest;        // the columns after it, without the line's end
    std::optional<Payload> payload{};
  };
  std::int64_t us_since_began(Instant at) const { return elapsed(began_, at).count(); }
  void trim();

  std::size_t limit_;
  Instant began_;
  std::deque<Entry> entries_;  // as they ended
  std::uint64_t first_ = 0;    // number of the oldest kept
  std::size_t bytes_ = 0;
  std::size_t payload_limit_ = 0;
  std::size_t payload_bytes_ = 0;
  std::uint64_t first_payload_ = 0;  // no request before this number has one any more
};

}  // namespace gearbox::recording
