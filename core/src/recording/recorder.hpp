// recorder.hpp: when what came, how large it was and how long it took, of the last requests, as lines of a recording
// that `broker replay` reads. Figures only, nothing of what was in them. One strand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "explain/trace.hpp"
#include "gearbox/base/clock.hpp"

namespace gearbox::recording {

/// The two head lines of a recording; docs/replay.md tells what the columns are.
inline constexpr std::string_view kMagic = "# gearbox-trace 1";
inline constexpr std::string_view kColumns =
    "at_us,model,tenant,input_tokens,output_tokens,bytes,upload_us,first_us,latency_us,result_bytes,error,steps";

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

  /// A request that is over.
  void note(const explain::Trace& trace);

  /// The lines of those that arrived at `since` or later, from number `from` on; times in them are since `zero`. At
  /// most `most_bytes`, but one line at least.
  Piece piece(std::uint64_t from, Instant since, Instant zero, std::size_t most_bytes) const;
  /// When the first of those arrived; `otherwise` when there are none.
  Instant earliest(Instant since, Instant otherwise) const;

  std::size_t size() const { return entries_.size(); }
  std::size_t bytes() const { return bytes_; }
  std::uint64_t forgotten() const { return first_; }

 private:
  struct Entry {
    std::int64_t at_us = 0;  // since began_
    std::string rest;        // the columns after it, with the line's end
  };
  std::int64_t us_since_began(Instant at) const { return elapsed(began_, at).count(); }
  void trim();

  std::size_t limit_;
  Instant began_;
  std::deque<Entry> entries_;  // as they ended
  std::uint64_t first_ = 0;    // number of the oldest kept
  std::size_t bytes_ = 0;
};

}  // namespace gearbox::recording
