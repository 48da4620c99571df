// capturing.hpp: a spool, and a capture that fills it.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "pictures.hpp"
#include "watch_folder.hpp"

namespace gearbox::client {

namespace fs = std::filesystem;

/// A spool, and a capture on a thread of its own.
class Capturing {
 public:
  explicit Capturing(SpoolLimits limits = {}) {
    fs::create_directories(folder());
    spool = Spool::open(scratch.path() / "spool", limits).value();
    RequestOptions request;
    request.task = "echo";
    fill.emplace(SpoolFill::create(spool.get(), request).value());
    ends.fill = &*fill;
    ends.stop = &stop;
    ends.spooled = [this] { ++spooled; };
    ends.remark = [this](const std::string& text) {
      const std::lock_guard guard(mutex);
      remarks += text + "\n";
    };
  }
  ~Capturing() { end(); }
  fs::path folder() const { return scratch.path() / "pictures"; }

  void start(std::unique_ptr<Capture> of) {
    capture = std::move(of);
    capture->begin();
    thread = std::thread([this] { capture->run(); });
  }
  void watch(After after, WatchPace pace = {milliseconds(50), milliseconds(200)}) {
    WatchOptions options{folder().string(), after, (scratch.path() / "moved").string()};
    start(WatchFolder::create(options, spool.get(), ends, pace).value());
  }
  void end() {
    stop.stop();
    if (thread.joinable()) thread.join();
  }
  bool until(const std::function<bool()>& condition) const {
    const Instant limit = Clock::now() + seconds(20);
    while (!condition()) {
      if (Clock::now() >= limit) return false;
      std::this_thread::sleep_for(milliseconds(1));
    }
    return true;
  }
  bool said(const std::string& words) {
    const std::lock_guard guard(mutex);
    return remarks.find(words) != std::string::npos;
  }
  std::size_t count() const { return spool->list().value().size(); }

  ScratchFolder scratch;
  std::unique_ptr<Spool> spool;
  std::optional<SpoolFill> fill;
  StopBell stop;
  CaptureEnds ends;
  std::atomic<int> spooled = 0;
  std::mutex mutex;
  std::string remarks;
  std::unique_ptr<Capture> capture;
  std::thread thread;
};

}  // namespace gearbox::client
