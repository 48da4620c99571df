// frame_reader.hpp: the reading half of a FrameStream: takes frames apart as their bytes arrive.
#pragma once

#include <boost/asio/awaitable.hpp>

#include <memory>
#include <optional>

#include "gearbox/link/secure_channel.hpp"
#include "gearbox/wire/frame.hpp"
#include "net/buffers.hpp"
#include "net/byte_stream.hpp"

namespace gearbox::net {

/// Bytes that were read ahead; has memory only while it holds some.
class ReadAhead {
 public:
  ~ReadAhead() { give_back(std::move(block_)); }
  ByteView view() const { return block_ ? ByteView(*block_).subspan(begin_, end_ - begin_) : ByteView{}; }
  std::size_t size() const { return end_ - begin_; }
  void drop(std::size_t bytes);
  /// Reads what is there at once behind what it holds. As ByteStream::read_some.
  Outcome<std::size_t> fill(ByteStream& from);

 private:
  void release();
  std::unique_ptr<ReadAheadBlock> block_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

/// After an error other than a timeout between frames it is broken, and repeats that error.
class FrameReader {
 public:
  /// `channel`: empty while frames travel plain. Both outlive the reader.
  FrameReader(ByteStream& bytes, std::optional<link::SecureChannel>& channel) : bytes_(bytes), channel_(channel) {}

  asio::awaitable<Outcome<wire::FrameHeader>> header(Instant deadline);
  asio::awaitable<Outcome<void>> body(ByteSpan out, Instant deadline);
  asio::awaitable<Outcome<void>> skip(Instant deadline);
  std::size_t body_bytes() const { return body_bytes_; }

  /// For the handshake: waits until `bytes` have been read ahead; `look_at` sees what has come after each read.
  asio::awaitable<Outcome<ByteView>> gather(std::size_t bytes, Outcome<void> (*look_at)(ByteView), Instant deadline);
  void drop(std::size_t bytes) { ahead_.drop(bytes); }

 private:
  class Record;
  asio::awaitable<Outcome<void>> sealed_body(ByteSpan out, Instant deadline);
  asio::awaitable<Outcome<void>> plain_body(ByteSpan out, Instant deadline);
  asio::awaitable<Outcome<void>> skip_plain(Instant deadline);
  asio::awaitable<Outcome<void>> take_body(ByteSpan out, bool skip, Instant deadline);
  Outcome<wire::FrameHeader> open_header();
  Error broken(Error error);
  Error cut(Error error, bool inside_frame) const;

  ByteStream& bytes_;
  std::optional<link::SecureChannel>& channel_;
  ReadAhead ahead_;
  wire::HeaderBytes plain_header_{};  // of the last frame: additional data of its body
  std::size_t body_bytes_ = 0;        // not yet taken
  std::optional<Error> broken_;
};

}  // namespace gearbox::net
