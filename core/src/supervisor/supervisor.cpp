#include "supervisor/supervisor.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "gearbox/base/text.hpp"
#include "serving/control.hpp"
#include "serving/control_client.hpp"
#include "serving/local_socket.hpp"
#include "supervisor/children.hpp"
#include "supervisor/log_follower.hpp"
#include "supervisor/orders.hpp"
#include "supervisor/printer.hpp"
#include "supervisor/readiness.hpp"

namespace gearbox::supervisor {

namespace asio = boost::asio;
namespace json = boost::json;

namespace {

constexpr milliseconds kStatusWait{2000};
constexpr milliseconds kPollWhileStarting{200};
constexpr milliseconds kPollWhenReady{1000};
constexpr milliseconds kSteady{60000};  // a role that lived so long starts its pauses anew
constexpr int kExitRefused = 2;

/// A log line without the time and level in front: "[2026-11-29 23:54:12.587] [error] node: ..." → "node: ...".
std::string without_prefix(std::string_view line) {
  while (line.starts_with('[')) {
    const std::size_t end = line.find("] ");
    if (end == std::string_view::npos) break;
    line.remove_prefix(end + 2);
  }
  return std::string(line);
}

/// central or node: one that this supervisor keeps alive by itself.
struct Role {
  std::string name;
  std::filesystem::path socket;
  bool wanted = false;
  bool was_ready = false;  // ever: then exit code 2 is no longer a reason to give up
  std::string shown;       // the readiness line shown last
  unsigned restarts = 0;
  milliseconds pause{0};
  std::unique_ptr<asio::steady_timer> restart;
  std::unique_ptr<asio::steady_timer> poll;
};

class Supervisor {
 public:
  explicit Supervisor(const SupervisorSetup& setup)
      : setup_(setup),
        executable_(executable_of(::getpid())),
        printer_(1),
        logs_([this](std::string_view role, std::string_view line) { printer_.line(role, line); },
              setup.log_limit_bytes),
        signals_(io_, SIGTERM, SIGINT),
        log_changes_(io_),
        log_tick_(io_),
        children_(io_, setup.state, logs_) {}

  int run() {
    if (!lock()) return 1;
    children_.on_say([this](std::string line) { say(std::move(line)); });
    children_.on_end([this](const Ended& ended) { child_ended(ended); });
    add_role("central", setup_.state.central_socket(), setup_.central);
    add_role("node", setup_.state.node_socket(), setup_.node);
    children_.adopt_recorded();
    auto server = serving::ControlServer::start(
        io_.get_executor(), setup_.state.supervisor_socket(),
        [this](std::string_view command, const json::object& request) { return answer(command, request); });
    if (!server) {
      say("cannot listen: " + server.error().detail);
      return 1;
    }
    server_ = std::move(server).value();
    struct sigaction hangup {};
    ::sigaction(SIGHUP, nullptr, &hangup);
    if (hangup.sa_handler != SIG_IGN) signals_.add(SIGHUP);  // under nohup a terminal that goes is no reason to stop
    await_signal();
    await_logs();
    tick_logs();
    end_what_nobody_names();
    for (Role& role : roles_) {
      if (!stopping_) begin(role);
    }
    io_.run();
    logs_.poll();
    return exit_code_;
  }

 private:
  void say(std::string line) { printer_.line("supervisor", line); }

  bool lock() {
    const std::filesystem::path file = setup_.state.run() / "supervisor.lock";
    // Held as long as this process lives, and given back by the kernel however it ends.
    const int descriptor = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (descriptor < 0) {
      say(file.string() + ": " + std::strerror(errno));
      return false;
    }
    if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
      std::string owner(16, '\0');
      const ssize_t got = ::pread(descriptor, owner.data(), owner.size(), 0);
      owner.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
      say("another supervisor (pid " + escaped(owner) + ") already serves the state folder " +
          setup_.state.root.string() + "; stop it first, or give this one its own with --state");
      ::close(descriptor);
      return false;
    }
    const std::string own = std::to_string(::getpid());
    if (::ftruncate(descriptor, 0) != 0 || ::pwrite(descriptor, own.data(), own.size(), 0) < 0) {
      say(file.string() + ": cannot be written: " + std::strerror(errno));  // only the message above needs it
    }
    return true;
  }

