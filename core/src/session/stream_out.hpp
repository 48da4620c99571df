// stream_out.hpp: the parts of one streamed answer on their way to its device: what was not acknowledged is kept,
// within a bound; what does not fit stays where the model wrote it, and the model waits. One strand.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>

#include "pipeline/run.hpp"
#include "session/parking.hpp"

namespace gearbox::session {

class StreamOut {
 public:
  /// Of parts that were sent, or may be, and are not acknowledged.
  static constexpr std::size_t kWindowParts = 64;
  static constexpr std::uint64_t kWindowBytes = 1ULL << 20;  // a larger part goes alone

  /// `parking` outlives it. Parts before number `from` are dropped: the device has them from an earlier process.
  explicit StreamOut(Parking& parking, std::uint32_t from = 0) : parking_(parking), first_(from), next_(from) {}

  void add(pipeline::RunPart part);
  /// The device has all parts before number `count`. More than were sent: nothing is believed.
  void acknowledge(std::uint32_t count);
  /// Another connection: it has all parts before `from`; what comes after is sent (again).
  void resume(std::uint32_t from);

  using PartPtr = std::shared_ptr<const pipeline::RunPart>;
  /// The part to be sent next; null when there is none, or the window is full. It counts as sent.
  PartPtr next();
  /// No more parts come: have all been sent, and has the end not been told on this connection? Then it counts as told.
  bool end_is_due();

  /// No more parts come: out of the worker's memory with what is left, as far as that goes.
  void leave_rooms();
  /// Nobody wants what has not been sent.
  void drop_unsent();

  std::uint32_t first() const { return first_; }  // number of the oldest that is kept

 private:
  struct Held {
    std::shared_ptr<pipeline::RunPart> part;
    std::uint64_t bytes = 0;
  };
  void admit();

  Parking& parking_;
  std::deque<Held> parts_;
  std::uint32_t first_ = 0;         // number of parts_.front()
  std::uint32_t next_ = 0;          // number of the next to be sent
  std::size_t window_ = 0;          // the first so many of parts_ are in it
  std::uint64_t window_bytes_ = 0;  // of those
  bool end_told_ = false;
};

}  // namespace gearbox::session
