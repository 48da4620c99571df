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
  bool asked = false;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (!std::exchange(asked, true)) report.wanted = setup_.config.batch;
    if (report.is_news()) {
      report.sink = setup_.config.name;
      report.held = held_.ids();
      lock.unlock();
      report_(std::exchange(report, {}));
      lock.lock();
    }
    std::vector<Row> rows = wait_for_work(lock);
    if (stopping_) break;
    asked = rows.empty();
    lock.unlock();
    if (!rows.empty()) deliver(std::move(rows), report);
    try_held(report);  // one at most: they hold up nobody
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

std::vector<Row> Lane::wait_for_work(std::unique_lock<std::mutex>& lock) {
  for (;;) {
    if (opened_ && opened_ != setup_.sink) {  // out of force: its library may be closed
      lock.unlock();
      opened_.reset();
      lock.lock();
    }
    if (std::exchange(edition_seen_, edition_) != edition_) {
      portions_.begin_anew();
      held_.hurry(Clock::now());
      pause_ = milliseconds{0};
    }
    const Held::Event* const held = held_.first();
    if (stopping_ || !offered_.empty() || (held != nullptr && held->due <= Clock::now())) {
      return std::exchange(offered_, {});
    }
    if (held == nullptr) {
      wake_.wait(lock);
    } else {
      wake_.wait_until(lock, held->due);
    }
  }
}

/// What is in the report then is over; what is not comes again with the next batch.
void Lane::deliver(std::vector<Row> rows, Report& report) {
  std::string reason;  // of the last failure
  SinkSetup setup;
  std::uint64_t edition = 0;
  for (bool first = true; first || !portions_.empty(); first = false) {
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
      setup = setup_;
      edition = edition_;
      counters_.state = "delivering";
    }
    if (first) portions_.begin(std::move(rows), setup.config.batch);
    const Portions::Portion portion = portions_.next();
    std::vector<const Row*> given;
    for (std::size_t i = 0; i < portion.count; ++i) given.push_back(&portions_.row(portion.first + i));
    const plugin::Verdict verdict = try_once(setup, given);
    note(verdict, portion.count);
    if (verdict.fate == plugin::Fate::later) {
      reason = verdict.reason;
      portions_.put_off(portion, verdict.pause.count() == 0);
      if (!pause(verdict, setup, edition) || portions_.wants_more()) return;
      continue;
    }
    pause_ = milliseconds{0};
    if (verdict.fate == plugin::Fate::never && portion.count > 1) {
      portions_.refused(portion);
      continue;
    }
    for (Row& row : portions_.take(portion)) {
      if (verdict.fate == plugin::Fate::done) {
        report.done.push_back(row.id);
      } else {
        report.dead.push_back({row.id, std::move(row.body), verdict.reason});
      }
    }
    if (std::optional<Row> guilty = portions_.take_guilty())
      hold(std::move(*guilty), setup.config.name, reason, report);
  }
}

/// False: it was ended early, by stop() or use().
bool Lane::pause(const plugin::Verdict& verdict, const SinkSetup& setup, std::uint64_t edition) {
  const milliseconds most = setup.config.retry_max;
  pause_ = std::min(most, pause_.count() == 0 ? kFirstPause : pause_ * 2);
  const milliseconds wait = std::min(most, verdict.pause.count() > 0 ? verdict.pause : spread(pause_));
  std::unique_lock lock(mutex_);
  return !wake_.wait_for(lock, wait, [&] { return stopping_ || edition != edition_; });
}

void Lane::hold(Row row, const std::string& name, const std::string& reason, Report& report) {
  const std::string key(ParsedEvent(row.body).view().key);
  spdlog::warn("event=sink_event_held sink={} key={} reason=\"{}\" hint=\"others are taken: it is tried beside them\"",
               name, escaped(key), escaped(reason, kReasonBytes));
  std::optional<Held::Event> gone = held_.add(std::move(row), reason, kFirstPause, Clock::now());
  if (gone) {
    report.dead.push_back(
        {gone->row.id, std::move(gone->row.body), "put off each time while others were taken: " + gone->reason});
  }
  const std::lock_guard lock(mutex_);
  counters_.held = held_.size();
}

void Lane::try_held(Report& report) {
  const Held::Event* const held = held_.first();
  if (held == nullptr || held->due > Clock::now()) return;
  SinkSetup setup;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    setup = setup_;
  }
  const Row* const row = &held->row;
  const plugin::Verdict verdict = try_once(setup, std::span(&row, 1));
  if (verdict.fate == plugin::Fate::later) {
    held_.put_off(verdict.reason, verdict.pause, setup.config.retry_max, Clock::now());
  } else {
    Row over = held_.take_first();
    if (verdict.fate == plugin::Fate::done) {
      report.done.push_back(over.id);
    } else {
      report.dead.push_back({over.id, std::move(over.body), verdict.reason});
    }
  }
  const std::lock_guard lock(mutex_);
  counters_.held = held_.size();
  if (verdict.fate == plugin::Fate::later) ++counters_.retried;
  if (verdict.fate == plugin::Fate::done) ++counters_.delivered;
}

plugin::Verdict Lane::try_once(const SinkSetup& setup, std::span<const Row* const> rows) {
  if (!setup.sink) return {plugin::Fate::later, setup.missing, milliseconds{0}};
  if (opened_ != setup.sink) {
    opened_.reset();
    const plugin::SinkPlace place{setup.config.name, place_.node, place_.folder};
    if (const Outcome<void> opened = setup.sink->open(place); !opened) {
      return {plugin::Fate::later, describe(opened.error()), milliseconds{0}};
    }
    opened_ = setup.sink;
  }
  std::vector<std::unique_ptr<ParsedEvent>> parsed;
  std::vector<plugin::EventView> views;
  for (const Row* row : rows) {
    parsed.push_back(std::make_unique<ParsedEvent>(row->body));
    views.push_back(parsed.back()->view());
  }
  return opened_->deliver(views, after(Clock::now(), setup.config.timeout));
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
