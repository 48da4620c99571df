#include "supervisor/log_follower.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "gearbox/base/text.hpp"

namespace gearbox::supervisor {

namespace {

/// Terminals obey control bytes; what others wrote is shown, not executed. Tabs stay.
std::string printable(std::string_view line) {
  std::string out;
  for (const char c : line) {
    if (c == '\t' || static_cast<unsigned char>(c) >= 0x20) {
      if (c == 0x7F) continue;
      out += c;
    } else if (c != '\r') {
      out += escaped(std::string_view(&c, 1));
    }
  }
  return out;
}

/// Copies from byte `copied` of `from` to its end, as it is by then. False: it cannot, or has not met the end by
/// `most`.
bool copy_rest(int from, int to, std::uint64_t& copied, std::uint64_t most) {
  std::array<char, 64 * 1024> piece;
  while (copied <= most) {
    const ssize_t got = ::pread(from, piece.data(), piece.size(), static_cast<off_t>(copied));
    if (got == 0) return true;
    if (got < 0 || ::write(to, piece.data(), static_cast<std::size_t>(got)) != got) return false;
    copied += static_cast<std::uint64_t>(got);
  }
  errno = EAGAIN;
  return false;
}

}  // namespace

LogFollower::LogFollower(Show show, std::uint64_t limit_bytes) : show_(std::move(show)), limit_bytes_(limit_bytes) {}

LogFollower::~LogFollower() {
  for (auto& [role, file] : files_) {
    if (file.descriptor >= 0) ::close(file.descriptor);
  }
}

void LogFollower::follow(const std::string& role, const std::filesystem::path& path) {
  const auto [at, fresh] = files_.try_emplace(role);
  if (!fresh) return;
  at->second.path = path;
  struct stat now {};
  if (::stat(path.c_str(), &now) == 0) at->second.offset = static_cast<std::uint64_t>(now.st_size);
}

void LogFollower::unfollow(const std::string& role) {
  const auto at = files_.find(role);
  if (at == files_.end()) return;
  drain(role, at->second);
  if (!at->second.rest.empty()) show_(role, printable(at->second.rest));
  if (at->second.descriptor >= 0) ::close(at->second.descriptor);
  files_.erase(at);
}

void LogFollower::poll() {
  for (auto& [role, file] : files_) drain(role, file);
}

std::string LogFollower::last_line(const std::string& role) const {
  const auto at = files_.find(role);
  if (at == files_.end()) return {};
  return at->second.rest.empty() ? at->second.last : printable(at->second.rest);
}

void LogFollower::drain(const std::string& role, File& file) {
  if (file.descriptor < 0) file.descriptor = ::open(file.path.c_str(), O_RDWR | O_CLOEXEC);
  if (file.descriptor < 0) return;
  struct stat now {};
  if (::fstat(file.descriptor, &now) != 0) return;
  if (now.st_nlink == 0) {  // somebody deleted it: the next child writes a new one
    ::close(file.descriptor);
    file.descriptor = -1;
    file.offset = 0;
    return;
  }
  const auto size = static_cast<std::uint64_t>(now.st_size);
  if (size < file.offset) file.offset = 0;  // somebody emptied it
  show_new(role, file, size);
  if (size > std::max(limit_bytes_, file.rotate_at)) rotate(role, file, size);
}

/// Shows what lies between what was shown last and byte `end`.
void LogFollower::show_new(const std::string& role, File& file, std::uint64_t end_at) {
  std::array<char, 16 * 1024> piece;
  while (file.offset < end_at) {
    const ssize_t got = ::pread(file.descriptor, piece.data(), piece.size(), static_cast<off_t>(file.offset));
    if (got <= 0) break;
    file.offset += static_cast<std::uint64_t>(got);
    std::string_view text(piece.data(), static_cast<std::size_t>(got));
    while (!text.empty()) {
      const std::size_t end = text.find('\n');
      file.rest.append(text.substr(0, end));
      if (end == std::string_view::npos && file.rest.size() < kMaxLineBytes) break;
      file.last = printable(file.rest);
      show_(role, file.last);
      file.rest.clear();
      text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    }
  }
}

void LogFollower::rotate(const std::string& role, File& file, std::uint64_t size) {
  const std::filesystem::path beside = file.path.string() + ".1.new";
  const int copy = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  std::uint64_t copied = 0;
  // Writers go on meanwhile: once to the end for the name's sake, once more right before the file is emptied. One that
  // is faster than this copy must not lose what it writes: then nothing is emptied.
  bool whole = copy >= 0 && copy_rest(file.descriptor, copy, copied, 2 * size);
  int why = errno;
  if (whole) {
    whole = ::rename(beside.c_str(), (file.path.string() + ".1").c_str()) == 0;
    if (!whole) why = errno;
  }
  if (!whole) {
    if (copy >= 0) ::close(copy);
    // The old log survives as it is; told once, tried again when it has grown by another quarter.
    file.rotate_at = size + limit_bytes_ / 4;
    ::unlink(beside.c_str());
    if (!file.rotation_failed) show_("supervisor", "the log of " + role + " cannot be rotated: " + std::strerror(why));
    file.rotation_failed = true;
    return;
  }
  file.rotation_failed = false;
  file.rotate_at = 0;
  // Shown first, so that the last copy, which is short by now, stands right before the emptying.
  bool all = true;
  std::uint64_t shown = 0;
  while (all && shown != copied) {
    show_new(role, file, copied);
    shown = copied;
    all = copy_rest(file.descriptor, copy, copied, 2 * size);
  }
  if (all && ::ftruncate(file.descriptor, 0) == 0) {
    file.offset = 0;
  } else {
    file.rotate_at = copied + limit_bytes_ / 4;
  }
  ::close(copy);
}

}  // namespace gearbox::supervisor
