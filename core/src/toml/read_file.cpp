#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "gearbox/toml/document.hpp"

namespace gearbox::toml {

namespace {
struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};
std::string reason(int number) {
  return std::generic_category().message(number);
}
}  // namespace

Outcome<std::string> read_file(const std::filesystem::path& path, std::size_t limit) {
  // O_NONBLOCK: opening a FIFO that somebody left in the folder must not wait for a writer.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
  if (file.fd < 0) return Error{errno == ENOENT || errno == ENOTDIR ? Errc::not_found : Errc::io_error, reason(errno)};
  struct stat info {};
  if (::fstat(file.fd, &info) != 0) return Error{Errc::io_error, reason(errno)};
  if (!S_ISREG(info.st_mode)) return Error{Errc::io_error, "is not a regular file"};
  const auto too_large = [&] { return Error{Errc::too_large, "is larger than " + std::to_string(limit) + " bytes"}; };
  if (static_cast<std::uint64_t>(info.st_size) > limit) return too_large();
  std::string text;
  char block[16384];
  for (;;) {
    const ssize_t got = ::read(file.fd, block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Error{Errc::io_error, reason(errno)};
    if (got == 0) return text;
    if (text.size() + static_cast<std::size_t>(got) > limit) return too_large();  // it grew while it was read
    text.append(block, static_cast<std::size_t>(got));
  }
}

}  // namespace gearbox::toml
