// fake_roles: `up` is the real supervisor; central and node only answer their control sockets, and do in a call of a
// plugin what IN_A_CALL_role says. For test_run_supervisor.py.
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include "plugin_host/build_book.hpp"
#include "plugin_host/call_record.hpp"
#include "serving/control.hpp"
#include "serving/service_notify.hpp"
#include "serving/stop_signals.hpp"
#include "supervisor/supervisor.hpp"

namespace {

namespace json = boost::json;
using namespace gearbox;

const std::string kChecksum(64, 'a');

/// What `what` says, in the middle of a call.
void misbehave(const std::string& what) {
  ::signal(SIGSEGV, SIG_DFL);  // a sanitizer would make an exit of it
  if (what == "crash") ::raise(SIGSEGV);
  if (what == "abort") ::abort();
  if (what == "exit") ::_exit(2);
  while (what == "hang") ::pause();
}

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
  const char* in_a_call = std::getenv(("IN_A_CALL_" + role).c_str());
  const auto record = plugin_host::CallRecord::create(state.calling_record(role));
  const auto book = plugin_host::read_book(state.plugin_copies());
  if (!record || !book) return 1;
  const auto label = plugin_host::CallRecord::label("balancer", "moody", "2.0", kChecksum);
  const Instant now = Clock::now();
  const milliseconds hang(std::getenv("HANG_MS") == nullptr ? 60000 : std::atoi(std::getenv("HANG_MS")));
  std::optional<plugin_host::CallRecord::Mark> mark;
  // As a real role: a build that is barred is not called again.
  if (in_a_call != nullptr && book.value().bar_of(kChecksum) == nullptr) {
    mark.emplace(*record.value(), label, "pick", now, after(now, hang));
    boost::asio::post(io, [in_a_call] { misbehave(in_a_call); });
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
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  const std::string role = argv[1];
  if (role != "up") return serve(role, state.value());
  supervisor::SupervisorSetup setup;
  setup.state = state.value();
  setup.config_folder = "/nowhere";
  setup.central = std::getenv("NO_central") == nullptr;
  setup.first_restart = milliseconds(50);
  setup.notify = serving::notify_settings_of_environment();
  return supervisor::run_supervisor(setup);
}