  void add_role(std::string name, std::filesystem::path socket, bool wanted) {
    Role role;
    role.name = std::move(name);
    role.socket = std::move(socket);
    role.wanted = wanted;
    role.restart = std::make_unique<asio::steady_timer>(io_);
    role.poll = std::make_unique<asio::steady_timer>(io_);
    roles_.push_back(std::move(role));
  }

  Role* role_of(std::string_view name) {
    for (Role& role : roles_) {
      if (role.name == name) return &role;
    }
    return nullptr;
  }

  void end_what_nobody_names() {
    const Role* node = role_of("node");
    for (const ChildView& child : children_.list()) {
      const Role* role = role_of(child.role);
      const bool named = (role != nullptr && role->wanted) || (is_worker(child.role) && node->wanted);
      // A supervisor without roles of its own serves a node that somebody else starts, and its workers.
      if (named || (!setup_.central && !setup_.node)) continue;
      say(child.role + " (pid " + std::to_string(child.pid) + ") is not in the configuration: it is ended");
      children_.stop(child.pid, role != nullptr ? setup_.node_grace : setup_.worker_grace);
    }
  }

  void begin(Role& role) {
    if (!role.wanted) return;
    const int adopted = children_.pid_of(role.name);
    // Whoever serves the role's socket must be the process of the record; another one was started by other hands.
    if (const Outcome<int> socket = serving::connect_local(role.socket)) {
      const Outcome<serving::PeerIdentity> peer = serving::peer_of(socket.value());
      ::close(socket.value());
      if (peer && peer.value().pid != adopted) {
        role.wanted = false;
        give_up(1, role.socket.string() + " is served by process " + std::to_string(peer.value().pid) +
                       ", which no record of a supervisor names: stop it first");
        return;
      }
    }
    if (adopted == 0) start(role);
    asio::co_spawn(io_, watch(this, &role), asio::detached);
  }

  void start(Role& role) {
    std::vector<std::string> argv = {
        executable_, role.name, "--config", setup_.config_folder.string(), "--state", setup_.state.root.string()};
    const Outcome<int> pid = children_.start(role.name, std::move(argv), {});
    if (pid) return;
    if (pid.error().code == Errc::no_space) {
      say(pid.error().detail);
      restart_later(role);
      return;
    }
    give_up(1, role.name + ": " + pid.error().detail);
  }

  void restart_later(Role& role) {
    role.pause = role.pause.count() == 0 ? setup_.first_restart : std::min(role.pause * 2, setup_.longest_restart);
    ++role.restarts;
    say(role.name + " is started again in " + std::to_string(role.pause.count()) + " ms");
    role.restart->expires_after(role.pause);
    role.restart->async_wait([this, &role](const boost::system::error_code& error) {
      if (!error && !stopping_) start(role);
    });
  }

  void child_ended(const Ended& ended) {
    Role* role = role_of(ended.role);
    const std::string reason = without_prefix(ended.last_line);
    if (!stopping_ && role != nullptr && role->wanted && ended.exit_code == kExitRefused && !role->was_ready) {
      give_up(kExitRefused, role->name + " cannot start: " + reason);
      return;
    }
    if (!(ended.asked && ended.exit_code == 0)) {
      std::string line = ended.role + " (pid " + std::to_string(ended.pid) + ") ended: " + ended.how();
      if (ended.exit_code > 0 && !reason.empty()) line += ": " + reason;
      say(std::move(line));
    }
    if (stopping_) {
      go_on_stopping();
    } else if (role != nullptr && role->wanted) {
      role->shown.clear();
      if (ended.lived >= kSteady) role->pause = milliseconds{0};
      restart_later(*role);
    }
  }

