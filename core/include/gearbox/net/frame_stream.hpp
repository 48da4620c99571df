// frame_stream.hpp: frames over a connected descriptor, sealed or plain, with Asio. Node, central, pi_client and the
// CLI use it.
//
// One strand. Reading: one reader at a time. Writing: any number of coroutines of that strand may write at once; frames
// never mix, one write is under way at a time, and the queue in front of it is bounded (a writer waits its turn, first
// come first served; the 257th gets `overloaded`).
//
// A stream is ended by close(), which wakes all who wait on it with `closed`; not by Asio's cancellation of a coroutine
// that waits inside. A connection that waits for its next frame holds no buffer; one in the middle of a frame at most 4
// KiB for reading and 64 KiB for writing to a slow peer, whatever the frame's size. Pings are the caller's to answer.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "gearbox/base/clock.hpp"
#include "gearbox/base/outcome.hpp"
#include "gearbox/link/keys.hpp"
#include "gearbox/wire/frame.hpp"

namespace gearbox::net {

namespace asio = boost::asio;

class FrameStream : public std::enable_shared_from_this<FrameStream> {
 public:
  /// Takes over `descriptor` (a connected, non-blocking stream socket); closes it at the end.
  /// Errors: io_error; the descriptor is closed then too.
  static Outcome<std::shared_ptr<FrameStream>> adopt(asio::any_io_executor executor, int descriptor, std::string peer);
  ~FrameStream();

  /// Handshakes of the secure channel; without one, frames travel plain (unix sockets of this host only).
  /// Errors: those of link::ClientHandshake / ServerHandshake; timeout; closed.
  static asio::awaitable<Outcome<void>> connect_sealed(std::shared_ptr<FrameStream> self,
                                                       std::array<std::byte, 32> server_key, milliseconds within);
  static asio::awaitable<Outcome<void>> accept_sealed(std::shared_ptr<FrameStream> self, const link::ChannelKeys& keys,
                                                      milliseconds within);

  /// Waits up to `within` for the next frame's header. Holds no buffer while nothing arrives, nor the stream: the
  /// caller keeps that (a coroutine frame for each idle connection is saved). Errors: timeout (nothing came: the stream
  /// stays usable); closed (the peer's own orderly end); decrypt_failed, frame_too_large, io_error (a cut in the middle
  /// of a frame included): end the connection.
  static asio::awaitable<Outcome<wire::FrameHeader>> read_header(std::shared_ptr<FrameStream> self,
                                                                 milliseconds within);
  /// Reads JSON and payload of the frame whose header was read last, opened straight into `json_then_payload`, which is
  /// exactly header.json_bytes + header.payload_bytes long and may be a slab. On an error its content is undefined,
  /// and, the position in the frame being lost, every later read gives that error again; writing goes on, to tell the
  /// peer why. A body that nobody read is skipped by the next read_header().
  static asio::awaitable<Outcome<void>> read_body(std::shared_ptr<FrameStream> self, ByteSpan json_then_payload,
                                                  milliseconds within);
  /// Skips it instead.
  static asio::awaitable<Outcome<void>> skip_body(std::shared_ptr<FrameStream> self, milliseconds within);
  /// Both, into memory of the frame's own: the cold path. `within` bounds the wait for the header and, anew, the body.
  /// Errors: those of both; frame_too_large also for a payload over `payload_limit`, before memory is taken for it: a
  /// server passes 0 until the peer has logged in.
  static asio::awaitable<Outcome<wire::Frame>> read_frame(std::shared_ptr<FrameStream> self, milliseconds within,
                                                          std::uint32_t payload_limit = wire::kMaxPayloadBytes);

  /// Sets header.json_bytes and payload_bytes itself. `payload` must stay valid until this returns; `json` is by value.
  /// Errors: timeout (the peer does not read): the stream is closed then. closed, io_error: no more can be written, but
  /// what the peer sent before it went (an error with its reason) can still be read. frame_too_large, overloaded:
  /// nothing was sent.
  static asio::awaitable<Outcome<void>> write_frame(std::shared_ptr<FrameStream> self, wire::FrameHeader header,
                                                    std::string json, ByteView payload, milliseconds within);

  /// Says the orderly end (the last record's mark) as far as the socket takes it at once, then closes. Idempotent.
  void close();
  bool is_open() const;

  bool sealed() const;
  ByteView h() const;  // of the secure channel; empty when plain
  const std::string& peer() const;
  std::uint64_t bytes_read() const;  // on the wire
  std::uint64_t bytes_written() const;
  int native_handle() const;  // for SO_PEERCRED

 private:
  struct State;
  explicit FrameStream(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace gearbox::net
