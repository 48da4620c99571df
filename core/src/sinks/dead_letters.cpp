#include "sinks/dead_letters.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

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
      : descriptor_(::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600)) {}
  ~Appending() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Appending(const Appending&) = delete;
  Appending& operator=(const Appending&) = delete;
  int descriptor() const { return descriptor_; }

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
  if (const int code = write_all(file_now.descriptor(), lines); code != 0) return failed(file(), code);
  if (::fdatasync(file_now.descriptor()) != 0) return failed(file(), errno);
  return done();
}

}  // namespace gearbox::sinks