  /// Asks the role now and then how it is, and tells when that changes.
  static asio::awaitable<void> watch(Supervisor* self, Role* role) {
    while (!self->stopping_) {
      std::string question = R"({"command":"status"})";
      Outcome<std::string> status =
          co_await serving::ask_control(self->io_.get_executor(), role->socket, std::move(question), kStatusWait);
      if (self->stopping_) break;
      bool ready = false;
      if (status) {
        Outcome<Readiness> readiness = read_readiness(role->name, status.value());
        if (readiness) {
          ready = readiness.value().ready;
          role->was_ready = role->was_ready || ready;
          // What is still starting is told once it stays so; being ready at once.
          if (readiness.value().line != role->shown) {
            role->shown = readiness.value().line;
            self->say(role->shown);
          }
        }
      }
      role->poll->expires_after(ready ? kPollWhenReady : kPollWhileStarting);
      boost::system::error_code cancelled;
      co_await role->poll->async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
    }
  }

  void await_signal() {
    if (finished_) return;
    signals_.async_wait([this](const boost::system::error_code& error, int number) {
      if (error) return;
      if (!stopping_) {
        say(std::string("got ") +
            (number == SIGINT   ? "SIGINT"
             : number == SIGHUP ? "SIGHUP"
                                : "SIGTERM") +
            ": stopping; a second one hurries");
        begin_stopping();
      } else if (!hurried_) {
        hurried_ = true;
        say("hurrying: everything is killed");
        children_.kill_all();
      }
      await_signal();
    });
  }

  void give_up(int code, const std::string& why) {
    say(why);
    exit_code_ = code;
    if (!stopping_) begin_stopping();
  }

  void begin_stopping() {
    stopping_ = true;
    for (Role& role : roles_) {
      role.restart->cancel();
      role.poll->cancel();
    }
    go_on_stopping();
  }

  /// The node first, which drains and ends its workers; then workers that are left; central last.
  void go_on_stopping() {
    if (finished_) return;
    const std::vector<ChildView> left = children_.list();
    const auto any = [&](auto&& chosen) {
      bool found = false;
      for (const ChildView& child : left) {
        if (!chosen(child)) continue;
        found = true;
        if (!child.stopping) children_.stop(child.pid, grace_of(child.role));
      }
      return found;
    };
    if (any([](const ChildView& child) { return child.role == "node"; })) return;
    if (any([](const ChildView& child) { return child.role != "central"; })) return;
    if (any([](const ChildView&) { return true; })) return;
    finished_ = true;
    finish();
  }

  milliseconds grace_of(std::string_view role) const {
    if (role == "node") return setup_.node_grace;
    return role == "central" ? setup_.central_grace : setup_.worker_grace;
  }

  void finish() {
    say("stopped; nothing is left running");
    boost::system::error_code ignored;  // cancelling cannot fail in a way that matters at the end
    signals_.cancel(ignored);
    log_changes_.close(ignored);
    log_tick_.cancel();
    server_.reset();
    children_.shut_down();
    // A role that was killed could not remove its socket.
    std::error_code gone;
    for (const Role& role : roles_) {
      const Outcome<int> served = serving::connect_local(role.socket);  // by other hands than ours: not ours to remove
      if (served) ::close(served.value());
      if (role.wanted && !served) std::filesystem::remove(role.socket, gone);
    }
    if (role_of("node")->wanted) std::filesystem::remove(setup_.state.workers_socket(), gone);
    // The lock's file stays: removed, two others could each hold a lock on "it".
  }

