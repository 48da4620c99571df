// control_server.hpp: the supervisor's socket: the node asks here for workers, people for a list.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "gearbox/base/outcome.hpp"
#include "gearbox/net/frame_stream.hpp"

namespace gearbox::supervisor {

/// Accepts on a unix socket, lets only our own user in (SO_PEERCRED), and answers control frames one after the other on each
/// connection. One strand.
class ControlServer {
 public:
  static constexpr std::size_t kMaxConnections = 64;
  /// Gets the command's JSON, returns the answer's. Errors go back as they are.
  using Handler = std::function<Outcome<std::string>(const std::string& command)>;

  /// Errors: io_error.
  static Outcome<std::unique_ptr<ControlServer>> listen(boost::asio::io_context& io, const std::filesystem::path& socket,
                                                        Handler handler);
  ~ControlServer();
  /// Closes all connections and removes the socket.
  void close();

 private:
  ControlServer(boost::asio::io_context& io, std::filesystem::path socket, int descriptor, Handler handler);
  void await_one();
  void accept_waiting();
  static boost::asio::awaitable<void> serve(std::shared_ptr<net::FrameStream> stream, std::shared_ptr<Handler> handler);

  boost::asio::io_context& io_;
  std::filesystem::path path_;
  boost::asio::posix::stream_descriptor listening_;
  std::shared_ptr<Handler> handler_;                    // emptied at close: connections that end later find nobody
  std::set<std::weak_ptr<net::FrameStream>, std::owner_less<>> streams_;
};

}  // namespace gearbox::supervisor
