// frame_writer.hpp: the writing half of a FrameStream: one frame at a time, the others wait their turn in order.
#pragma once

#include <boost/asio/awaitable.hpp>

#include <optional>
#include <string>
#include <vector>

#include "gearbox/link/secure_channel.hpp"
#include "gearbox/net/wakeup.hpp"
#include "gearbox/wire/frame.hpp"
#include "net/byte_stream.hpp"

namespace gearbox::net {

inline constexpr std::size_t kMaxWaitingWriters = 256;

/// Who may write now. First come, first served.
class TurnQueue {
 public:
  /// One place in the queue, or the turn itself; gives back either on destruction. Made before the wait, so that a
  /// coroutine that is destroyed in the middle leaves nothing dangling.
  class Turn {
   public:
    Turn(TurnQueue& queue, const asio::any_io_executor& executor) : queue_(queue), wakeup_(executor) {}
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    /// Errors: overloaded (kMaxWaitingWriters wait already), timeout.
    asio::awaitable<Outcome<void>> take(Instant deadline);

   private:
    friend class TurnQueue;
    enum class Place { outside, waiting, writing };
    TurnQueue& queue_;
    Wakeup wakeup_;
    Place place_ = Place::outside;
  };

  bool is_free() const { return !busy_; }
  void wake_all();

 private:
  void pass_on();
  std::vector<Turn*> waiting_;  // in order; empty nearly always, and then without memory
  bool busy_ = false;
};

class FrameWriter {
 public:
  FrameWriter(ByteStream& bytes, std::optional<link::SecureChannel>& channel) : bytes_(bytes), channel_(channel) {}

  asio::awaitable<Outcome<void>> write(wire::FrameHeader header, std::string json, ByteView payload, Instant deadline);
  /// For the handshake: bytes as they are.
  asio::awaitable<Outcome<void>> write_raw(ByteView bytes, Instant deadline);
  /// The end mark, as far as the socket takes it at once; nothing when a frame is under way.
  void say_end();
  void wake_all() { turns_.wake_all(); }

 private:
  asio::awaitable<Outcome<void>> write_plain(const wire::HeaderBytes& header, ByteView json, ByteView payload,
                                             Instant deadline);
  asio::awaitable<Outcome<void>> write_small(const wire::HeaderBytes& header, ByteView json, ByteView payload,
                                             Instant deadline);
  asio::awaitable<Outcome<void>> write_big(const wire::HeaderBytes& header, ByteView json, ByteView payload,
                                           Instant deadline);
  asio::awaitable<Outcome<void>> send(ByteView from_scratch, bool more, Instant deadline);

  ByteStream& bytes_;
  std::optional<link::SecureChannel>& channel_;
  TurnQueue turns_;
  std::optional<Error> broken_;  // a frame was cut: nothing may follow it
};

}  // namespace gearbox::net
