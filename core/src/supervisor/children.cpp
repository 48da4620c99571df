#include "supervisor/children.hpp"

#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "gearbox/base/stop_point.hpp"
#include "gearbox/base/text.hpp"
#include "supervisor/spawn.hpp"

namespace gearbox::supervisor {

namespace asio = boost::asio;

namespace {
constexpr std::size_t kMostPast = 256;  // children that are gone and remembered
}

std::string Ended::how() const {
  if (outgrown != 0) return "took more than its memory limit of " + std::to_string(outgrown >> 20) + " MB";
  if (signal != 0) {
    const char* const name = ::sigabbrev_np(signal);
    std::string text = "killed by signal " + std::to_string(signal);
    if (name != nullptr) text += std::string(" (SIG") + name + ")";
    return text;
  }
  if (exit_code >= 0) return "exit code " + std::to_string(exit_code);
  return "ended";
}

Children::Children(asio::io_context& io, config::StateDir state, LogFollower& logs)
    : io_(io), state_(std::move(state)), logs_(logs), child_signal_(io, SIGCHLD) {
  await_signal();
}

Children::~Children() = default;

void Children::await_signal() {
  if (shut_) return;  // reaping the last one may have ended everything
  child_signal_.async_wait([this](const boost::system::error_code& error, int) {
    if (error) return;
    reap();
    await_signal();
  });
}

void Children::reap() {
  for (;;) {
    // Looked at first, taken afterwards: while it is a zombie its pid and its group's number cannot be given to others.
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
    const int pid = info.si_pid;
    if (children_.contains(pid)) ::kill(-pid, SIGKILL);  // what a role leaves behind ends with it
    int status = 0;
    if (::waitpid(pid, &status, 0) == pid) gone(pid, status, true);
  }
}

Outcome<int> Children::start(const std::string& role, std::vector<std::string> argv, std::vector<std::string> env,
                             const std::string& order, std::uint64_t memory_limit) {
  if (!order.empty()) {
    for (const auto& [pid, child] : children_) {
      if (child.record.order == order) return pid;
    }
  }
  const std::filesystem::path log = state_.log_file(role);
  logs_.follow(role, log);
  std::error_code error;
  Child child;
  child.record.role = role;
  child.record.boot_id = own_boot_id();
  child.record.argv = argv;
  child.record.exe = std::filesystem::canonical(argv.front(), error).string();  // what the child will be
  child.record.order = order;
  SpawnOrder spawned{.argv = std::move(argv), .env = std::move(env), .log = log, .forked = {}};
  // The record is there before the program runs: whenever we are killed, the next supervisor knows it, or it never ran.
  spawned.forked = [&](int pid) {
    stop_point("supervisor.child.forked");
    child.record.pid = pid;
    const Outcome<std::uint64_t> started = start_time_of(pid);
    if (started) child.record.start_time = started.value();
    child.record_file = free_record_file(role, pid);
    if (memory_limit > 0) make_group(child, pid, memory_limit);
    keep_record(child);
  };
  const Outcome<int> spawn_result = spawn(spawned);
  if (!spawn_result) {
    if (!child.record_file.empty()) std::filesystem::remove(child.record_file, error);
    if (!child.record.cgroup.empty()) leftovers_.emplace_back(child.record.cgroup);
    return spawn_result.error();
  }
  const int pid = spawn_result.value();
  child.since = Clock::now();
  // A script's executable is its interpreter.
  if (std::string exe = executable_of(pid); !exe.empty() && exe != child.record.exe) {
    child.record.exe = std::move(exe);
    keep_record(child);
  }
  children_.emplace(pid, std::move(child));
  stop_point("supervisor.child.started");
  return pid;
}

void Children::keep_record(const Child& child) {
  if (const Outcome<void> written = write_record(child.record_file, child.record); !written) {
    // Served all the same: only the next supervisor would not know it.
    say_("no record for " + child.record.role + ": " + written.error().detail);
  }
}

std::filesystem::path Children::free_record_file(const std::string& role, int pid) const {
  const std::filesystem::path usual = state_.process_record(role);
  for (const auto& [other, child] : children_) {
    // A worker that a dead node left and that has not ended yet may still hold the name.
    if (child.record_file == usual) return state_.process_record(role + "." + std::to_string(pid));
  }
  return usual;
}

void Children::adopt_recorded() {
  std::error_code error;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(state_.run(), error)) {
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  }
  for (const std::filesystem::path& file : files) {
    Outcome<ProcessRecord> record = read_record(file);
    const bool live = record && is_name(record.value().role) && still_runs(record.value());
    Child child;
    if (live) {
      child.record = std::move(record).value();
      child.record_file = file;
      child.adopted = true;
      child.since = Clock::now();
    } else if (record && !record.value().cgroup.empty()) {
      leftovers_.emplace_back(record.value().cgroup);
    }
    if (!live || !watch(child)) {
      std::filesystem::remove(file, error);
      continue;
    }
    logs_.follow(child.record.role, state_.log_file(child.record.role));
    say_("adopted " + child.record.role + " (pid " + std::to_string(child.record.pid) + ")");
    const int pid = child.record.pid;
    children_.emplace(pid, std::move(child));
  }
  // Nobody knows of those any more: their records were lost, or never written.
  for (std::filesystem::path& group : groups_.list()) {
    const bool known = std::any_of(children_.begin(), children_.end(),
                                   [&](const auto& each) { return each.second.record.cgroup == group.string(); });
    if (!known) leftovers_.push_back(std::move(group));
  }
  sweep();
}

