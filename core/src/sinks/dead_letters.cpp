#include "sinks/dead_letters.hpp"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>
#include <boost/json/value.hpp>
#include <cerrno>
#include <chrono>
#include <string>
#include <system_error>

#include "gearbox/base/text.hpp"

namespace gearbox::sinks {

namespace {

Error failed(const std::filesystem::path& file, int code) {
  return Error{code == ENOSPC || code == EDQUOT ? Errc::no_space : Errc::io_error,
               file.string() + ": " + std::generic_category().message(code)};
}

class Appending {
 public:
  explicit Appending(const std::filesystem::path& file)
      : descriptor_(::open(file.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600)) {}
  ~Appending() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Appending(const Appending&) = delete;
  Appending& operator=(const Appending&) = delete;
  int descriptor() const { return descriptor_; }
  /// In bytes. Errors: errno, as a negative number.
  off_t size() const {
    struct stat found {};
    return ::fstat(descriptor_, &found) == 0 ? found.st_size : -errno;
  }

 private:
  int descriptor_;
};

int write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

/// Where the last whole line of the first `size` bytes ends. Errors: errno, as a negative number.
off_t end_of_lines(int descriptor, off_t size) {
  char piece[4096];
  while (size > 0) {
    const auto part = static_cast<off_t>(std::min<std::uint64_t>(sizeof piece, static_cast<std::uint64_t>(size)));
    const ssize_t got = ::pread(descriptor, piece, static_cast<std::size_t>(part), size - part);
    if (got != part) return got < 0 ? -errno : -EIO;
    for (off_t at = part; at > 0; --at) {
      if (piece[at - 1] == '\n') return size - part + at;
    }
    size -= part;
  }
  return 0;
}

}  // namespace

Outcome<void> DeadLetters::add(const std::vector<std::string_view>& events, std::string_view why) {
  const auto now =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch());
  const std::string head = "{\"at_unix_ms\":" + std::to_string(now.count()) + ",\"why\":" +
                           boost::json::serialize(boost::json::value(is_utf8(why) ? std::string(why) : escaped(why))) +
                           ",\"event\":";
  std::string lines;
  for (const std::string_view event : events) lines += head + std::string(event) + "}\n";

  std::error_code failure;
  const auto size = std::filesystem::file_size(file(), failure);
  if (!failure && size > 0 && size + lines.size() > max_bytes_ / 2) {
    std::filesystem::rename(file(), file().string() + ".1", failure);
    if (failure) return failed(file(), failure.value());
  }
  const Appending file_now(file());
  if (file_now.descriptor() < 0) return failed(file(), errno);
  const off_t there = file_now.size();
  const off_t whole = there < 0 ? there : end_of_lines(file_now.descriptor(), there);
  if (whole < 0) return failed(file(), static_cast<int>(-whole));
  if (whole != there) {
    spdlog::warn("event=dead_letter_cut file={} hint=\"the rest of a line that was not written whole is removed\"",
                 escaped(file().string()));
    if (::ftruncate(file_now.descriptor(), whole) != 0) return failed(file(), errno);
  }
  if (const int code = write_all(file_now.descriptor(), lines); code != 0) {
    // A torn line would spoil the one behind it, too. Should this fail, the next add() does it.
    if (::ftruncate(file_now.descriptor(), whole) != 0) {
      spdlog::warn("event=dead_letter_cut file={} reason=\"{}\"", escaped(file().string()),
                   std::generic_category().message(errno));
    }
    return failed(file(), code);
  }
  if (::fdatasync(file_now.descriptor()) != 0) return failed(file(), errno);
  return done();
}

}  // namespace gearbox::sinks
