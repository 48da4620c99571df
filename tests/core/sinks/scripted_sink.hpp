// scripted_sink.hpp: a sink that does what a test says and remembers what it got.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "sinks/outbox.hpp"
#include "support/temp_dir.hpp"

namespace gearbox::sinks {

inline constexpr std::chrono::seconds kLong{20};  // no test waits so long when all is well

class ScriptedSink final : public plugin::Sink {
 public:
  using Answer = std::function<plugin::Verdict(const std::vector<std::string>& requests)>;
  explicit ScriptedSink(Answer answer) : answer_(std::move(answer)) {}

  Outcome<void> open(const plugin::SinkPlace& place) override {
    const std::lock_guard lock(mutex_);
    folder_ = place.folder;
    return done();
  }
  plugin::Verdict deliver(std::span<const plugin::EventView> events, Instant /*deadline*/) override {
    std::vector<std::string> requests;
    for (const plugin::EventView& event : events) requests.emplace_back(event.request);
    plugin::Verdict verdict = answer_(requests);
    const std::lock_guard lock(mutex_);
    ++calls_;
    if (verdict.fate == plugin::Fate::done) delivered_.insert(delivered_.end(), requests.begin(), requests.end());
    wake_.notify_all();
    return verdict;
  }

  /// What was delivered, as soon as it is so many; all there is at the deadline.
  std::vector<std::string> wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, kLong, [&] { return delivered_.size() >= count; });
    return delivered_;
  }
  bool wait_for_calls(std::size_t count) {
    std::unique_lock lock(mutex_);
    return wake_.wait_for(lock, kLong, [&] { return calls_ >= count; });
  }
  std::string folder() const {
    const std::lock_guard lock(mutex_);
    return folder_;
  }

 private:
  const Answer answer_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::string> delivered_;
  std::size_t calls_ = 0;
  std::string folder_;
};

inline std::shared_ptr<ScriptedSink> good_sink() {
  return std::make_shared<ScriptedSink>([](const auto&) { return plugin::Verdict{}; });
}
inline std::shared_ptr<ScriptedSink> absent_sink() {
  return std::make_shared<ScriptedSink>([](const auto&) {
    return plugin::Verdict{plugin::Fate::later, "away", milliseconds{0}};
  });
}

/// Holds whoever passes until it is opened.
class Latch {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] { return open_; });
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    wake_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  bool open_ = false;
};

inline RequestKey key_of(std::uint8_t number) {
  RequestKey key;
  key.device.bytes.fill(std::byte{0xD1});
  key.id.bytes.fill(std::byte{number});
  return key;
}
inline std::string name_of(std::uint8_t number) {
  return to_text(key_of(number).id);
}
inline std::vector<std::string> names(std::uint8_t from, std::uint8_t to) {
  std::vector<std::string> all;
  for (std::uint8_t i = from; i < to; ++i) all.push_back(name_of(i));
  return all;
}

inline Event event_of(std::uint8_t number, std::string task = "echo") {
  Event event;
  event.key = key_of(number);
  event.user = "anna";
  event.task = std::move(task);
  return event;
}

inline SinkSetup setup_of(std::string name, std::shared_ptr<plugin::Sink> sink) {
  SinkSetup setup;
  setup.config.name = std::move(name);
  setup.sink = std::move(sink);
  return setup;
}

inline Outbox::Setup in(const std::filesystem::path& folder, std::vector<SinkSetup> sinks) {
  Outbox::Setup setup;
  setup.queue_folder = folder / "outbox";
  setup.sinks_folder = folder / "sinks";
  setup.node = "node-1";
  setup.sinks = std::move(sinks);
  return setup;
}

/// Asks until it is so or the deadline has come: for counters, which nobody tells of.
template <class Condition>
bool comes_true(Condition condition) {
  const Instant until = Clock::now() + kLong;
  while (!condition()) {
    if (Clock::now() > until) return false;
    std::this_thread::sleep_for(milliseconds(2));
  }
  return true;
}

}  // namespace gearbox::sinks
