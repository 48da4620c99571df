#include "supervisor/supervisor.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "gearbox/base/text.hpp"
#include "serving/control.hpp"
#include "serving/local_socket.hpp"
#include "supervisor/children.hpp"
#include "supervisor/log_follower.hpp"
#include "supervisor/orders.hpp"
#include "supervisor/printer.hpp"
#include "supervisor/roles.hpp"
#include "supervisor/stopping.hpp"

namespace gearbox::supervisor {

namespace asio = boost::asio;
namespace json = boost::json;

namespace {

constexpr int kExitRefused = 2;
constexpr milliseconds kNodeEnds{20'000};         // after its drain
constexpr milliseconds kManagerSlack{10'000};     // of the service manager, beyond what we take at most
constexpr std::size_t kMaxListBytes = 32 * 1024;  // of "workers" in one answer; a command line is shorter than the rest

/// A log line without the time and level in front: "[2026-11-29 23:54:12.587] [error] node: ..." → "node: ...".
std::string without_prefix(std::string_view line) {
  while (line.starts_with('[')) {
    const std::size_t end = line.find("] ");
    if (end == std::string_view::npos) break;
    line.remove_prefix(end + 2);
  }
  return std::string(line);
}

class Supervisor {
 public:
  explicit Supervisor(const SupervisorSetup& setup)
      : setup_(setup),
        printer_(1),
        logs_([this](std::string_view role, std::string_view line) { printer_.line(role, line); },
              setup.log_limit_bytes),
        signals_(io_, SIGTERM, SIGINT),
        log_changes_(io_),
        log_tick_(io_),
        children_(io_, setup.state, logs_),
        roles_(io_, setup_, executable_of(::getpid()), children_),
        stopping_(io_, setup_, children_),
        notify_(io_.get_executor(), setup.notify) {}

  int run() {
    if (!lock()) return 1;
    children_.on_say([this](std::string line) { say(std::move(line)); });
    roles_.on_say([this](std::string line) { say(std::move(line)); });
    roles_.on_give_up([this](const std::string& why) { give_up(1, why); });
    roles_.on_change([this] { tell_manager(); });
    stopping_.on_say([this](std::string line) { say(std::move(line)); });
    stopping_.on_progress(
        [this](const std::string& line, milliseconds within) { notify_.stopping(line, within + kManagerSlack); });
    // Not from inside an answer of the server, which ends with it.
    stopping_.on_done([this] { asio::post(io_, [this] { finish(); }); });
    children_.on_end([this](const Ended& ended) { child_ended(ended); });
    use_memory_groups();
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
    notify_.start();
    end_what_nobody_names();
    roles_.begin();
    tell_manager();
    io_.run();
    logs_.poll();
    return exit_code_;
  }

 private:
  void say(std::string line) { printer_.line("supervisor", line); }

  /// A supervisor that was killed may have left a child that it had only just forked: that holds the lock, too, until
  /// it has seen that it is alone. False: the owner lives.
  static bool lock_of_the_dead(int descriptor, int owner) {
    constexpr milliseconds kLetGo{2000};
    constexpr milliseconds kLook{20};
    if (owner <= 1 || !ends_soon(owner)) return false;
    const Instant until = after(Clock::now(), kLetGo);
    while (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
      if (Clock::now() >= until) return false;
      std::this_thread::sleep_for(kLook);
    }
    return true;
  }

  bool lock() {
    const std::filesystem::path file = setup_.state.run() / "supervisor.lock";
    // Held as long as this process lives, and given back by the kernel however it ends.
    const int descriptor = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (descriptor < 0) {
      say(file.string() + ": " + std::strerror(errno));
      return false;
    }
    bool locked = ::flock(descriptor, LOCK_EX | LOCK_NB) == 0;
    std::string owner(16, '\0');
    if (!locked) {
      const ssize_t got = ::pread(descriptor, owner.data(), owner.size(), 0);
      owner.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
      locked = lock_of_the_dead(descriptor, std::atoi(owner.c_str()));
    }
    if (!locked) {
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

  void use_memory_groups() {
    Outcome<GroupPlace> place = own_group();
    MemoryGroups groups;
    if (place) groups = MemoryGroups(std::move(place).value(), installation_of(setup_.state.root));
    children_.use(std::move(groups), place ? std::string() : place.error().detail);
  }

  void end_what_nobody_names() {
    for (const ChildView& child : children_.list()) {
      const bool named = roles_.wants(child.role) || (is_worker(child.role) && roles_.wants("node"));
      // A supervisor without roles of its own serves a node that somebody else starts, and its workers.
      if (named || (!setup_.central && !setup_.node)) continue;
      say(child.role + " (pid " + std::to_string(child.pid) + ") is not in the configuration: it is ended");
      children_.stop(child.pid, is_worker(child.role) ? setup_.worker_grace : setup_.node_drain + kNodeEnds);
    }
  }

  void child_ended(const Ended& ended) {
    const std::string reason = without_prefix(ended.last_line);
    const PluginCharges::Verdict verdict = roles_.judge(ended);
    if (!stopping_.has_begun() && !verdict.to_blame && roles_.refuses(ended)) {
      give_up(kExitRefused, ended.role + " cannot start: " + reason);
      return;
    }
    if (!(ended.asked && ended.exit_code == 0)) {
      std::string line = ended.role + " (pid " + std::to_string(ended.pid) + ") ended: " + ended.how();
      if (ended.exit_code > 0 && !reason.empty()) line += ": " + reason;
      say(std::move(line));
    }
    if (verdict.to_blame) say(verdict.line);
    if (stopping_.has_begun()) {
      stopping_.child_ended(ended);
    } else {
      roles_.start_again(ended, verdict.at_once);
    }
  }

  void await_signal() {
    if (finished_) return;
    signals_.async_wait([this](const boost::system::error_code& error, int number) {
      if (error) return;
      if (!stopping_.has_begun()) {
        say(std::string("got ") +
            (number == SIGINT   ? "SIGINT"
             : number == SIGHUP ? "SIGHUP"
                                : "SIGTERM") +
            ": stopping; a second one hurries");
        begin_stopping({});
      } else {
        stopping_.hurry();
      }
      await_signal();
    });
  }

  void give_up(int code, const std::string& why) {
    say(why);
    exit_code_ = code;
    if (!stopping_.has_begun()) begin_stopping({});
  }

  void begin_stopping(std::optional<milliseconds> within) {
    roles_.stop();
    stopping_.begin(within);
  }

  /// The doors are open as soon as each role answers: from then on devices are told what is not ready yet, which may
  /// take minutes, so the manager does not wait for it.
  void tell_manager() {
    if (stopping_.has_begun()) return;
    if (roles_.all_answered()) {
      notify_.ready(roles_.summary());
    } else {
      notify_.status(roles_.summary());
    }
  }

  Outcome<json::object> drain(const json::object& request) {
    if (!setup_.central && !setup_.node) {
      return Error{Errc::not_allowed, "the roles here are services of their own: stop those"};
    }
    BOOST_OUTCOME_TRY(const milliseconds within, read_drain(request));
    say("asked to drain within " + std::to_string(within.count()) + " ms: stopping");
    begin_stopping(within);
    return json::object{{"pid", ::getpid()}, {"within_ms", within.count()}};
  }

  Outcome<json::object> hear_unfinished(const json::object& request) {
    BOOST_OUTCOME_TRY(const UnfinishedOrder order, read_unfinished(request));
    if (stopping_.has_begun()) stopping_.unfinished(order.failed, order.kept);
    return json::object{};
  }

  void finish() {
    say("stopped; nothing is left running");
    finished_ = true;
    notify_.end();
    if (const Outcome<void> told = write_stop_report(stop_report_file(setup_.state), ::getpid(), stopping_.report());
        !told) {
      say(told.error().detail);
    }
    boost::system::error_code ignored;  // cancelling cannot fail in a way that matters at the end
    signals_.cancel(ignored);
    log_changes_.close(ignored);
    log_tick_.cancel();
    server_.reset();
    children_.shut_down();
    children_.give_groups_back();
    roles_.remove_sockets();
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
      children_.sweep();
      tick_logs();
    });
  }

  Outcome<json::object> answer(std::string_view command, const json::object& request) {
    if (command == "launch") return launch(request);
    if (command == "stop") return stop_worker(request);
    if (command == "limit") return limit_worker(request);
    if (command == "ended") return tell_end(request);
    if (command == "workers") return list_workers(request);
    if (command == "drain") return drain(request);
    if (command == "unfinished") return hear_unfinished(request);
    if (command == "list" || command == "status") return list();
    return Error{Errc::bad_input, "no control command '" + escaped(command, 64) +
                                      "': there are launch, stop, limit, ended, workers, drain, list, status"};
  }

  Outcome<json::object> launch(const json::object& request) {
    if (stopping_.has_begun()) return Error{Errc::shutting_down, "the supervisor is stopping"};
    BOOST_OUTCOME_TRY(LaunchOrder order, read_launch(request));
    const Outcome<int> pid =
        children_.start(order.role, std::move(order.argv), std::move(order.env), order.order, order.memory_limit);
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

  Outcome<json::object> limit_worker(const json::object& request) {
    BOOST_OUTCOME_TRY(const LimitOrder order, read_limit(request));
    children_.limit(order.pid, order.memory_limit);
    return json::object{{"pid", order.pid}};
  }

  /// The asker may have seen the end before us: then we look now.
  Outcome<json::object> tell_end(const json::object& request) {
    BOOST_OUTCOME_TRY(const int pid, read_pid(request));
    children_.reap();
    if (children_.knows(pid)) return json::object{{"running", true}};
    const Ended* const ended = children_.end_of(pid);
    if (ended == nullptr) return Error{Errc::not_found, "no child had pid " + std::to_string(pid)};
    return json::object{{"how", ended->is_known() ? ended->how() : std::string()}, {"outgrown", ended->outgrown != 0}};
  }

  /// What a new node needs to know its last life's workers by; those that are told to stop left out.
  Outcome<json::object> list_workers(const json::object& request) {
    BOOST_OUTCOME_TRY(const int after, read_after(request));
    json::array workers;
    std::size_t bytes = 0;
    bool more = false;
    for (const ChildView& child : children_.list()) {  // by pid
      if (child.pid <= after || child.stopping || !is_worker(child.role)) continue;
      if (more = bytes > kMaxListBytes; more) break;
      json::array argv;
      for (const std::string& word : child.argv) argv.emplace_back(word);
      json::object each{{"role", child.role}, {"pid", child.pid}, {"argv", std::move(argv)}};
      bytes += json::serialize(each).size();
      workers.push_back(std::move(each));
    }
    return json::object{{"workers", std::move(workers)}, {"more", more}};
  }

  Outcome<json::object> list() {
    json::array children;
    for (const ChildView& child : children_.list()) {
      json::object each{{"role", child.role},
                        {"pid", child.pid},
                        {"adopted", child.adopted},
                        {"stopping", child.stopping},
                        {"uptime_s", child.lived.count() / 1000},
                        {"restarts", roles_.restarts(child.role)}};
      children.push_back(std::move(each));
    }
    json::object out{{"name", "supervisor"},
                     {"version", GEARBOX_VERSION},
                     {"pid", ::getpid()},
                     {"config", setup_.config_folder.string()},
                     {"stopping", stopping_.has_begun()},
                     {"children", std::move(children)}};
    if (stopping_.has_begun()) out["stop"] = stopping_.facts();
    return out;
  }

  SupervisorSetup setup_;
  asio::io_context io_{1};
  Printer printer_;
  LogFollower logs_;
  asio::signal_set signals_;
  asio::posix::stream_descriptor log_changes_;
  asio::steady_timer log_tick_;
  Children children_;
  Roles roles_;
  Stopping stopping_;
  serving::ServiceNotify notify_;
  std::unique_ptr<serving::ControlServer> server_;
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