Outcome<void> Children::watch(Child& child) {
  const int pid = child.record.pid;
  const int descriptor = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (descriptor < 0) return Error{Errc::not_found, std::strerror(errno)};
  child.pidfd = std::make_unique<asio::posix::stream_descriptor>(io_, descriptor);
  // Asked again with the descriptor in hand: the process could have ended, and its pid been given away, just before.
  if (!still_runs(child.record)) return Error{Errc::not_found, "ended meanwhile"};
  child.pidfd->async_wait(asio::posix::stream_descriptor::wait_read,
                          [this, pid](const boost::system::error_code& failed) {
                            if (!failed) gone(pid, 0, false);
                          });
  return done();
}

void Children::gone(int pid, int status, bool status_known) {
  const auto at = children_.find(pid);
  if (at == children_.end()) return;  // an orphan that came to us
  Child child = std::move(at->second);
  children_.erase(at);
  std::error_code error;
  std::filesystem::remove(child.record_file, error);
  logs_.poll();
  Ended ended;
  ended.role = child.record.role;
  ended.pid = pid;
  ended.adopted = child.adopted;
  ended.asked = child.stopping;
  ended.killed = child.killed;
  if (status_known && WIFEXITED(status)) ended.exit_code = WEXITSTATUS(status);
  if (status_known && WIFSIGNALED(status)) ended.signal = WTERMSIG(status);
  if (!child.record.cgroup.empty()) {
    // An adopted one's signal is not known, but its group is.
    if (child.adopted || ended.signal == SIGKILL) ended.outgrown = MemoryGroups::outgrown_limit(child.record.cgroup);
    leftovers_.emplace_back(child.record.cgroup);
  }
  sweep();
  ended.last_line = logs_.last_line(ended.role);
  ended.lived = std::chrono::duration_cast<milliseconds>(Clock::now() - child.since);
  if (pid_of(ended.role) == 0) logs_.unfollow(ended.role);
  past_.push_front(ended);
  if (past_.size() > kMostPast) past_.pop_back();
  if (ended_) ended_(ended);
}

const Ended* Children::end_of(int pid) const {
  const auto at = std::find_if(past_.begin(), past_.end(), [&](const Ended& each) { return each.pid == pid; });
  return at == past_.end() ? nullptr : &*at;
}

void Children::send(const Child& child, int signal) {
  if (child.pidfd != nullptr) {
    ::syscall(SYS_pidfd_send_signal, child.pidfd->native_handle(), signal, nullptr, 0);
  } else {
    ::kill(child.record.pid, signal);  // ours and not reaped yet: the pid is its own
  }
}

void Children::kill_hard(const Child& child) {
  if (child.pidfd == nullptr || still_runs(child.record)) ::kill(-child.record.pid, SIGKILL);
  send(child, SIGKILL);
}

void Children::stop(int pid, milliseconds grace) {
  const auto at = children_.find(pid);
  if (at == children_.end()) return;
  Child& child = at->second;
  // Once: to some a second signal means to hurry.
  if (!std::exchange(child.stopping, true)) {
    send(child, SIGTERM);
    send(child, SIGCONT);  // a stopped process would never read the other one
  }
  child.kill_timer = std::make_unique<asio::steady_timer>(io_, grace);
  child.kill_timer->async_wait([this, pid](const boost::system::error_code& error) {
    const auto late = children_.find(pid);
    if (error || late == children_.end()) return;
    say_(late->second.record.role + " (pid " + std::to_string(pid) + ") did not end in time and is killed");
    late->second.killed = true;
    kill_hard(late->second);
  });
}

void Children::kill(int pid) {
  const auto at = children_.find(pid);
  if (at != children_.end()) kill_hard(at->second);
}

void Children::kill_all() {
  for (auto& [pid, child] : children_) {
    child.stopping = child.killed = true;
    kill_hard(child);
  }
}

int Children::pid_of(std::string_view role) const {
  for (const auto& [pid, child] : children_) {
    if (child.record.role == role) return pid;
  }
  return 0;
}

std::vector<ChildView> Children::list() const {
  std::vector<ChildView> out;
  for (const auto& [pid, child] : children_) {
    ChildView view;
    view.role = child.record.role;
    view.pid = pid;
    view.adopted = child.adopted;
    view.stopping = child.stopping;
    view.lived = std::chrono::duration_cast<milliseconds>(Clock::now() - child.since);
    view.argv = child.record.argv;
    out.push_back(std::move(view));
  }
  return out;
}

void Children::shut_down() {
  shut_ = true;
  boost::system::error_code ignored;  // cancelling cannot fail in a way that matters at the end
  child_signal_.cancel(ignored);
  for (auto& [pid, child] : children_) {
    if (child.pidfd != nullptr) child.pidfd->cancel(ignored);
    if (child.kill_timer != nullptr) child.kill_timer->cancel();
  }
}

}  // namespace gearbox::supervisor
