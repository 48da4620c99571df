#include "watched_file.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "gearbox/base/text.hpp"

namespace gearbox::client {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kHidden = ".gearbox-taken.";  // then a number, a dot, and the name
constexpr int kMostHidden = 100;                         // of one name at once

/// rename() that replaces nothing. False: errno says why not.
bool rename_to_free(const fs::path& from, const fs::path& to) {
  if (::syscall(SYS_renameat2, AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  if (errno != EINVAL) return false;
  // Not every file system can. There a link does the same; and where there are no links either, a look must do.
  if (::link(from.c_str(), to.c_str()) == 0) return ::unlink(from.c_str()) == 0;
  if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS) return false;
  struct stat there {};
  if (::lstat(to.c_str(), &there) == 0) {
    errno = EEXIST;
    return false;
  }
  return ::rename(from.c_str(), to.c_str()) == 0;
}

/// Renames to `name`, or one like it, in `folder` that is free. False: errno says why not.
bool move_into(const fs::path& from, const fs::path& name, const fs::path& folder) {
  for (int number = 0; number < 10'000; ++number) {
    const std::string more = number == 0 ? std::string() : "-" + std::to_string(number);
    if (rename_to_free(from, folder / (name.stem().string() + more + name.extension().string()))) return true;
    if (errno != EEXIST) return false;
  }
  return false;
}

bool same_content(const std::optional<Stand>& now, const Stand& read) {
  return now && now->device == read.device && now->inode == read.inode && now->source.bytes == read.source.bytes &&
         now->source.mtime_ns == read.source.mtime_ns;
}

}  // namespace

bool is_passed_over(const std::string& name) {
  if (name.empty() || name[0] == '.' || name.back() == '~') return true;
  const std::string end = fs::path(name).extension().string();
  return end == ".part" || end == ".tmp" || end == ".new" || end == ".crdownload" || end == ".filepart";
}

std::optional<Stand> stand_of(const fs::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  Stand stand;
  stand.source.path = escaped(path.string(), 8192);
  stand.source.bytes = static_cast<std::uint64_t>(status.st_size);
  stand.source.mtime_ns = std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
  stand.device = status.st_dev;
  stand.inode = status.st_ino;
  return stand;
}

bool leases_tell(std::int64_t file_system) {
  constexpr std::uint32_t kFuse = 0x65735546, kCifs = 0xFF534D42, kSmb2 = 0xFE534D42, kSmb = 0x517B, kNfs = 0x6969;
  const auto type = static_cast<std::uint32_t>(file_system);  // the kernel's numbers have 32 bits; the field may not
  return type != kFuse && type != kCifs && type != kSmb2 && type != kSmb && type != kNfs;
}

ReadLease::ReadLease(const fs::path& path)
    : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW)) {
  if (file_.get() < 0) return;
  // A writer that opens the file while we hold the lease would have the kernel send us SIGIO, which ends a process that
  // does not care; SIGURG is ignored by such a one.
  if (::fcntl(file_.get(), F_SETSIG, SIGURG) != 0) return;
  if (::fcntl(file_.get(), F_SETLEASE, F_RDLCK) == 0) {
    writers_ = Writers::none;  // closing gives the lease back
  } else if (errno == EAGAIN) {
    struct statfs system {};
    if (::fstatfs(file_.get(), &system) == 0 && leases_tell(system.f_type)) writers_ = Writers::some;
  }
}

std::string name_before_hiding(const std::string& hidden) {
  if (hidden.compare(0, kHidden.size(), kHidden) != 0) return {};
  const std::size_t dot = hidden.find('.', kHidden.size());
  return dot == std::string::npos ? std::string() : hidden.substr(dot + 1);
}

bool unhide(const fs::path& hidden) {
  return rename_to_free(hidden, hidden.parent_path() / name_before_hiding(hidden.filename().string()));
}

Gone put_away_hidden(const fs::path& hidden, const Stand& read, const WatchOptions& options) {
  // Nobody opens it by its hidden name; who opened it before may still write to it.
  const bool same = same_content(stand_of(hidden), read) && ReadLease(hidden).writers() != Writers::some;
  if (!same) return unhide(hidden) ? Gone::changed : Gone::hidden;
  const fs::path name = name_before_hiding(hidden.filename().string());
  if (options.after == After::remove ? ::unlink(hidden.c_str()) == 0 : move_into(hidden, name, options.move_to))
    return Gone::gone;
  const int why = errno;
  const bool back = unhide(hidden);
  errno = why;
  return back ? Gone::failed : Gone::hidden;
}

Gone put_away(const fs::path& path, const Stand& read, const WatchOptions& options) {
  for (int number = 0; number < kMostHidden; ++number) {
    const fs::path hidden =
        path.parent_path() / (std::string(kHidden) + std::to_string(number) + "." + path.filename().string());
    if (rename_to_free(path, hidden)) return put_away_hidden(hidden, read, options);
    if (errno == ENOENT) return Gone::changed;  // somebody else has removed or renamed it
    if (errno != EEXIST) return Gone::failed;
  }
  return Gone::failed;
}

}  // namespace gearbox::client
