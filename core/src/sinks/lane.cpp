#include "sinks/lane.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <random>
#include <utility>

#include "gearbox/base/text.hpp"
#include "sinks/event.hpp"

namespace gearbox::sinks {

namespace {

constexpr milliseconds kFirstPause{200};
constexpr milliseconds kTellEvery{10'000};  // between two log lines about one sink's trouble
constexpr std::size_t kReasonBytes = 512;

/// Receivers that come back must not meet all their senders at once.
milliseconds spread(milliseconds pause) {
  static thread_local std::minstd_rand random{std::random_device{}()};
  return milliseconds(
      std::uniform_int_distribution<std::int64_t>(pause.count() * 3 / 4, pause.count() * 5 / 4)(random));
}

}  // namespace

Lane::Lane(SinkSetup setup, Place place, std::function<void(Report)> report)
    : place_(std::move(place)), report_(std::move(report)), setup_(std::move(setup)) {
  counters_.state = "idle";
}

std::shared_ptr<Lane> Lane::start(SinkSetup setup, Place place, std::function<void(Report)> report) {
  std::shared_ptr<Lane> lane(new Lane(std::move(setup), std::move(place), std::move(report)));
  lane->thread_ = std::thread([lane] { lane->run(); });
  return lane;
}

void Lane::offer(std::vector<Row> rows) {
  const std::lock_guard lock(mutex_);
  offered_ = std::move(rows);
  wake_.notify_all();
}

void Lane::use(SinkSetup setup) {
  const std::lock_guard lock(mutex_);
  setup_ = std::move(setup);
  ++edition_;
  wake_.notify_all();
}

void Lane::stop() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  wake_.notify_all();
}

bool Lane::join(Instant until) {
  bool ended = false;
  {
    std::unique_lock lock(mutex_);
    ended = wake_.wait_until(lock, until, [this] { return ended_; });
  }
  if (ended) {
    thread_.join();
  } else {
    thread_.detach();
  }
  return ended;
}

LaneCounters Lane::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

void Lane::run() {
  Report report;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    report.sink = setup_.config.name;
    report.wanted = setup_.config.batch;
    lock.unlock();
    report_(std::exchange(report, {}));
    lock.lock();
    while (!stopping_ && offered_.empty()) {
      wake_.wait(lock);
      if (opened_ && opened_ != setup_.sink) {  // out of force: its library may be closed
        lock.unlock();
        opened_.reset();
        lock.lock();
      }
    }
    if (stopping_) break;
    std::vector<Row> rows = std::exchange(offered_, {});
    lock.unlock();
    deliver(std::move(rows), report);
    lock.lock();
  }
  report.sink = setup_.config.name;
  report.wanted = 0;
  lock.unlock();
  report_(std::move(report));  // what was delivered last is not delivered again
  opened_.reset();
  lock.lock();
  ended_ = true;
  wake_.notify_all();
}

/// What is in the report then is over; all of it, unless it was stopped on the way.
void Lane::deliver(std::vector<Row> rows, Report& report) {
  std::vector<std::unique_ptr<ParsedEvent>> parsed;
  std::vector<plugin::EventView> views;
  for (const Row& row : rows) {
    parsed.push_back(std::make_unique<ParsedEvent>(row.body));
    views.push_back(parsed.back()->view());
  }
  std::string reason;
  const Brought all = bring(views, reason);
  if (all == Brought::stopped) return;
  if (all == Brought::done) {
    for (const Row& row : rows) report.done.push_back(row.id);
    return;
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Brought one = rows.size() == 1 ? all : bring(std::span(views).subspan(i, 1), reason);
    if (one == Brought::stopped) return;
    if (one == Brought::done) {
      report.done.push_back(rows[i].id);
    } else {
      report.dead.push_back({rows[i].id, std::move(rows[i].body), reason});
    }
  }
}

Lane::Brought Lane::bring(std::span<const plugin::EventView> events, std::string& reason) {
  milliseconds pause = kFirstPause;
  for (;;) {
    SinkSetup setup;
    std::uint64_t edition = 0;
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return Brought::stopped;
      setup = setup_;
      edition = edition_;
      counters_.state = "delivering";
    }
    const plugin::Verdict verdict = try_once(setup, events);
    note(verdict, events.size());
    reason = verdict.reason;
    if (verdict.fate == plugin::Fate::done) return Brought::done;
    if (verdict.fate == plugin::Fate::never) return Brought::never;
    const milliseconds most = setup.config.retry_max;
    const milliseconds wait = std::min(most, verdict.pause.count() > 0 ? verdict.pause : spread(pause));
    pause = std::min(most, pause * 2);
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, wait, [&] { return stopping_ || edition != edition_; });
  }
}

plugin::Verdict Lane::try_once(const SinkSetup& setup, std::span<const plugin::EventView> events) {
  if (!setup.sink) return {plugin::Fate::later, setup.missing, milliseconds{0}};
  if (opened_ != setup.sink) {
    opened_.reset();
    const plugin::SinkPlace place{setup.config.name, place_.node, place_.folder};
    if (const Outcome<void> opened = setup.sink->open(place); !opened) {
      return {plugin::Fate::later, describe(opened.error()), milliseconds{0}};
    }
    opened_ = setup.sink;
  }
  return opened_->deliver(events, after(Clock::now(), setup.config.timeout));
}

void Lane::note(const plugin::Verdict& verdict, std::size_t events) {
  const std::lock_guard lock(mutex_);
  if (verdict.fate == plugin::Fate::done) {
    counters_.delivered += events;
    counters_.state = "idle";
    counters_.last_error.clear();
    if (std::exchange(away_, false)) spdlog::info("event=sink_works_again sink={}", setup_.config.name);
    return;
  }
  counters_.last_error = escaped(verdict.reason, kReasonBytes);
  if (verdict.fate == plugin::Fate::later) ++counters_.retried;
  counters_.state = verdict.fate == plugin::Fate::later ? "waiting" : "idle";
  const Instant now = Clock::now();
  if (told_at_ != Instant{} && now - told_at_ < kTellEvery) return;
  told_at_ = now;
  away_ = verdict.fate == plugin::Fate::later;
  spdlog::warn("event=sink_failed sink={} again={} reason=\"{}\"", setup_.config.name,
               verdict.fate == plugin::Fate::later, counters_.last_error);
}

}  // namespace gearbox::sinks
