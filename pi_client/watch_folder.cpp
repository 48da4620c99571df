#include "watch_folder.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "gearbox/base/text.hpp"

namespace gearbox::client {

namespace fs = std::filesystem;

namespace {

/// Names under which other programs write what is not finished, and names that hide.
bool is_passed_over(const std::string& name) {
  if (name.empty() || name[0] == '.' || name.back() == '~') return true;
  const std::string end = fs::path(name).extension().string();
  return end == ".part" || end == ".tmp" || end == ".new" || end == ".crdownload" || end == ".filepart";
}

std::optional<SourceFile> source_of(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  const std::int64_t time = std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
  return SourceFile{escaped(path.string(), 8192), static_cast<std::uint64_t>(status.st_size), time};
}

/// Asks for a read lease, which nobody gets beside a writer, and gives it back at once. False also when nobody can say:
/// a file of another user, a file system without leases.
bool has_writer(const fs::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return false;
  if (::fcntl(file.get(), F_SETLEASE, F_RDLCK) == 0) {
    ::fcntl(file.get(), F_SETLEASE, F_UNLCK);
    return false;
  }
  return errno == EAGAIN;
}

/// Renames to a name in `folder` that is free. False: errno says why not.
bool move_into(const fs::path& from, const fs::path& folder) {
  for (int number = 0; number < 10'000; ++number) {
    const fs::path name = from.filename();
    const std::string more = number == 0 ? std::string() : "-" + std::to_string(number);
    const fs::path to = folder / (name.stem().string() + more + name.extension().string());
    if (::syscall(SYS_renameat2, AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
    if (errno == EINVAL && !fs::exists(to)) return ::rename(from.c_str(), to.c_str()) == 0;  // not by every file system
    if (errno != EEXIST && errno != EINVAL) return false;
  }
  return false;
}

}  // namespace

Outcome<std::unique_ptr<Capture>> WatchFolder::create(WatchOptions options, Spool* spool, CaptureEnds ends,
                                                      WatchPace pace) {
  std::error_code failed;
  options.folder =
      fs::absolute(options.folder, failed).lexically_normal().string();  // what is remembered has full paths
  if (options.after == After::move) {
    fs::create_directories(options.move_to, failed);
    if (failed) return file_error(options.move_to, failed.value());
    if (fs::equivalent(options.move_to, options.folder, failed))
      return Error{Errc::bad_input, "--after move: the watched folder itself"};
  }
  // While the folder is away (not mounted yet) nothing is known of its files, and nothing may be forgotten.
  const bool folder_there = fs::is_directory(options.folder, failed);
  const auto still_there = [&](const SourceFile& known) {
    if (!folder_there || known.path.find('\\') != std::string::npos) return true;  // the latter: escaped, no path now
    const std::optional<SourceFile> now = source_of(fs::path(known.path));
    return now && *now == known;
  };
  BOOST_OUTCOME_TRY(TakenFiles taken, TakenFiles::open(spool->folder() / "taken.jsonl", still_there));
  return std::unique_ptr<Capture>(new WatchFolder(std::move(options), spool, std::move(ends), pace, std::move(taken)));
}

/// What a process did not come to: items are in the spool whose originals are still as they were.
void WatchFolder::begin() {
  const auto items = spool_->list();
  if (!items) return ends_.remark(describe(items.error()));
  std::map<std::string, SourceFile> spooled;
  for (const std::shared_ptr<const Spooled>& each : items.value()) {
    if (each->item.source) spooled[each->item.source->path] = *each->item.source;
  }
  if (spooled.empty()) return;
  std::error_code failed;
  for (fs::directory_iterator entry(options_.folder, failed), end; !failed && entry != end; entry.increment(failed)) {
    const std::optional<SourceFile> now = source_of(entry->path());
    if (!now || taken_.has(*now)) continue;
    const auto found = spooled.find(now->path);
    if (found != spooled.end() && found->second == *now) settle_original(entry->path().filename().string(), *now);
  }
}

void WatchFolder::run() {
  inotify_ = Descriptor(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));  // without one there are the looks
  for (;;) {
    if (inotify_.get() >= 0) {
      // Again each time: the folder may have come, or be another one by now. For the same one this changes nothing.
      ::inotify_add_watch(inotify_.get(), options_.folder.c_str(), IN_CLOSE_WRITE | IN_MOVED_TO | IN_ONLYDIR);
    }
    look();
    const Instant next = after(Clock::now(), pace_.look_every);
    do {
      if (!ends_.stop->wait(next, inotify_.get())) return;
    } while (!take_events() && Clock::now() < next);
  }
}

/// Notes which files were closed or renamed in. True when there are any.
bool WatchFolder::take_events() {
  alignas(inotify_event) char buffer[16 * 1024];
  bool any = false;
  if (inotify_.get() < 0) return any;
  for (;;) {
    const ssize_t got = ::read(inotify_.get(), buffer, sizeof buffer);
    if (got <= 0) return any;
    for (ssize_t at = 0; at < got;) {
      inotify_event event{};
      std::memcpy(&event, buffer + at, sizeof event);
      if (event.len > 0 && (event.mask & (IN_CLOSE_WRITE | IN_MOVED_TO)) != 0) {
        const std::string name(buffer + at + sizeof event);
        const std::optional<SourceFile> now = source_of(fs::path(options_.folder) / name);
        if (now && !is_passed_over(name)) {
          Seen& seen = seen_[name];
          if (!(seen.as == *now)) seen = Seen{*now, Clock::now()};
          seen.closed = true;
          any = true;
        }
      }
      at += static_cast<ssize_t>(sizeof event + event.len);
    }
  }
}

void WatchFolder::look() {
  std::error_code failed;
  std::vector<std::pair<std::int64_t, std::string>> found;
  const Instant now = Clock::now();
  for (fs::directory_iterator entry(options_.folder, failed), end; !failed && entry != end; entry.increment(failed)) {
    const std::string name = entry->path().filename().string();
    if (is_passed_over(name)) continue;
    const std::optional<SourceFile> source = source_of(entry->path());
    if (!source || taken_.has(*source)) continue;
    found.emplace_back(source->mtime_ns, name);
    Seen& seen = seen_[name];
    if (!(seen.as == *source)) seen = Seen{*source, now};
  }
  tell_once(told_folder_, failed ? options_.folder + " cannot be read: " + failed.message() : std::string());
  if (failed) return;
  std::sort(found.begin(), found.end());  // the oldest first, as far as the clock was right
  std::set<std::string> there;
  for (const auto& [time, name] : found) there.insert(name);
  std::erase_if(seen_, [&](const auto& known) { return there.count(known.first) == 0; });
  for (const auto& [time, name] : found) {
    if (ends_.stop->stopped()) return;
    Seen& seen = seen_[name];
    const bool still = elapsed(seen.since, Clock::now()) >= pace_.look_every;
    if (seen.left || !(seen.closed || still)) continue;
    const Taking taking = take(name, seen);
    if (taking == Taking::full) return;
    if (taking == Taking::taken) seen_.erase(name);
  }
}

WatchFolder::Taking WatchFolder::take(const std::string& name, Seen& seen) {
  const fs::path path = fs::path(options_.folder) / name;
  if (has_writer(path)) return Taking::later;
  Outcome<Bytes> bytes = read_whole(path, kMaxFileBytes);
  // What changed meanwhile is looked at anew.
  const std::optional<SourceFile> now = source_of(path);
  if (!now || !(*now == seen.as)) return Taking::later;
  Outcome<SpoolFill::Filled> filled(Error{Errc::internal, {}});
  if (bytes) {
    const SourceFile source = *now;
    filled = ends_.fill->add(path.string(), std::move(bytes).value(), source,
                             [this, &name, &source] { settle_original(name, source); });
  } else {
    filled = bytes.error();
  }
  if (filled) {
    tell_once(told_full_, filled.value().dropped.empty() ? std::string() : "the spool is full: the oldest are dropped");
    ends_.spooled();
    return Taking::taken;
  }
  if (filled.error().code == Errc::no_space) {
    tell_once(told_full_, filled.error().detail + "; pictures stay in " + options_.folder);
    return Taking::full;
  }
  seen.closed = false;  // by its marks it is not whole: perhaps closed in between, and it goes on
  if (elapsed(seen.since, Clock::now()) < pace_.give_up) return Taking::later;
  seen.left = true;
  ends_.remark(escaped(name, 512) + " stays where it is: " + escaped(describe(filled.error()), 512));
  return Taking::later;
}

void WatchFolder::settle_original(const std::string& name, const SourceFile& source) {
  const fs::path path = fs::path(options_.folder) / name;
  bool gone = false;
  if (options_.after == After::remove) gone = ::unlink(path.c_str()) == 0;
  if (options_.after == After::move) gone = move_into(path, options_.move_to);
  const int why = errno;
  Outcome<void> settled = done();
  if (gone) {
    settled = sync_folder(options_.folder);
    if (settled && options_.after == After::move) settled = sync_folder(options_.move_to);
  } else {
    if (options_.after != After::keep) {
      ends_.remark(escaped(name, 512) + " was taken, and cannot be " +
                   (options_.after == After::move ? "moved: " : "deleted: ") + std::strerror(why));
    }
    settled = taken_.add(source);
  }
  if (!settled) ends_.remark("a restart may take " + escaped(name, 512) + " again: " + describe(settled.error()));
}

/// Says `text` when it is another than last time; an empty one says nothing.
void WatchFolder::tell_once(std::string& told, const std::string& text) {
  if (told == text) return;
  told = text;
  if (!text.empty()) ends_.remark(escaped(text, 1024));
}

}  // namespace gearbox::client
