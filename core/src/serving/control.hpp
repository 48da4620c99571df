// control.hpp: questions and orders of the local command line to a running role: control frames with JSON on its unix socket.
//
//   → control         {"command": "status", ...}
//   ← control_answer  {"ok": true, ...facts} or {"ok": false, "error": {"code": 18, "name": "not_found", "detail": "..."}}
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/json/object.hpp>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "gearbox/base/clock.hpp"
#include "gearbox/base/outcome.hpp"

namespace gearbox::serving {

namespace asio = boost::asio;

/// Called on the role's strand; must not block. `request` is the whole object. "ping" is answered before it is asked.
using ControlHandler =
    std::function<Outcome<boost::json::object>(std::string_view command, const boost::json::object& request)>;

/// The text of the control_answer to one control frame's text. For roles that serve other frames on the same socket.
std::string answer_control(const ControlHandler& handler, std::string_view request);

/// Serves control frames on a unix socket of its own.
class ControlServer {
 public:
  /// Errors: those of UnixListener::open.
  static Outcome<std::unique_ptr<ControlServer>> start(asio::any_io_executor executor, const std::filesystem::path& path,
                                                       ControlHandler handler);
  /// Removes the socket and ends all its connections; the last of them lets go of the handler soon after.
  ~ControlServer();

 private:
  struct State;
  explicit ControlServer(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

/// Asks and waits; for the command line and the supervisor. Any thread; blocks.
/// Errors: unreachable (no such role runs), timeout, closed, bad_frame, or what the role answered.
Outcome<boost::json::object> ask_control(const std::filesystem::path& socket, boost::json::object request, milliseconds within);

}  // namespace gearbox::serving
