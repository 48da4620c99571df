#include "plugin_host/trusted_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "plugin_host/drop_folder.hpp"

namespace gearbox::plugin_host {

namespace {

std::string reason(int number) {
  return std::generic_category().message(number);
}

Outcome<Bytes> read_descriptor_of(int descriptor, std::size_t limit, bool must_be_trusted) {
  struct stat info {};
  if (::fstat(descriptor, &info) != 0) return Error{Errc::bad_plugin, reason(errno)};
  if (!S_ISREG(info.st_mode)) return Error{Errc::bad_plugin, "is not a regular file"};
  if (must_be_trusted) {
    BOOST_OUTCOME_TRY(check_trusted(info));
  }
  Bytes bytes;
  std::byte block[65536];
  for (;;) {
    const ssize_t got = ::read(descriptor, block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Error{Errc::bad_plugin, reason(errno)};
    if (got == 0) return bytes;
    if (bytes.size() + static_cast<std::size_t>(got) > limit)
      return Error{Errc::bad_plugin, "is larger than " + std::to_string(limit) + " bytes"};
    bytes.insert(bytes.end(), block, block + got);
  }
}

Outcome<Bytes> read(const std::filesystem::path& file, std::size_t limit, bool must_be_trusted) {
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor < 0) {
    return Error{errno == ENOENT || errno == ENOTDIR ? Errc::not_found : Errc::bad_plugin, reason(errno)};
  }
  Outcome<Bytes> bytes = read_descriptor_of(descriptor, limit, must_be_trusted);
  ::close(descriptor);
  return bytes;
}

}  // namespace

Outcome<Bytes> read_trusted_file(const std::filesystem::path& file, std::size_t limit) {
  return read(file, limit, true);
}

Outcome<Bytes> read_bounded_file(const std::filesystem::path& file, std::size_t limit) {
  return read(file, limit, false);
}

}  // namespace gearbox::plugin_host
