#include "gearbox/shm/doorbell.hpp"

#include <sys/eventfd.h>

#include <cerrno>
#include <cstring>

namespace gearbox::shm {

Outcome<Doorbell> Doorbell::create() {
  Fd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd) return Error{Errc::no_space, std::string("no doorbell: ") + std::strerror(errno)};
  return Doorbell(std::move(fd));
}

void Doorbell::ring() const {
  const std::uint64_t one = 1;
  // The only failure of a healthy eventfd is a full counter, and then the sleeper's wake-up is already there.
  [[maybe_unused]] const ssize_t written = ::write(fd_.get(), &one, sizeof one);
}

}  // namespace gearbox::shm
