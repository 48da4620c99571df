#include "watch/files.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace gearbox::watch {

namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kNanoseconds = 1'000'000'000;
constexpr std::int64_t kFreshNs = 50'000'000;

std::int64_t nanoseconds(const timespec& time) {
  return std::int64_t{time.tv_sec} * kNanoseconds + time.tv_nsec;
}

Stamp stamp_of(const fs::path& path) {
  Stamp stamp;
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    stamp.fault = errno;
    return stamp;
  }
  stamp.device = info.st_dev;
  stamp.inode = info.st_ino;
  stamp.mode = info.st_mode;
  stamp.uid = info.st_uid;
  if (S_ISREG(info.st_mode)) {
    stamp.size_bytes = static_cast<std::uint64_t>(info.st_size);
    stamp.mtime_ns = nanoseconds(info.st_mtim);
    stamp.ctime_ns = nanoseconds(info.st_ctim);
  }
  return stamp;
}

bool add(Stamps& stamps, const fs::path& path, const Stamp& stamp) {
  if (stamps.entries.size() >= kMaxEntries) {
    stamps.too_many = true;
    return false;
  }
  stamps.entries.emplace(path, stamp);
  return true;
}

void look_into(Stamps& stamps, const fs::path& path, unsigned depth, const Folder& folder) {
  std::error_code failure;
  fs::directory_iterator entry(path, failure);
  for (; !failure && entry != fs::directory_iterator(); entry.increment(failure)) {
    const fs::path& found = entry->path();
    const std::string name = found.filename().string();
    const Stamp stamp = stamp_of(found);
    if (S_ISDIR(stamp.mode)) {
      if (depth == 0 || name.front() == '.') continue;
      if (!add(stamps, found, stamp)) return;
      look_into(stamps, found, depth - 1, folder);
    } else if (!folder.wanted || folder.wanted(name)) {
      if (!add(stamps, found, stamp)) return;
    }
  }
}

/// A file's descriptor for the length of a question.
struct Opened {
  int fd;
  ~Opened() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

Stamps stamps_of(const std::vector<Folder>& folders) {
  Stamps stamps;
  for (const Folder& folder : folders) {
    const Stamp stamp = stamp_of(folder.path);
    if (stamp.fault == ENOENT || !add(stamps, folder.path, stamp)) continue;
    if (S_ISDIR(stamp.mode)) look_into(stamps, folder.path, folder.depth, folder);
  }
  return stamps;
}

bool vanished(const Stamps& before, const Stamps& now) {
  return std::any_of(before.entries.begin(), before.entries.end(), [&](const auto& entry) {
    if (entry.second.fault != 0) return false;
    const auto found = now.entries.find(entry.first);
    return found == now.entries.end() || found->second.fault != 0;
  });
}

bool written_in_place(const Stamps& before, const Stamps& now) {
  return std::any_of(now.entries.begin(), now.entries.end(), [&](const auto& entry) {
    const auto found = before.entries.find(entry.first);
    if (found == before.entries.end()) return false;
    const Stamp& old = found->second;
    const Stamp& stamp = entry.second;
    return old.fault == 0 && stamp.fault == 0 && old.device == stamp.device && old.inode == stamp.inode &&
           (old.size_bytes != stamp.size_bytes || old.mtime_ns != stamp.mtime_ns);
  });
}

bool is_fresh(const Stamps& stamps, std::chrono::system_clock::time_point wall) {
  const std::int64_t now = std::chrono::duration_cast<std::chrono::nanoseconds>(wall.time_since_epoch()).count();
  const auto near = [now](std::int64_t time) { return time > now - kFreshNs && time < now + kFreshNs; };
  return std::any_of(stamps.entries.begin(), stamps.entries.end(), [&](const auto& entry) {
    return S_ISREG(entry.second.mode) && (near(entry.second.mtime_ns) || near(entry.second.ctime_ns));
  });
}

Writers writers_of(const fs::path& file) {
  const Opened opened{::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
  if (opened.fd < 0) return Writers::unknown;
  // A writer that opens the file while we hold the lease would have the kernel send us SIGIO, which ends a process that
  // does not care; SIGURG is ignored by such a one.
  if (::fcntl(opened.fd, F_SETSIG, SIGURG) != 0) return Writers::unknown;
  if (::fcntl(opened.fd, F_SETLEASE, F_RDLCK) != 0) return errno == EAGAIN ? Writers::some : Writers::unknown;
  return Writers::none;  // closing gives the lease back
}

Writers writers_of(const Stamps& now, const Stamps& before) {
  Writers worst = Writers::none;
  for (const auto& [path, stamp] : now.entries) {
    if (!S_ISREG(stamp.mode)) continue;
    const auto old = before.entries.find(path);
    if (old != before.entries.end() && old->second == stamp) continue;
    const Writers writers = writers_of(path);
    if (writers == Writers::some) return writers;
    if (writers == Writers::unknown) worst = writers;
  }
  return worst;
}

}  // namespace gearbox::watch
