#include "executor/whole_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "gearbox/base/text.hpp"

namespace gearbox::executor {

namespace {

Error failed(const char* what, const std::filesystem::path& file, int number) {
  return Error{number == ENOSPC || number == EDQUOT ? Errc::no_space : Errc::io_error,
               std::string(what) + " " + escaped(file.string()) + ": " + std::generic_category().message(number)};
}

int write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t wrote = ::write(descriptor, text.data(), text.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return ::fsync(descriptor) == 0 ? 0 : errno;
}

}  // namespace

Outcome<void> write_durably(const std::filesystem::path& file, std::string_view text) {
  std::filesystem::path beside = file;
  beside += ".new";
  const int descriptor = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor < 0) return failed("cannot make", beside, errno);
  const int number = write_all(descriptor, text);
  ::close(descriptor);
  if (number != 0) {
    ::unlink(beside.c_str());
    return failed("cannot write", beside, number);
  }
  if (::rename(beside.c_str(), file.c_str()) != 0) return failed("cannot rename to", file, errno);
  const int folder = ::open(file.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return failed("cannot open", file.parent_path(), errno);
  const int synced = ::fsync(folder) == 0 ? 0 : errno;
  ::close(folder);
  if (synced != 0) return failed("cannot sync", file.parent_path(), synced);
  return done();
}

}  // namespace gearbox::executor
