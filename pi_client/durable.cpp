#include "durable.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <thread>

namespace gearbox::client {

namespace fs = std::filesystem;

Descriptor::~Descriptor() {
  if (number_ >= 0) ::close(number_);
}

Error file_error(const fs::path& path, int number) {
  const Errc code = number == ENOSPC || number == EDQUOT ? Errc::no_space : Errc::io_error;
  return Error{code, path.string() + ": " + std::strerror(number)};
}

Outcome<Bytes> read_whole(const fs::path& path, std::uint64_t limit) {
  // O_NONBLOCK: opening a named pipe would wait for its writer.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return file_error(path, errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return file_error(path, errno);
  if (!S_ISREG(status.st_mode)) return Error{Errc::io_error, path.string() + ": not a regular file"};
  const auto too_large = [&](std::uint64_t size) {
    return Error{Errc::too_large, path.string() + ": " + std::to_string(size) + " bytes; files up to " +
                                      std::to_string(limit) + " are read"};
  };
  const auto announced = static_cast<std::uint64_t>(status.st_size);
  if (announced > limit) return too_large(announced);
  Bytes bytes(announced);
  std::size_t have = 0;
  for (;;) {
    if (have == bytes.size()) {
      if (have >= limit) return too_large(have);
      // One look past the announced end: files of /proc announce nothing, others may grow.
      bytes.resize(have + 64 * 1024);
    }
    const ssize_t got = ::read(file.get(), bytes.data() + have, bytes.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return file_error(path, errno);
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  bytes.resize(have);
  return bytes;
}

Outcome<void> write_all(int descriptor, ByteView bytes, const fs::path& path) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(descriptor, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return file_error(path, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
  return done();
}

Outcome<void> write_durably(const fs::path& path, ByteView bytes) {
  const fs::path beside = path.string() + ".new";
  Outcome<void> written = done();
  {
    const Descriptor file(::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (file.get() < 0) return file_error(beside, errno);
    written = write_all(file.get(), bytes, beside);
    if (written && ::fsync(file.get()) != 0) written = file_error(beside, errno);
  }
  if (written && ::rename(beside.c_str(), path.c_str()) != 0) written = file_error(path, errno);
  if (!written) ::unlink(beside.c_str());  // what is left of it helps nobody; the first error is the one to tell
  return written;
}

Outcome<void> sync_folder(const fs::path& folder) {
  const Descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.get() < 0) return file_error(folder, errno);
  // Some file systems cannot sync a folder (EINVAL): then they keep names by themselves, or nobody can help it.
  if (::fsync(opened.get()) != 0 && errno != EINVAL) return file_error(folder, errno);
  return done();
}

Outcome<Descriptor> lock_file(const fs::path& path, milliseconds within) {
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (file.get() < 0) return file_error(path, errno);
  // flock() knows no deadline, so it is asked again and again; most holders are done after a sync or two.
  const Instant limit = after(Clock::now(), within);
  milliseconds pause{1};
  while (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return file_error(path, errno);
    if (Clock::now() >= limit) return Error{Errc::overloaded, path.string() + ": another process has it"};
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, milliseconds(16));
  }
  return file;
}

}  // namespace gearbox::client
