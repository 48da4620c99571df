#include "supervisor/spawn.hpp"

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace gearbox::supervisor {

namespace {

std::vector<std::string> merged_environment(const std::vector<std::string>& added) {
  std::vector<std::string> all = added;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view own(*entry);
    const std::string_view name = own.substr(0, own.find('=') + 1);
    bool replaced = false;
    for (const std::string& other : added) replaced = replaced || std::string_view(other).starts_with(name);
    if (!replaced) all.emplace_back(own);
  }
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (std::string& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

/// In the child, between fork and exec: only calls that are safe there. `go`: a byte comes when it may go on, the end
/// when its parent is gone.
[[noreturn]] void become(char* const* argv, char* const* env, int in, int out, int report, int go) {
  char word = 0;
  ssize_t got = 0;
  do {
    got = ::read(go, &word, 1);
  } while (got < 0 && errno == EINTR);
  if (got != 1) ::_exit(127);
  ::setsid();
  struct sigaction plain {};
  plain.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number) ::sigaction(number, &plain, nullptr);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::dup2(in, 0);
  ::dup2(out, 1);
  ::dup2(out, 2);
  // Everything else closes at exec, the pipe that reports a failure included.
  ::syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC);
  ::execve(argv[0], argv, env);
  const int why = errno;
  [[maybe_unused]] const ssize_t written = ::write(report, &why, sizeof(why));
  ::_exit(127);
}

}  // namespace

Outcome<int> spawn(const SpawnOrder& order) {
  std::vector<std::string> argv_words = order.argv;
  std::vector<std::string> env_words = merged_environment(order.env);
  const std::vector<char*> argv = pointers(argv_words);
  const std::vector<char*> env = pointers(env_words);

  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  int log = ::open(order.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (log < 0) log = ::dup(nothing);
  int report[2] = {-1, -1};
  int go[2] = {-1, -1};
  if (nothing < 0 || log < 0 || ::pipe2(report, O_CLOEXEC) != 0 || ::pipe2(go, O_CLOEXEC) != 0) {
    const Error error{Errc::no_space, order.argv.front() + ": no descriptor left: " + std::strerror(errno)};
    for (const int descriptor : {nothing, log, report[0], report[1], go[0], go[1]}) {
      if (descriptor >= 0) ::close(descriptor);
    }
    return error;
  }

  // No signal may run one of our handlers in the child, where it would write to pipes that are shared with us.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::close(go[1]);  // else it would wait for itself
    become(argv.data(), env.data(), nothing, log, report[1], go[0]);
  }
  const int fork_errno = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::close(nothing);
  ::close(log);
  ::close(report[1]);
  ::close(go[0]);
  int why = 0;
  ssize_t got = 0;
  if (pid > 0) {
    if (order.forked) order.forked(pid);
    // A child that was killed meanwhile cannot be told; the read that follows ends at once then.
    [[maybe_unused]] const ssize_t told = ::write(go[1], "", 1);
    do {
      got = ::read(report[0], &why, sizeof(why));
    } while (got < 0 && errno == EINTR);
  }
  ::close(report[0]);
  ::close(go[1]);
  if (pid < 0)
    return Error{Errc::no_space, order.argv.front() + ": no process can be made: " + std::strerror(fork_errno)};
  if (got == sizeof(why)) {
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return Error{Errc::io_error, order.argv.front() + ": cannot be started: " + std::strerror(why)};
  }
  return static_cast<int>(pid);
}

}  // namespace gearbox::supervisor
