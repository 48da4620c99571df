// The outbox's own thread: writes what was handed over and reported into the queue, and feeds the lanes from it.
#include <spdlog/spdlog.h>

#include "gearbox/base/text.hpp"
#include "sinks/dead_letters.hpp"
#include "sinks/outbox_state.hpp"

namespace gearbox::sinks {

namespace {

constexpr milliseconds kAgainAfter{1'000};  // what the disk did not take
constexpr milliseconds kTellEvery{10'000};  // between two log lines about one trouble

}  // namespace

void Outbox::State::add(Order order) {
  {
    const std::lock_guard lock(mutex);
    orders.push_back(std::move(order));
  }
  wake.notify_one();
}

void Outbox::State::work() {
  std::vector<Order> batch;
  bool failed = false;
  std::unique_lock lock(mutex);
  for (;;) {
    if (failed) {
      wake.wait_for(lock, kAgainAfter, [this] { return stopping; });
    } else {
      wake.wait(lock, [this] { return stopping || !orders.empty(); });
    }
    while (!orders.empty() && batch.size() < kTogether) {
      batch.push_back(std::move(orders.front()));
      orders.pop_front();
    }
    if (batch.empty() && stopping) break;
    lock.unlock();
    const Outcome<void> written = write(batch);
    failed = !written.has_value();
    lock.lock();
    if (failed) {
      complain(written.error());
      if (stopping) break;  // a journal gives them to the next process
      continue;
    }
    last_error.clear();
    batch.clear();
    failed = !feed(lock);
  }
}

Outcome<void> Outbox::State::write(std::vector<Order>& batch) {
  Changes changes;
  Configs configs;
  {
    const std::lock_guard lock(mutex);
    for (const auto& [name, sink] : sinks) {
      changes[name].waiting = sink.waiting;
      configs[name] = sink.config;
    }
  }
  Outcome<void> written = queue.begin();
  if (!written) return written;
  std::uint64_t lost = 0;
  for (const Order& order : batch) {
    if (const auto* put = std::get_if<Put>(&order)) {
      written = write(*put, configs, changes);
    } else if (const auto* gone = std::get_if<Forget>(&order)) {
      written = queue.forget(gone->key);
    } else if (const auto* report = std::get_if<Report>(&order)) {
      written = write(*report, changes[report->sink]);
    }
    if (!written) break;
  }
  if (written) {
    for (auto& [name, change] : changes) bury(configs.at(name), change, lost);
    written = queue.commit();
  }
  if (!written) {
    queue.rollback();
    return written;
  }
  buried.clear();
  put_in_force(batch, changes, lost);
  return written;
}

Outcome<void> Outbox::State::write(const Put& put, const Configs& configs, Changes& changes) {
  const std::string body = to_json(put.event, setup.node, setup.stored_in);
  std::vector<std::string> takers;
  std::vector<std::string> full;
  for (const std::string& name : put.sinks) {
    const Change& change = changes.at(name);
    const config::SinkConfig& limits = configs.at(name);
    const bool fits =
        change.waiting.events < limits.max_events && change.waiting.bytes + body.size() <= limits.max_bytes;
    (fits ? takers : full).push_back(name);
  }
  BOOST_OUTCOME_TRY(const bool is_new,
                    queue.put(put.event.key, state_of(put.event), body, takers, setup.let_go != nullptr));
  if (!is_new) return done();
  for (const std::string& name : takers) {
    ++changes.at(name).waiting.events;
    changes.at(name).waiting.bytes += body.size();
  }
  for (const std::string& name : full) {
    changes.at(name).letters["the queue of this sink was full"].push_back(body);
  }
  return done();
}

Outcome<void> Outbox::State::write(const Report& report, Change& change) {
  for (const Report::Dead& dead : report.dead) change.letters[dead.why].push_back(dead.body);
  std::vector<std::int64_t> over = report.done;
  for (const Report::Dead& dead : report.dead) over.push_back(dead.id);
  for (const std::int64_t id : over) {
    BOOST_OUTCOME_TRY(const Waiting taken, queue.take_out(report.sink, id));
    change.waiting.events -= taken.events;
    change.waiting.bytes -= taken.bytes;
  }
  return done();
}

/// The dead letters of a batch together: a sync for each event would hold up all sinks, whose one thread this is.
/// Counted as lost when even that cannot be written: the queue must go on.
void Outbox::State::bury(const config::SinkConfig& sink, Change& change, std::uint64_t& lost) {
  DeadLetters letters(folder_of(sink.name), sink.dead_letter_bytes);
  for (const auto& [why, events] : change.letters) {
    std::vector<std::string_view> fresh;
    std::vector<std::string> marks;
    for (const std::string& event : events) {
      std::string mark = sink.name + '\0' + why + '\0' + event;
      if (buried.contains(mark)) continue;
      fresh.push_back(event);
      marks.push_back(std::move(mark));
    }
    change.dead += events.size() - fresh.size();
    if (fresh.empty()) continue;
    const Outcome<void> added = letters.add(fresh, why);
    if (added) {
      change.dead += fresh.size();
      buried.insert(marks.begin(), marks.end());
      continue;
    }
    lost += fresh.size();
    const std::lock_guard lock(mutex);
    complain(added.error());
  }
}

void Outbox::State::put_in_force(const std::vector<Order>& batch, const Changes& changes, std::uint64_t lost) {
  std::vector<RequestKey> let_go;
  {
    const std::lock_guard lock(mutex);
    dropped += lost;
    for (const auto& [name, change] : changes) {
      sinks.at(name).waiting = change.waiting;
      sinks.at(name).dead += change.dead;
    }
    for (const Order& order : batch) {
      if (const auto* put = std::get_if<Put>(&order)) {
        --handed_over;
        handed_over_bytes -= put->bytes;
        const auto found = on_their_way.find(put->event.key);
        if (found != on_their_way.end() && --found->second == 0) on_their_way.erase(found);
      } else if (const auto* gone = std::get_if<Forget>(&order)) {
        if (gone->let_go) let_go.push_back(gone->key);
      } else if (const auto* report = std::get_if<Report>(&order)) {
        Sink& sink = sinks.at(report->sink);
        sink.held = report->held;
        if (report->wanted) sink.wanted = *report->wanted;
      }
    }
  }
  for (const RequestKey& key : let_go) setup.let_go(key);
}

/// Batches for the lanes that wait for one. False: some could not be read.
bool Outbox::State::feed(std::unique_lock<std::mutex>& lock) {
  bool all = true;
  for (auto& [name, sink] : sinks) {
    if (sink.wanted == 0 || sink.waiting.events <= sink.held.size() || !sink.lane) continue;
    const std::size_t wanted = sink.wanted;
    const std::vector<std::int64_t> held = sink.held;
    lock.unlock();
    Outcome<std::vector<Row>> rows = queue.first(name, wanted, kBatchBytes, held);
    lock.lock();
    if (!rows) {
      complain(rows.error());
      all = false;
      continue;
    }
    if (rows.value().empty() || !sink.lane) continue;
    sink.wanted = 0;
    sink.lane->offer(std::move(rows).value());
  }
  return all;
}

void Outbox::State::complain(const Error& error) {
  last_error = describe(error);
  const Instant now = Clock::now();
  if (told_at != Instant{} && now - told_at < kTellEvery) return;
  told_at = now;
  spdlog::warn("event=sink_queue_failed reason=\"{}\"", escaped(last_error));
}

}  // namespace gearbox::sinks
