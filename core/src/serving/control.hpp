// control.hpp: questions and orders of the local command line to a running role: control frames with JSON on its unix
// socket.
//
//   → control         {"command": "status", ...}
//   ← control_answer  {...facts}, or error with a wire::ErrorMessage
// The asking side is serving/control_client.hpp.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/json/object.hpp>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "gearbox/base/outcome.hpp"

namespace gearbox::serving {

namespace asio = boost::asio;

/// Called on the role's strand; must not block. `request` is the whole object. "ping" is answered before it is asked.
using ControlHandler =
    std::function<Outcome<boost::json::object>(std::string_view command, const boost::json::object& request)>;

/// The text of the control_answer to one control frame's text. For roles that serve other frames on the same socket.
/// Errors: bad_frame, too_large (the answer), or the handler's: to be sent back in an error frame.
Outcome<std::string> answer_control(const ControlHandler& handler, std::string_view request);

/// Serves control frames on a unix socket of its own, to this user and root.
class ControlServer {
 public:
  /// Errors: those of UnixListener::open.
  static Outcome<std::unique_ptr<ControlServer>> start(asio::any_io_executor executor,
                                                       const std::filesystem::path& path, ControlHandler handler);
  /// Removes the socket and ends all its connections; the handler is not called after that.
  ~ControlServer();

 private:
  struct State;
  explicit ControlServer(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace gearbox::serving
