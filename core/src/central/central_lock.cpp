#include "central/central_lock.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "gearbox/base/text.hpp"

namespace gearbox::central {

namespace {

struct flock whole_file() {
  struct flock asked {};
  asked.l_type = F_WRLCK;
  asked.l_whence = SEEK_SET;
  return asked;
}

Error failed(const char* what, int number) {
  return Error{Errc::io_error, std::string("central's lock: ") + what + ": " + std::generic_category().message(number)};
}

}  // namespace

Outcome<CentralLock> CentralLock::open(const std::filesystem::path& file) {
  const int descriptor = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor < 0) {
    const int number = errno;
    return failed(("cannot open " + escaped(file.string())).c_str(), number);
  }
  return CentralLock(descriptor);
}

CentralLock::~CentralLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Outcome<std::optional<int>> CentralLock::take() {
  // Not flock(): that would go on in a child that was forked and has not run its program yet.
  struct flock asked = whole_file();
  if (::fcntl(descriptor_, F_SETLK, &asked) == 0) return std::optional<int>();
  if (errno != EACCES && errno != EAGAIN) return failed("cannot lock", errno);
  struct flock told = whole_file();
  if (::fcntl(descriptor_, F_GETLK, &told) != 0) return failed("cannot ask who has it", errno);
  return std::optional<int>(told.l_type == F_UNLCK ? 0 : told.l_pid);
}

}  // namespace gearbox::central
