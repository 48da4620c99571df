// fake_roles: `up` is the real supervisor; central and node only answer their control sockets. For
// test_run_supervisor.py.
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "serving/control.hpp"
#include "serving/stop_signals.hpp"
#include "supervisor/supervisor.hpp"

namespace {

namespace json = boost::json;
using namespace gearbox;

int serve(const std::string& role, const config::StateDir& state) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (std::getenv(("REFUSE_" + role).c_str()) != nullptr) {
    std::printf("tcp://127.0.0.1:1: address in use\n");
    return 2;
  }
  boost::asio::io_context io(1);
  json::object status{{"ready", true}, {"pid", ::getpid()}, {"listen", "tcp://127.0.0.1:1"}};
  auto handler = [status](std::string_view, const json::object&) -> Outcome<json::object> { return status; };
  const auto socket = role == "central" ? state.central_socket() : state.node_socket();
  const auto server = serving::ControlServer::start(io.get_executor(), socket, handler);
  if (!server) {
    std::printf("%s\n", server.error().detail.c_str());
    return 1;
  }
  const bool stubborn = std::getenv(("STUBBORN_" + role).c_str()) != nullptr;
  const serving::StopSignals signals(
      io.get_executor(),
      [&] {
        std::printf("%s was told to stop\n", role.c_str());
        if (!stubborn) io.stop();
      },
      [&] { io.stop(); });
  std::printf("%s serves\n", role.c_str());
  io.run();
  std::printf("%s ends\n", role.c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::string state_path;
  for (int i = 2; i + 1 < argc; ++i) {
    if (std::string(argv[i]) == "--state") state_path = argv[i + 1];
  }
  const Outcome<config::StateDir> state = config::open_state_dir(state_path);
  if (argc < 2 || !state) return 2;
  const std::string role = argv[1];
  if (role != "up") return serve(role, state.value());
  supervisor::SupervisorSetup setup;
  setup.state = state.value();
  setup.config_folder = "/nowhere";
  setup.central = std::getenv("NO_central") == nullptr;
  setup.first_restart = milliseconds(50);
  return supervisor::run_supervisor(setup);
}
