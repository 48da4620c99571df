#include "watch_folder.hpp"

#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "gearbox/base/text.hpp"
#include "pause.hpp"

namespace gearbox::client {

namespace fs = std::filesystem;

namespace {

FileNow state_of(const SourceFile& known) {
  if (known.path.find('\\') != std::string::npos) return FileNow::missing;  // escaped: no path now
  const std::optional<Stand> now = stand_of(fs::path(known.path));
  if (!now) return FileNow::missing;
  return now->source == known ? FileNow::same : FileNow::other;
}

/// What no later try can mend: the picture itself is wrong.
bool is_of_the_picture(Errc code) {
  return code == Errc::bad_picture || code == Errc::too_large || code == Errc::bad_input || code == Errc::bad_name ||
         code == Errc::corrupt_data;
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
  BOOST_OUTCOME_TRY(TakenFiles taken, TakenFiles::open(spool->folder() / "taken.jsonl", state_of));
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
  std::vector<std::string> names;
  std::error_code failed;
  for (fs::directory_iterator entry(options_.folder, failed), end; !failed && entry != end; entry.increment(failed))
    names.push_back(entry->path().filename().string());
  for (const std::string& name : names) {
    const fs::path path = fs::path(options_.folder) / name;
    std::optional<Stand> now = stand_of(path);
    const std::string before = name_before_hiding(name);
    if (!now || (before.empty() && (is_passed_over(name) || taken_.has(now->source)))) continue;
    if (!before.empty()) now->source.path = escaped((fs::path(options_.folder) / before).string(), 8192);
    const auto found = spooled.find(now->source.path);
    const bool taken = found != spooled.end() && found->second == now->source;
    if (before.empty()) {
      if (taken) settle_original(name, *now);
    } else if (taken && options_.after != After::keep) {
      settled(before, now->source, put_away_hidden(path, *now, options_));
    } else {
      if (taken) settled(before, now->source, Gone::failed);
      unhide(path);  // if its name is taken, the looks see to it
    }
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
        const std::optional<Stand> now = stand_of(fs::path(options_.folder) / name);
        if (now && !is_passed_over(name)) {
          see(name, now->source);
          seen_[name].closed = true;
          any = true;
        }
      }
      at += static_cast<ssize_t>(sizeof event + event.len);
    }
  }
}

/// A file that changed begins anew, but for what people were told of it.
void WatchFolder::see(const std::string& name, const SourceFile& source) {
  const Instant now = Clock::now();
  const auto [known, is_new] = seen_.try_emplace(name);
  Seen& seen = known->second;
  if (!is_new && seen.as == source) return;
  Seen fresh;
  fresh.as = source;
  fresh.since = now;
  fresh.met = is_new ? now : seen.met;
  fresh.told_late = seen.told_late;
  seen = fresh;
}

void WatchFolder::look() {
  std::error_code failed;
  std::vector<std::pair<std::int64_t, std::string>> found;
  std::vector<fs::path> hidden;
  for (fs::directory_iterator entry(options_.folder, failed), end; !failed && entry != end; entry.increment(failed)) {
    const std::string name = entry->path().filename().string();
    if (!name_before_hiding(name).empty()) hidden.push_back(entry->path());
    if (is_passed_over(name)) continue;
    const std::optional<Stand> stand = stand_of(entry->path());
    if (!stand || taken_.has(stand->source)) continue;
    found.emplace_back(stand->source.mtime_ns, name);
    see(name, stand->source);
  }
  for (const fs::path& each : hidden) unhide(each);  // as soon as its name is free; then it is seen like any other
  tell_once(told_folder_, failed ? options_.folder + " cannot be read: " + failed.message() : std::string());
  if (failed) return;
  std::sort(found.begin(), found.end());  // the oldest first, as far as the clock was right
  std::set<std::string> there;
  for (const auto& [time, name] : found) there.insert(name);
  std::erase_if(seen_, [&](const auto& known) { return there.count(known.first) == 0; });
  for (const auto& [time, name] : found) {
    if (ends_.stop->stopped()) return;
    Seen& seen = seen_[name];
    const Instant now = Clock::now();
    if (now < spool_again_) return;
    if (seen.left || now < seen.again) continue;
    if (!seen.closed && elapsed(seen.since, now) < pace_.look_every) {
      tell_late(name, seen, "it changes all the time");
      continue;
    }
    const Taking taking = take(name, seen);
    if (taking == Taking::full) return;
    if (taking == Taking::taken) seen_.erase(name);
  }
}

