#include "store/files.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>

#include "sqlite/folder.hpp"

namespace gearbox::store {

namespace {
Error io_failure(const std::filesystem::path& file, int reason) {
  const Errc code = reason == ENOSPC || reason == EDQUOT ? Errc::no_space : Errc::io_error;
  return Error{code, file.string() + ": " + std::generic_category().message(reason)};
}

Outcome<void> write_all(int descriptor, ByteView bytes, const std::filesystem::path& file) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(descriptor, bytes.data(), bytes.size());
    if (wrote < 0) {
      if (errno == EINTR) continue;
      return io_failure(file, errno);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(wrote));
  }
  return done();
}
}  // namespace

Outcome<void> write_whole(const std::filesystem::path& file, const std::vector<ByteView>& parts) {
  if (Outcome<void> made = sqlite::make_private_folder(file.parent_path()); !made) return made;
  const std::filesystem::path beside = file.string() + ".part";
  const int descriptor = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (descriptor < 0) return io_failure(beside, errno);
  Outcome<void> written = done();
  for (const ByteView part : parts) {
    written = write_all(descriptor, part, beside);
    if (!written) break;
  }
  if (::close(descriptor) != 0 && written) written = io_failure(beside, errno);
  if (written && ::rename(beside.c_str(), file.c_str()) != 0) written = io_failure(file, errno);
  if (!written)
    ::unlink(beside.c_str());  // a half-written file is of no use; nothing more can be done if this fails too
  return written;
}

Outcome<void> remove_file(const std::filesystem::path& file) {
  if (::unlink(file.c_str()) != 0 && errno != ENOENT && errno != ENOTDIR) return io_failure(file, errno);
  return done();
}

}  // namespace gearbox::store
