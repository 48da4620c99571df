// fake_plugin_roles: node and central as far as `broker plugins` sees them: each follows the book of builds. Usage:
// fake_plugin_roles STATE ROLE...; "ROLE=stuck" does not follow. Ends when stdin does.
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/state_dir.hpp"
#include "plugin_host/build_book.hpp"
#include "serving/control.hpp"

namespace {

namespace json = boost::json;
using namespace gearbox;

json::object plugin(const char* kind, const char* version, char digit, const char* state, const std::string& reason) {
  return json::object{{"name", "moody"},
                      {"kind", kind},
                      {"version", version},
                      {"checksum", std::string(64, digit)},
                      {"state", state},
                      {"reason", reason},
                      {"since_unix_ms", 1796000000000},
                      {"calls", 12},
                      {"faults", 1},
                      {"p99_us", 1500},
                      {"file", "/drop/moody.so"}};
}

/// Build 2.0 (b…) from the drop folder as long as it is not barred, else 1.0 (a…).
json::object status_of(const config::StateDir& state, bool stuck) {
  json::array plugins;
  const auto book = plugin_host::read_book(state.plugin_copies());
  const plugin_host::Bar* bar = book && !stuck ? book.value().bar_of(std::string(64, 'b')) : nullptr;
  if (bar == nullptr) {
    plugins.push_back(plugin("balancer", "2.0", 'b', "loaded", ""));
  } else {
    plugins.push_back(plugin("balancer", "1.0", 'a', "loaded", "put back, because 2.0 is barred"));
    plugins.push_back(plugin("balancer", "2.0", 'b', "barred", bar->reason));
  }
  json::object status{{"ready", true}, {"pid", ::getpid()}};
  status["plugins"] = std::move(plugins);
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  const auto state = config::open_state_dir(argc > 1 ? argv[1] : "");
  if (!state || argc < 3) return 2;
  boost::asio::io_context io(1);
  std::vector<std::unique_ptr<serving::ControlServer>> servers;
  for (int i = 2; i < argc; ++i) {
    const std::string_view role = argv[i];
    const bool stuck = role.ends_with("=stuck");
    const auto socket = role.starts_with("node") ? state.value().node_socket() : state.value().central_socket();
    auto handler = [&state, stuck](std::string_view, const json::object&) -> Outcome<json::object> {
      return status_of(state.value(), stuck);
    };
    auto server = serving::ControlServer::start(io.get_executor(), socket, handler);
    if (!server) return 1;
    servers.push_back(std::move(server).value());
  }
  std::printf("serving\n");
  std::fflush(stdout);
  boost::asio::posix::stream_descriptor input(io, ::dup(0));
  input.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                   [&io](const boost::system::error_code&) { io.stop(); });
  io.run();
  return 0;
}