WatchFolder::Taking WatchFolder::take(const std::string& name, Seen& seen) {
  const fs::path path = fs::path(options_.folder) / name;
  if (ReadLease(path).writers() == Writers::some) {
    tell_late(name, seen, "a process has it open for writing");
    return Taking::later;
  }
  const std::optional<Stand> before = stand_of(path);
  Outcome<Bytes> bytes = read_whole(path, kMaxFileBytes);
  // What changed meanwhile is looked at anew.
  const std::optional<Stand> now = stand_of(path);
  if (!before || !now || !(*now == *before) || !(now->source == seen.as)) return Taking::later;
  if (!bytes && !is_of_the_picture(bytes.error().code)) return put_off(name, seen, bytes.error());
  Outcome<SpoolFill::Filled> filled(Error{Errc::internal, {}});
  if (bytes) {
    const Stand read = *now;
    filled = ends_.fill->add(path.string(), std::move(bytes).value(), read.source,
                             [this, &name, &read] { settle_original(name, read); });
  } else {
    filled = bytes.error();
  }
  if (filled) {
    tell_once(told_full_, filled.value().dropped.empty() ? std::string()
                                                         : "pictures in the spool give way to newer ones (--policy)");
    told_spool_ = false;
    spool_faults_ = 0;
    ends_.spooled();
    return Taking::taken;
  }
  if (filled.error().code == Errc::no_space) {
    tell_once(told_full_, filled.error().detail + "; pictures stay in " + options_.folder);
    return Taking::full;
  }
  if (filled.error().code == Errc::io_error) {  // the spool's: the same for all
    if (!told_spool_) ends_.remark("pictures stay where they are: " + escaped(describe(filled.error()), 1024));
    told_spool_ = true;
    spool_again_ = after(Clock::now(), pause_before_retry(spool_faults_++, pace_.look_every, pace_.longest_pause, {}));
    return Taking::full;
  }
  if (!is_of_the_picture(filled.error().code)) return put_off(name, seen, filled.error());
  seen.closed = false;  // by its marks it is not whole: perhaps closed in between, and it goes on
  if (elapsed(seen.since, Clock::now()) < pace_.give_up) return Taking::later;
  seen.left = true;
  ends_.remark(escaped(name, 512) + " stays where it is: " + escaped(describe(filled.error()), 512));
  return Taking::later;
}

/// Tried again for ever: a disk or a right may come back.
WatchFolder::Taking WatchFolder::put_off(const std::string& name, Seen& seen, const Error& error) {
  if (!seen.told_fault)
    ends_.remark(escaped(name, 512) + " waits, and is tried again: " + escaped(describe(error), 512));
  seen.told_fault = true;
  seen.again = after(Clock::now(), pause_before_retry(seen.faults++, pace_.look_every, pace_.longest_pause, {}));
  return Taking::later;
}

void WatchFolder::tell_late(const std::string& name, Seen& seen, const char* why) {
  if (seen.told_late || elapsed(seen.met, Clock::now()) < pace_.give_up) return;
  seen.told_late = true;
  ends_.remark(escaped(name, 512) + " is not taken yet: " + why);
}

void WatchFolder::settle_original(const std::string& name, const Stand& read) {
  const fs::path path = fs::path(options_.folder) / name;
  settled(name, read.source, options_.after == After::keep ? Gone::failed : put_away(path, read, options_));
}

/// Makes durable what became of an original, or remembers that it is still there.
void WatchFolder::settled(const std::string& name, const SourceFile& source, Gone gone) {
  const int why = errno;
  Outcome<void> kept = done();
  if (gone == Gone::failed) {
    if (options_.after != After::keep) {
      ends_.remark(escaped(name, 512) + " was taken, and cannot be " +
                   (options_.after == After::move ? "moved: " : "deleted: ") + std::strerror(why));
    }
    kept = taken_.add(source);
  } else {
    if (gone == Gone::hidden) {
      ends_.remark(escaped(name, 512) + " changed twice while it was taken: one of the two waits under a hidden name");
    }
    kept = sync_folder(options_.folder);
    if (kept && options_.after == After::move) kept = sync_folder(options_.move_to);
  }
  if (!kept) ends_.remark("a restart may take " + escaped(name, 512) + " again: " + describe(kept.error()));
}

/// Says `text` when it is another than last time; an empty one says nothing.
void WatchFolder::tell_once(std::string& told, const std::string& text) {
  if (told == text) return;
  told = text;
  if (!text.empty()) ends_.remark(escaped(text, 1024));
}

}  // namespace gearbox::client
