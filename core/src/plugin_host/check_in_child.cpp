#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>
#include <system_error>

#include "plugin_host/check_child.hpp"

extern char** environ;

namespace gearbox::plugin_host {

namespace {

struct Pipe {
  int ends[2] = {-1, -1};
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  void close_end(int which) {
    if (ends[which] >= 0) ::close(ends[which]);
    ends[which] = -1;
  }
};

Error cannot(const std::string& what, int number) {
  return Error{Errc::io_error, "could not be checked: " + what + ": " + std::generic_category().message(number)};
}

/// Whoever waits for an answer goes first: a check takes longer then on a busy host, but disturbs nobody. The scheduler
/// shares the processors among sessions before it shares a session's part, so both are told. Where there is no such
/// file, or it is refused, the check runs like everything else.
void let_others_go_first(pid_t child) {
  constexpr int kNice = 10;  // not the least: a check has a time limit
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(child), kNice);
  const std::string group = "/proc/" + std::to_string(child) + "/autogroup";
  const int file = ::open(group.c_str(), O_WRONLY | O_CLOEXEC);
  if (file < 0) return;
  const std::string text = std::to_string(kNice);
  [[maybe_unused]] const ssize_t put = ::write(file, text.data(), text.size());
  ::close(file);
}

/// Starts the checker in a session of its own, with 0 = /dev/null, 1 = the pipe, 2 = ours, and nothing else.
Outcome<pid_t> start(const std::filesystem::path& file, const std::filesystem::path& checker, int answer) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, answer, 1);
  posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
  std::string program = checker.string();
  std::string target = file.string();
  std::string words[] = {kChildArguments[0], kChildArguments[1], kChildArguments[2]};
  char* const arguments[] = {program.data(), words[0].data(), words[1].data(), words[2].data(), target.data(), nullptr};
  pid_t child = -1;
  const int failed = ::posix_spawn(&child, program.c_str(), &actions, &attributes, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (failed != 0) return cannot(program, failed);
  let_others_go_first(child);
  return child;
}

/// For how long to wait at once: up to the deadline, in steps while somebody may stop it.
int patience(Instant deadline, const std::atomic<bool>* stop) {
  constexpr milliseconds kStep{50};
  auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
  if (stop != nullptr) left = stop->load(std::memory_order_relaxed) ? milliseconds{0} : std::min(left, kStep);
  return static_cast<int>(std::max(left, milliseconds{0}).count());
}

/// All that comes until the other end is closed. Nothing more than kCheckOutputBytes is kept. False at the deadline.
bool read_answer(int from, Instant deadline, const std::atomic<bool>* stop, std::string& answer) {
  char block[4096];
  for (;;) {
    const int left = patience(deadline, stop);
    if (left <= 0) return false;
    pollfd waiting{from, POLLIN, 0};
    const int ready = ::poll(&waiting, 1, left);
    if (ready <= 0) continue;
    const ssize_t got = ::read(from, block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return true;
    const std::size_t room = kCheckOutputBytes - std::min(kCheckOutputBytes, answer.size());
    answer.append(block, std::min(room, static_cast<std::size_t>(got)));
  }
}

/// True when the child has ended (it may close its stdout and hang on); waits through a pidfd, without reaping.
bool wait_ended(pid_t child, Instant deadline, const std::atomic<bool>* stop) {
  const int handle = static_cast<int>(::syscall(SYS_pidfd_open, child, 0));
  if (handle < 0) return errno == ESRCH;
  bool ended = false;
  while (!ended) {
    const int left = patience(deadline, stop);
    if (left <= 0) break;
    pollfd waiting{handle, POLLIN, 0};
    ended = ::poll(&waiting, 1, left) > 0;
  }
  ::close(handle);
  return ended;
}

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status)) {
    const int number = WTERMSIG(status);
    const char* const name = ::sigabbrev_np(number);
    if (number == SIGXCPU || (number == SIGKILL && name != nullptr)) {
      return "used more than " + std::to_string(kCheckCpuSeconds) + " s of processor time, or was killed (SIG" +
             std::string(name) + ")";
    }
    return "crashed while it was checked: SIG" + std::string(name == nullptr ? std::to_string(number) : name) + " (" +
           ::strsignal(number) + ")";
  }
  return "ended its check by itself with exit code " + std::to_string(WEXITSTATUS(status));
}

}  // namespace

Outcome<PluginInfo> check_in_child(const std::filesystem::path& file, const std::filesystem::path& checker,
                                   const std::atomic<bool>* stop) {
  Pipe pipe;
  if (::pipe2(pipe.ends, O_CLOEXEC) != 0) return cannot("pipe", errno);
  BOOST_OUTCOME_TRY(const pid_t child, start(file, checker, pipe.ends[1]));
  pipe.close_end(1);
  const Instant deadline = after(Clock::now(), kCheckWall);
  std::string answer;
  const bool in_time = read_answer(pipe.ends[0], deadline, stop, answer) && wait_ended(child, deadline, stop);
  ::kill(-child, SIGKILL);  // not reaped yet, so the group's number is still its own; also what it has started
  int status = 0;
  pid_t reaped = -1;
  do {
    reaped = ::waitpid(child, &status, 0);
  } while (reaped < 0 && errno == EINTR);
  if (!in_time && stop != nullptr && stop->load(std::memory_order_relaxed))
    return Error{Errc::io_error, "could not be checked: the broker is stopping"};
  if (!in_time) {
    return Error{Errc::bad_plugin,
                 "hangs: its check took longer than " + std::to_string(kCheckWall.count() / 1000) + " s"};
  }
  if (reaped == child && WIFSIGNALED(status)) return Error{Errc::bad_plugin, how_it_ended(status)};
  if (answer.empty()) return Error{Errc::bad_plugin, reaped == child ? how_it_ended(status) : "its check said nothing"};
  BOOST_OUTCOME_TRY(PluginInfo info, from_json_line(answer));
  info.file = file;
  info.state = "loaded";
  return info;
}

}  // namespace gearbox::plugin_host
