#include "plugin_host/limited_child.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>
#include <system_error>

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
  return Error{Errc::io_error, what + ": " + std::generic_category().message(number)};
}

/// Whoever waits for an answer goes first: the child takes longer then on a busy host, but disturbs nobody. The
/// scheduler shares the processors among sessions before it shares a session's part, so both are told. Where there is
/// no such file, or it is refused, the child runs like everything else.
void let_others_go_first(pid_t child) {
  constexpr int kNice = 10;  // not the least: it has a time limit
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(child), kNice);
  const std::string group = "/proc/" + std::to_string(child) + "/autogroup";
  const int file = ::open(group.c_str(), O_WRONLY | O_CLOEXEC);
  if (file < 0) return;
  const std::string text = std::to_string(kNice);
  [[maybe_unused]] const ssize_t put = ::write(file, text.data(), text.size());
  ::close(file);
}

/// Ours, with another folder for temporary files if one is given.
std::vector<std::string> environment_of(const ChildTask& task) {
  std::vector<std::string> all;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    if (task.temporary.empty() || std::string_view(*entry).substr(0, 7) != "TMPDIR=") all.emplace_back(*entry);
  }
  if (!task.temporary.empty()) all.push_back("TMPDIR=" + task.temporary.string());
  return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

Outcome<pid_t> start(const ChildTask& task, int answer) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, answer, 1);
  if (task.errors_too) posix_spawn_file_actions_adddup2(&actions, answer, 2);
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
  std::vector<std::string> words = task.words;
  words.insert(words.begin(), task.program.string());
  std::vector<std::string> environment = environment_of(task);
  const std::vector<char*> arguments = pointers_to(words);
  const std::vector<char*> variables = pointers_to(environment);
  pid_t child = -1;
  const int failed =
      ::posix_spawn(&child, task.program.c_str(), &actions, &attributes, arguments.data(), variables.data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (failed != 0) return cannot(task.program.string(), failed);
  let_others_go_first(child);
  return child;
}

/// For how long to wait at once: up to the deadline, in steps while somebody may stop it.
int patience(Instant deadline, const std::atomic<bool>* stop) {
  constexpr milliseconds kStep{50};
  auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
  if (stop != nullptr) left = stop->load(std::memory_order_relaxed) ? milliseconds{0} : std::min(left, kStep);
  return static_cast<int>(std::clamp(left, milliseconds{0}, milliseconds{60'000}).count());
}

/// All that comes until the other end is closed. False at the deadline.
bool read_output(int from, Instant deadline, const std::atomic<bool>* stop, std::size_t most, std::string& output) {
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
    const std::size_t room = most - std::min(most, output.size());
    output.append(block, std::min(room, static_cast<std::size_t>(got)));
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

}  // namespace

std::string signal_name(int number) {
  const char* const name = ::sigabbrev_np(number);
  return "SIG" + std::string(name == nullptr ? std::to_string(number) : name);
}

Outcome<ChildEnd> run_child(const ChildTask& task, const std::atomic<bool>* stop) {
  Pipe pipe;
  if (::pipe2(pipe.ends, O_CLOEXEC) != 0) return cannot("pipe", errno);
  BOOST_OUTCOME_TRY(const pid_t child, start(task, pipe.ends[1]));
  pipe.close_end(1);
  const Instant deadline = after(Clock::now(), task.wall);
  ChildEnd end;
  const bool in_time =
      read_output(pipe.ends[0], deadline, stop, task.most_bytes, end.output) && wait_ended(child, deadline, stop);
  ::kill(-child, SIGKILL);  // not reaped yet, so the group's number is still its own; also what it has started
  int status = 0;
  pid_t reaped = -1;
  do {
    reaped = ::waitpid(child, &status, 0);
  } while (reaped < 0 && errno == EINTR);
  if (!in_time) {
    const bool asked = stop != nullptr && stop->load(std::memory_order_relaxed);
    end.how = asked ? ChildEnd::How::stopped : ChildEnd::How::late;
  } else if (reaped == child && WIFSIGNALED(status)) {
    end.how = ChildEnd::How::signalled;
    end.number = WTERMSIG(status);
  } else if (reaped == child) {
    end.how = ChildEnd::How::exited;
    end.number = WEXITSTATUS(status);
  }
  return end;
}

}  // namespace gearbox::plugin_host
