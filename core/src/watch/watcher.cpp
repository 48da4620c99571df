#include "watch/watcher.hpp"

#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace gearbox::watch {

namespace fs = std::filesystem;

namespace {

constexpr std::uint32_t kEvents = IN_CREATE | IN_MODIFY | IN_CLOSE_WRITE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE |
                                  IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;
// Enough to notice that a link was swapped, in folders that may be full of others' business.
constexpr std::uint32_t kLinkEvents = IN_CREATE | IN_MOVED_TO | IN_MASK_ADD | IN_ONLYDIR;
// A large file being copied stirs thousands of times a second; each look is a stat() of every file.
constexpr milliseconds kCalm{20};

std::string reason(int number) {
  return std::generic_category().message(number);
}

struct Wanted {
  fs::path path;
  std::uint32_t events;
};

/// `folder`, and the folders that hold the symbolic links on the way to it: when one of those is swapped, the folder
/// that was watched so far does not notice.
void add_with_links(std::vector<Wanted>& all, const fs::path& folder) {
  all.push_back({folder, kEvents});
  fs::path walked;
  std::error_code failure;
  for (const fs::path& part : folder) {
    const fs::path parent = walked;
    walked /= part;
    if (part.empty() || !fs::is_symlink(walked, failure)) continue;
    all.push_back({parent.empty() ? fs::path(".") : parent, kLinkEvents});
  }
}

}  // namespace

Watcher::Watcher(Folders folders, Options options, int bell, int inotify, int fault)
    : folders_(std::move(folders)), options_(options), bell_(bell), inotify_(inotify), untold_(fault) {}

Outcome<std::unique_ptr<Watcher>> Watcher::create(Folders folders, Options options) {
  const int bell = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (bell < 0) return Error{Errc::no_space, "eventfd: " + reason(errno)};
  int inotify = -1;
  int fault = 0;
  if (options.inotify) {
    inotify = ::inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (inotify < 0) fault = errno;
  }
  return std::unique_ptr<Watcher>(new Watcher(std::move(folders), options, bell, inotify, fault));
}

Watcher::~Watcher() {
  if (inotify_ >= 0) ::close(inotify_);
  ::close(bell_);
}

bool Watcher::reconcile() {
  // Told here and not where it was found: with no descriptor left a log file cannot be opened either.
  if (const int fault = std::exchange(untold_, 0); fault != 0) {
    spdlog::warn("watch: no inotify, folders are looked at every {} ms instead reason=\"{}\"", options_.poll.count(),
                 reason(fault));
  }
  if (inotify_ < 0) return false;
  std::vector<Wanted> all;
  for (const fs::path& folder : folders_()) add_with_links(all, folder);
  std::set<int> wanted;
  int refused = 0;
  for (const auto& [path, events] : all) {
    // By path each time: what is behind it may be another folder now. The same one keeps its number.
    const int watch = wanted.size() < options_.max_watches ? ::inotify_add_watch(inotify_, path.c_str(), events) : -1;
    if (watch >= 0) {
      wanted.insert(watch);
    } else if (wanted.size() >= options_.max_watches || errno == ENOSPC || errno == ENOMEM) {
      refused = wanted.size() >= options_.max_watches ? ENOSPC : errno;
    }  // else it is missing or closed to us: the next wait tries again
  }
  if (refused != 0 && !short_of_watches_) {
    spdlog::warn("watch: no inotify watch is left, some folders are looked at every {} ms instead reason=\"{}\"",
                 options_.poll.count(), reason(refused));
  }
  short_of_watches_ = short_of_watches_ || refused != 0;
  const bool any_new = !std::includes(watches_.begin(), watches_.end(), wanted.begin(), wanted.end());
  for (const int watch : watches_) {
    if (!wanted.contains(watch)) ::inotify_rm_watch(inotify_, watch);  // fails when its folder is gone: just as well
  }
  watches_ = std::move(wanted);
  return any_new;
}

bool Watcher::take_events() {
  bool stirred = false;
  alignas(inotify_event) char block[16384];
  for (;;) {
    const ssize_t got = ::read(inotify_, block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return stirred;  // EAGAIN: that was all
    for (ssize_t at = 0; at < got;) {
      inotify_event event{};
      std::memcpy(&event, block + at, sizeof event);
      at += static_cast<ssize_t>(sizeof event + event.len);
      if ((event.mask & IN_Q_OVERFLOW) != 0) ++overflows_;
      // That a watch ended comes after the event that ended it; a folder that comes again gets another number.
      if ((event.mask & IN_IGNORED) == 0) stirred = true;
    }
  }
}

bool Watcher::wait(Instant until) {
  const Instant due = std::min(until, after(Clock::now(), options_.poll));
  bool stirred = reconcile();
  for (;;) {
    if (stopped_) return false;
    const Instant now = Clock::now();
    if (now >= due) return true;
    const Instant calm = after(last_stir_, kCalm);
    if (stirred && now >= calm) {
      last_stir_ = now;
      return true;
    }
    const Instant wake = stirred ? std::min(due, calm) : due;
    const auto left = std::chrono::ceil<milliseconds>(wake - now);
    // What has stirred is told when it is calm; more of it need not wake us until then.
    pollfd ready[2] = {{.fd = bell_, .events = POLLIN, .revents = 0},
                       {.fd = stirred ? -1 : inotify_, .events = POLLIN, .revents = 0}};
    if (::poll(ready, 2, static_cast<int>(std::min<std::int64_t>(left.count(), 60'000))) < 0 && errno != EINTR) {
      return !stopped_;  // out of memory: the caller's look is what is left
    }
    std::uint64_t rung = 0;
    if (::read(bell_, &rung, sizeof rung) == sizeof rung) return !stopped_;
    if (inotify_ >= 0 && take_events()) stirred = true;
  }
}

void Watcher::hurry() {
  const std::uint64_t one = 1;
  // Fails only when it has rung 2^64 times unheard.
  [[maybe_unused]] const ssize_t sent = ::write(bell_, &one, sizeof one);
}

void Watcher::stop() {
  stopped_ = true;
  hurry();
}

}  // namespace gearbox::watch
