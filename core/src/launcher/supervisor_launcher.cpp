#include "launcher/supervisor_launcher.hpp"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "gearbox/link/keys.hpp"
#include "serving/control_client.hpp"

namespace gearbox::launcher {

namespace asio = boost::asio;
namespace json = boost::json;

namespace {

constexpr milliseconds kAnswerWait{10000};
constexpr milliseconds kFirstPause{50};
constexpr milliseconds kLongestPause{2000};

/// A wait's end is all that matters here: whoever cancels the timer has set `closed`.
asio::awaitable<void> wait_on(asio::steady_timer& timer) {
  boost::system::error_code ended;
  co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ended));
}

/// May the same order be asked again? Only when the supervisor did not answer it itself; "shutting down" is an answer.
bool supervisor_was_away(Errc code) {
  return code == Errc::unreachable || code == Errc::closed || code == Errc::io_error || code == Errc::timeout ||
         code == Errc::bad_frame;
}

Outcome<int> pid_in(const std::string& answer) {
  boost::system::error_code bad;
  const json::value value = json::parse(answer, bad);
  const json::value* pid = bad || !value.is_object() ? nullptr : value.get_object().if_contains("pid");
  const int number = pid != nullptr && pid->is_number() ? pid->to_number<int>(bad) : 0;
  if (bad || number <= 1) return Error{Errc::bad_frame, "the supervisor's answer names no process"};
  return number;
}

/// Adds what one answer to "workers" tells. True: there are more, behind the last.
Outcome<bool> workers_in(const std::string& answer, std::vector<worker_pool::Launcher::Running>& into) {
  const Error broken{Errc::bad_input, "the supervisor's list of workers cannot be read"};
  boost::system::error_code bad;
  const json::value value = json::parse(answer, bad);
  const json::value* list = bad || !value.is_object() ? nullptr : value.get_object().if_contains("workers");
  if (list == nullptr || !list->is_array()) return broken;
  for (const json::value& each : list->get_array()) {
    const json::object* worker = each.if_object();
    const json::value* pid = worker == nullptr ? nullptr : worker->if_contains("pid");
    const json::value* role = worker == nullptr ? nullptr : worker->if_contains("role");
    const json::value* argv = worker == nullptr ? nullptr : worker->if_contains("argv");
    if (pid == nullptr || role == nullptr || argv == nullptr || !role->is_string() || !argv->is_array()) return broken;
    worker_pool::Launcher::Running& running = into.emplace_back();
    running.pid = pid->is_number() ? pid->to_number<int>(bad) : 0;
    running.role = role->get_string();
    for (const json::value& word : argv->get_array()) {
      if (!word.is_string()) return broken;
      running.argv.emplace_back(word.get_string());
    }
    if (bad || running.pid <= 1) return broken;
  }
  const json::value* more = value.get_object().if_contains("more");
  return more != nullptr && more->is_bool() && more->get_bool() && !into.empty();
}

}  // namespace

struct SupervisorLauncher::State : std::enable_shared_from_this<State> {
  struct Launch {
    std::string command;
    std::function<void(Outcome<int>)> started;
  };

  State(asio::io_context& context, std::filesystem::path path) : io(context), socket(std::move(path)), pause(context) {}

  asio::io_context& io;
  std::filesystem::path socket;
  asio::steady_timer pause;
  std::deque<Launch> waiting;
  bool working = false;
  bool unwanted = false;  // cancel_all() was called
  bool closed = false;
  std::map<int, std::shared_ptr<asio::posix::stream_descriptor>> pidfds;

  /// Keeps a hold of the process itself, for stop(); let go when it ends.
  void hold(int pid) {
    const int descriptor = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
    if (descriptor < 0) return;  // it has ended already: nothing to stop
    auto pidfd = std::make_shared<asio::posix::stream_descriptor>(io, descriptor);
    pidfds[pid] = pidfd;
    pidfd->async_wait(asio::posix::stream_descriptor::wait_read,
                      [self = shared_from_this(), pid, pidfd](const boost::system::error_code& error) {
                        const auto at = self->pidfds.find(pid);
                        if (!error && at != self->pidfds.end() && at->second == pidfd) self->pidfds.erase(at);
                      });
  }

  static asio::awaitable<void> work(std::shared_ptr<State> self) {
    milliseconds next_pause = kFirstPause;
    while (!self->closed && !self->waiting.empty() && !self->unwanted) {
      std::string command = self->waiting.front().command;
      Outcome<std::string> answer =
          co_await serving::ask_control(self->io.get_executor(), self->socket, std::move(command), kAnswerWait);
      if (self->closed) break;
      if (!answer && supervisor_was_away(answer.error().code)) {
        if (self->unwanted) break;
        self->pause.expires_after(next_pause);
        next_pause = std::min(next_pause * 2, kLongestPause);
        co_await wait_on(self->pause);
        continue;
      }
      next_pause = kFirstPause;
      Outcome<int> pid = answer ? pid_in(answer.value()) : Outcome<int>(answer.error());
      if (pid) self->hold(pid.value());
      Launch done = std::move(self->waiting.front());
      self->waiting.pop_front();
      done.started(std::move(pid));
    }
    self->working = false;
    if (self->closed || !self->unwanted) co_return;
    for (Launch& launch : std::exchange(self->waiting, {})) {
      launch.started(Error{Errc::cancelled, "the node stops"});
    }
  }