  void await_logs() {
    if (!log_changes_.is_open()) {
      const int descriptor = ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
      if (descriptor < 0) return;  // then the tick alone shows them
      log_changes_.assign(descriptor);
      ::inotify_add_watch(descriptor, setup_.state.logs().c_str(), IN_MODIFY | IN_CREATE);
    }
    log_changes_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const boost::system::error_code& error) {
      if (error) return;
      std::array<char, 4096> events;
      while (::read(log_changes_.native_handle(), events.data(), events.size()) > 0) {
      }
      logs_.poll();
      await_logs();
    });
  }

  void tick_logs() {
    log_tick_.expires_after(std::chrono::seconds(1));
    log_tick_.async_wait([this](const boost::system::error_code& error) {
      if (error) return;
      logs_.poll();
      tick_logs();
    });
  }

  Outcome<json::object> answer(std::string_view command, const json::object& request) {
    if (command == "launch") return launch(request);
    if (command == "stop") return stop_worker(request);
    if (command == "list" || command == "status") return list();
    return Error{Errc::bad_input,
                 "no control command '" + escaped(command, 64) + "': there are launch, stop, list, status"};
  }

  Outcome<json::object> launch(const json::object& request) {
    if (stopping_) return Error{Errc::shutting_down, "the supervisor is stopping"};
    BOOST_OUTCOME_TRY(LaunchOrder order, read_launch(request));
    const Outcome<int> pid = children_.start(order.role, std::move(order.argv), std::move(order.env), order.order);
    if (pid) return json::object{{"pid", pid.value()}};
    // Not as io_error: the asker would take it for a broken connection and ask again for ever.
    return Error{pid.error().code == Errc::no_space ? Errc::no_space : Errc::bad_input, pid.error().detail};
  }

  Outcome<json::object> stop_worker(const json::object& request) {
    BOOST_OUTCOME_TRY(const StopOrder order, read_stop(request));
    for (const ChildView& child : children_.list()) {
      if (child.pid != order.pid) continue;
      if (!is_worker(child.role)) return Error{Errc::not_allowed, child.role + " is not stopped through this socket"};
      children_.stop(order.pid, order.grace);
      return json::object{{"pid", order.pid}};
    }
    return Error{Errc::not_found, "no child has pid " + std::to_string(order.pid)};
  }

  Outcome<json::object> list() {
    json::array children;
    for (const ChildView& child : children_.list()) {
      const Role* role = role_of(child.role);
      json::object each{{"role", child.role},
                        {"pid", child.pid},
                        {"adopted", child.adopted},
                        {"stopping", child.stopping},
                        {"uptime_s", child.lived.count() / 1000},
                        {"restarts", role == nullptr ? 0U : role->restarts}};
      children.push_back(std::move(each));
    }
    json::object out{{"name", "supervisor"},  {"version", GEARBOX_VERSION},
                     {"pid", ::getpid()},     {"config", setup_.config_folder.string()},
                     {"stopping", stopping_}, {"children", std::move(children)}};
    return out;
  }

  SupervisorSetup setup_;
  std::string executable_;
  asio::io_context io_{1};
  Printer printer_;
  LogFollower logs_;
  asio::signal_set signals_;
  asio::posix::stream_descriptor log_changes_;
  asio::steady_timer log_tick_;
  Children children_;
  std::unique_ptr<serving::ControlServer> server_;
  std::vector<Role> roles_;
  bool stopping_ = false;
  bool hurried_ = false;
  bool finished_ = false;
  int exit_code_ = 0;
};

/// Descriptors 0 to 2 must be something, or what is opened next would take their place in every child.
void fill_standard_descriptors() {
  for (int descriptor = ::open("/dev/null", O_RDWR); descriptor >= 0; descriptor = ::open("/dev/null", O_RDWR)) {
    if (descriptor > 2) {
      ::close(descriptor);
      return;
    }
  }
}

}  // namespace

int run_supervisor(const SupervisorSetup& setup) {
  fill_standard_descriptors();
  ::signal(SIGPIPE, SIG_IGN);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  auto supervisor = std::make_unique<Supervisor>(setup);
  return supervisor->run();
}

}  // namespace gearbox::supervisor
