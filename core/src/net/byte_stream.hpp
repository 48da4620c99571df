// byte_stream.hpp: a connected stream socket: reads and writes what is possible at once, and waits for more with a
// deadline.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/generic/stream_protocol.hpp>

#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <span>

#include "gearbox/base/bytes.hpp"
#include "gearbox/base/clock.hpp"
#include "gearbox/base/outcome.hpp"
#include "gearbox/net/wakeup.hpp"

namespace gearbox::net {

/// One strand. Its own shared object, so that a wait that outlives the stream finds it gone instead of dangling.
class ByteStream : public std::enable_shared_from_this<ByteStream> {
 public:
  static Outcome<std::shared_ptr<ByteStream>> adopt(const asio::any_io_executor& executor, int descriptor);

  /// Bytes read at once into `out`; 0 when nothing is there yet. Never blocks.
  /// Errors: closed (end of the peer's bytes, or closed here); io_error.
  Outcome<std::size_t> read_some(ByteSpan out);
  /// Bytes written at once; 0 when the socket takes none now. `more`: further bytes follow at once.
  /// Errors: closed; io_error.
  Outcome<std::size_t> write_some(std::span<const iovec> parts, bool more);

  /// Errors: timeout; closed (here). After a timeout all is as before. `at_least`: bytes below which waking is not
  /// worth while, a hint that TCP follows; an upload over a slow link would else wake us for each of its packets.
  asio::awaitable<Outcome<void>> wait_readable(Instant deadline, std::size_t at_least = 1);
  asio::awaitable<Outcome<void>> wait_writable(Instant deadline);

  void close();
  bool is_open() const { return open_; }
  int native_handle() { return socket_.native_handle(); }
  asio::any_io_executor executor() { return socket_.get_executor(); }
  std::uint64_t bytes_read() const { return bytes_read_; }
  std::uint64_t bytes_written() const { return bytes_written_; }

  explicit ByteStream(const asio::any_io_executor& executor);  // for adopt() alone

 private:
  using Socket = asio::basic_stream_socket<asio::generic::stream_protocol>;
  /// One direction's wait. The reactor's wait is left standing when the deadline passes and serves the next call.
  struct Side {
    explicit Side(const asio::any_io_executor& executor) : wakeup(executor) {}
    Wakeup wakeup;
    bool standing = false;
  };
  void set_low_water(std::size_t bytes);
  asio::awaitable<Outcome<void>> wait(Side& side, asio::socket_base::wait_type type, Instant deadline);

  Socket socket_;
  Side reading_;
  Side writing_;
  bool open_ = true;
  bool drained_ = false;  // the last read took all there was: asking again would be a call for nothing
  int low_water_ = 1;     // SO_RCVLOWAT as it is set
  std::uint64_t bytes_read_ = 0;
  std::uint64_t bytes_written_ = 0;
};

}  // namespace gearbox::net
