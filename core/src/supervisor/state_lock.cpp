#include "supervisor/state_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "gearbox/base/clock.hpp"
#include "gearbox/base/text.hpp"
#include "supervisor/process_record.hpp"

namespace gearbox::supervisor {

namespace {

/// A supervisor that was killed may have left a child that it had only just forked: that holds the lock, too, until
/// it has seen that it is alone. False: the owner lives.
bool lock_of_the_dead(int descriptor, int owner) {
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

}  // namespace

Outcome<void> take_state(const config::StateDir& state, const std::function<void(std::string)>& say) {
  const std::filesystem::path file = state.run() / "supervisor.lock";
  // Held as long as this process lives, and given back by the kernel however it ends.
  const int descriptor = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor < 0) return Error{Errc::io_error, file.string() + ": " + std::strerror(errno)};
  bool locked = ::flock(descriptor, LOCK_EX | LOCK_NB) == 0;
  std::string owner(16, '\0');
  if (!locked) {
    const ssize_t got = ::pread(descriptor, owner.data(), owner.size(), 0);
    owner.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    locked = lock_of_the_dead(descriptor, std::atoi(owner.c_str()));
  }
  if (!locked) {
    ::close(descriptor);
    return Error{Errc::not_allowed, "another supervisor (pid " + escaped(owner) + ") already serves the state folder " +
                                        state.root.string() + "; stop it first, or give this one its own with --state"};
  }
  const std::string own = std::to_string(::getpid());
  if (::ftruncate(descriptor, 0) != 0 || ::pwrite(descriptor, own.data(), own.size(), 0) < 0) {
    say(file.string() + ": cannot be written: " + std::strerror(errno));  // only the message above needs it
  }
  return done();
}

}  // namespace gearbox::supervisor
