// lane.hpp: one sink at work: a thread of its own that gives the plugin batches of events, waits ever longer when they
// are put off, and finds the one that is to blame when a batch cannot be taken.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "gearbox/base/clock.hpp"
#include "gearbox/plugin/sink.hpp"
#include "sinks/held.hpp"
#include "sinks/portions.hpp"
#include "sinks/queue.hpp"
#include "sinks/setup.hpp"

namespace gearbox::sinks {

/// What became of a batch; the queue gives another one for it.
struct Report {
  struct Dead {
    std::int64_t id = 0;
    std::string body, why;
  };
  std::string sink;
  std::vector<std::int64_t> done;
  std::vector<Dead> dead;
  std::vector<std::int64_t> held;     // events that the lane keeps, and tries beside the others: all of them
  std::optional<std::size_t> wanted;  // events of the next batch, at most; 0: none any more; none: it was said before
  bool is_news() const { return wanted.has_value() || !done.empty() || !dead.empty(); }
};

/// Public calls: any thread.
class Lane : public std::enable_shared_from_this<Lane> {
 public:
  struct Place {
    std::string node, folder;
  };
  /// `report` is called from the lane's thread: at once for the first batch, then with what became of each; it must
  /// not block and outlives the lane's thread.
  static std::shared_ptr<Lane> start(SinkSetup setup, Place place, std::function<void(Report)> report);

  /// The batch that was asked for.
  void offer(std::vector<Row> rows);
  /// From the next try on; a pause ends now.
  void use(SinkSetup setup);
  /// No further delivery begins.
  void stop();
  /// After stop(). When the plugin has not come back by `until`, its thread is left behind with all that it uses, and
  /// its batch is delivered again one day.
  bool join(Instant until);
  LaneCounters counters() const;

 private:
  Lane(SinkSetup setup, Place place, std::function<void(Report)> report);
  void run();
  /// Waits for what is to be done next; its rows, none when a held event is due. With the lock.
  std::vector<Row> wait_for_work(std::unique_lock<std::mutex>& lock);
  void deliver(std::vector<Row> rows, Report& report);
  void try_held(Report& report);
  void hold(Row row, const std::string& name, const std::string& reason, Report& report);
  bool pause(const plugin::Verdict& verdict, const SinkSetup& setup, std::uint64_t edition);
  plugin::Verdict try_once(const SinkSetup& setup, std::span<const Row* const> rows);
  void note(const plugin::Verdict& verdict, std::size_t events);

  const Place place_;
  const std::function<void(Report)> report_;

  // Of the thread.
  std::shared_ptr<plugin::Sink> opened_;
  Portions portions_;
  Held held_;
  milliseconds pause_{0};           // the last one; 0: all goes well
  std::uint64_t edition_seen_ = 0;  // of setup_

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  SinkSetup setup_;
  std::uint64_t edition_ = 0;  // of setup_
  std::vector<Row> offered_;
  bool stopping_ = false, ended_ = false;
  LaneCounters counters_;
  Instant told_at_{};
  bool away_ = false;  // it was put off, and told of

  std::thread thread_;
};

}  // namespace gearbox::sinks