  using Listed = std::function<void(Outcome<std::vector<Running>>)>;
  static asio::awaitable<void> list_all(std::shared_ptr<State> self, milliseconds within, Listed listed) {
    const Instant until = after(Clock::now(), within);
    std::vector<Running> all;
    asio::steady_timer pause(self->io);
    for (;;) {
      const json::object command{{"command", "workers"}, {"after", all.empty() ? 0 : all.back().pid}};
      std::string text = json::serialize(command);
      Outcome<std::string> answer =
          co_await serving::ask_control(self->io.get_executor(), self->socket, std::move(text), kAnswerWait);
      if (self->closed) co_return;
      if (!answer && supervisor_was_away(answer.error().code) && Clock::now() + kFirstPause < until) {
        pause.expires_after(kFirstPause);
        co_await wait_on(pause);
        if (self->closed) co_return;
        continue;
      }
      Outcome<bool> more = answer ? workers_in(answer.value(), all) : Outcome<bool>(answer.error());
      if (more && more.value()) continue;
      listed(more ? Outcome<std::vector<Running>>(std::move(all)) : Outcome<std::vector<Running>>(more.error()));
      co_return;
    }
  }

  static asio::awaitable<void> stop_one(std::shared_ptr<State> self, int pid, milliseconds grace) {
    const json::object command{{"command", "stop"}, {"pid", pid}, {"grace_ms", grace.count()}};
    std::shared_ptr<asio::posix::stream_descriptor> held;
    if (const auto at = self->pidfds.find(pid); at != self->pidfds.end()) held = at->second;
    std::string text = json::serialize(command);
    Outcome<std::string> answer =
        co_await serving::ask_control(self->io.get_executor(), self->socket, std::move(text), milliseconds(1000));
    if (answer || !held || self->closed) co_return;
    // Nobody does it for us. The descriptor means that very process, whatever happens to the number.
    ::syscall(SYS_pidfd_send_signal, held->native_handle(), SIGTERM, nullptr, 0);
    ::syscall(SYS_pidfd_send_signal, held->native_handle(), SIGCONT, nullptr, 0);
    asio::steady_timer patience(self->io, grace);
    co_await wait_on(patience);
    if (held->is_open()) ::syscall(SYS_pidfd_send_signal, held->native_handle(), SIGKILL, nullptr, 0);
  }
};

SupervisorLauncher::SupervisorLauncher(asio::io_context& io, std::filesystem::path supervisor_socket)
    : state_(std::make_shared<State>(io, std::move(supervisor_socket))) {}

SupervisorLauncher::~SupervisorLauncher() {
  state_->closed = true;
  state_->waiting.clear();
  state_->pause.cancel();
  boost::system::error_code ignored;  // a close that fails leaves nothing to do
  for (auto& [pid, pidfd] : state_->pidfds) pidfd->close(ignored);
  state_->pidfds.clear();
}

void SupervisorLauncher::launch(Order order, std::function<void(Outcome<int>)> started) {
  if (state_->waiting.size() >= kMaxWaiting) {
    asio::post(state_->io, [started = std::move(started)] {
      started(Error{Errc::overloaded, "too many workers wait for the supervisor"});
    });
    return;
  }
  json::array argv;
  for (const std::string& word : order.argv) argv.emplace_back(word);
  json::array env;
  for (const std::string& word : order.env) env.emplace_back(word);
  const json::object command{{"command", "launch"},
                             {"role", order.role},
                             {"argv", std::move(argv)},
                             {"env", std::move(env)},
                             {"order", to_text(link::random_request_id())}};
  State::Launch launch{json::serialize(command), std::move(started)};
  state_->waiting.push_back(std::move(launch));
  if (state_->working) return;
  state_->working = true;
  asio::co_spawn(state_->io, State::work(state_), asio::detached);
}

void SupervisorLauncher::cancel_all() {
  state_->unwanted = true;
  state_->pause.cancel();
}

void SupervisorLauncher::list(milliseconds within, std::function<void(Outcome<std::vector<Running>>)> listed) {
  asio::co_spawn(state_->io, State::list_all(state_, within, std::move(listed)), asio::detached);
}

void SupervisorLauncher::stop(int pid, milliseconds grace) {
  asio::co_spawn(state_->io, State::stop_one(state_, pid, grace), asio::detached);
}

}  // namespace gearbox::launcher
