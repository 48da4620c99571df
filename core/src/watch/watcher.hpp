// watcher.hpp: waits until something may have changed in some folders: inotify to be quick, polling to be sure.
//
// Nothing that inotify says is believed: an event only ends the wait, and the caller looks for itself (files.hpp). So
// lost events, an overflown queue, network file systems and a system without inotify cost time, at most one poll.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "gearbox/base/clock.hpp"
#include "gearbox/base/outcome.hpp"

namespace gearbox::watch {

struct WatcherOptions {
  milliseconds poll{1000};         // a wait ends after this at the latest
  bool inotify = true;             // false: polling alone
  std::size_t max_watches = 2048;  // folders beyond are polled
};

/// Threads: wait() by one thread at a time; hurry() and stop() by any, at any time before the end of the object.
class Watcher {
 public:
  using Options = WatcherOptions;
  using Folders = std::function<std::vector<std::filesystem::path>()>;

  /// `folders` is asked at each wait, on its thread: which folders to watch now (each by itself, not what is below).
  /// Errors: no_space (no descriptor for its own bell). A system without a free inotify instance is no error: that is
  /// logged, once, and the folders are polled.
  static Outcome<std::unique_ptr<Watcher>> create(Folders folders, Options options = {});
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  /// Blocks until something stirred in the folders, hurry() was called, `until` came or a poll is due. The first wait
  /// after a folder appeared ends at once: what happened in it before is known to nobody. False when stop() was called.
  bool wait(Instant until);
  /// Ends the wait under way, or the next one.
  void hurry();
  /// Ends the wait under way and each later one.
  void stop();

  /// True while inotify serves all of the folders that are there. Of the waiting thread.
  bool is_quick() const { return inotify_ >= 0 && !short_of_watches_; }
  /// How often the kernel's queue overflowed. Of the waiting thread.
  std::uint64_t overflows() const { return overflows_; }

 private:
  Watcher(Folders folders, Options options, int bell, int inotify, int fault);
  bool reconcile();    // true: a folder is watched that was not
  bool take_events();  // true: something stirred

  Folders folders_;
  Options options_;
  int bell_;     // eventfd: hurry() and stop()
  int inotify_;  // -1: polling alone
  int untold_;   // errno: why there is no inotify; 0: told, or no fault
  std::set<int> watches_;
  bool short_of_watches_ = false;  // told once
  std::uint64_t overflows_ = 0;
  Instant last_stir_{};
  std::atomic<bool> stopped_ = false;
};

}  // namespace gearbox::watch
