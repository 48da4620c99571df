#include "cli/run_program.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace gearbox::cli {

namespace {
constexpr std::size_t kKeep = 4096;
}

Outcome<ProgramEnd> run_program(std::vector<std::string> argv, milliseconds within) {
  std::vector<char*> words;
  for (std::string& word : argv) words.push_back(word.data());
  words.push_back(nullptr);
  int out[2];
  if (::pipe2(out, O_CLOEXEC) != 0) return Error{Errc::io_error, std::string("pipe: ") + std::strerror(errno)};

  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&files, out[1], 1);
  ::posix_spawn_file_actions_adddup2(&files, out[1], 2);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  pid_t pid = 0;
  const int failed = ::posix_spawn(&pid, words[0], &files, &attributes, words.data(), environ);
  ::posix_spawn_file_actions_destroy(&files);
  ::posix_spawnattr_destroy(&attributes);
  ::close(out[1]);
  if (failed != 0) {
    ::close(out[0]);
    return Error{Errc::io_error, argv.front() + ": " + std::strerror(failed)};
  }

  ProgramEnd end;
  const Instant deadline = after(Clock::now(), within);
  for (;;) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
    pollfd readable{out[0], POLLIN, 0};
    if (left.count() <= 0 || ::poll(&readable, 1, static_cast<int>(left.count())) == 0) {
      end.timed_out = true;
      break;
    }
    std::array<char, 4096> piece;
    const ssize_t got = ::read(out[0], piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    end.output.append(piece.data(), static_cast<std::size_t>(got));
    if (end.output.size() > kKeep) end.output.erase(0, end.output.size() - kKeep);
  }
  // It has closed its output or had its time; what is left of it and of its children goes now.
  ::close(out[0]);
  int status = 0;
  if (end.timed_out) ::kill(-pid, SIGKILL);
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && !end.timed_out) end.exit_code = WEXITSTATUS(status);
  return end;
}

}  // namespace gearbox::cli
