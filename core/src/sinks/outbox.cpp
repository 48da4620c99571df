#include "sinks/outbox.hpp"

#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>
#include <variant>

#include "gearbox/base/text.hpp"
#include "sinks/dead_letters.hpp"
#include "sinks/lane.hpp"
#include "sinks/queue.hpp"

namespace gearbox::sinks {

namespace {

constexpr std::size_t kTogether = 256;             // orders in one commit, at most
constexpr std::uint64_t kBatchBytes = 4ULL << 20;  // of one delivery, but for a single event
constexpr milliseconds kAgainAfter{1'000};         // what the disk did not take
constexpr milliseconds kTellEvery{10'000};         // between two log lines about one trouble
constexpr milliseconds kStopLimit{3'000};          // for deliveries under way when the node stops
constexpr std::uint64_t kEventBytes = 1024;        // what an event takes beside its values, about
constexpr std::size_t kMostOrders = 65'536;        // beyond that rows stay until the next start, which removes them

struct Put {
  Event event;
  std::vector<std::string> sinks;
  std::uint64_t bytes = 0;
};

struct Forget {
  RequestKey key;
  bool let_go = false;  // its event was on the way: the journal hears of it behind that
};

using Order = std::variant<Put, Forget, Report>;

Outcome<void> make_private_folder(const std::filesystem::path& folder) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (!failure && ::chmod(folder.c_str(), 0700) != 0) failure.assign(errno, std::generic_category());
  if (failure) return Error{Errc::io_error, folder.string() + ": " + failure.message()};
  return done();
}

Outcome<std::filesystem::path> set_aside(const std::filesystem::path& folder) {
  for (int n = 1;; ++n) {
    const std::filesystem::path aside = folder.string() + ".damaged-" + std::to_string(n);
    std::error_code failure;
    if (std::filesystem::exists(aside, failure)) continue;
    std::filesystem::rename(folder, aside, failure);
    if (failure) return Error{Errc::io_error, aside.string() + ": " + failure.message()};
    return aside;
  }
}

bool admits(const config::SinkConfig& sink, std::string_view task) {
  return sink.tasks.empty() || std::find(sink.tasks.begin(), sink.tasks.end(), task) != sink.tasks.end();
}

}  // namespace

/// Shared with the threads of the lanes: one that is left behind may still report.
struct Outbox::State {
  Setup setup;
  Queue queue;  // of the thread, once it runs
  std::vector<RequestKey> known;

  struct Sink {
    config::SinkConfig config;
    Waiting waiting;             // committed
    std::uint64_t dead = 0;      // dead letters
    std::size_t wanted = 0;      // the lane waits for a batch of so many; 0: it is busy
    std::shared_ptr<Lane> lane;  // null while it is opened
  };

  mutable std::mutex mutex;  // guards what follows
  std::condition_variable wake;
  std::map<std::string, Sink> sinks;  // none comes or goes
  std::deque<Order> orders;
  std::unordered_map<RequestKey, std::uint32_t, RequestKeyHash> on_their_way;  // puts that are not written
  std::size_t handed_over = 0;
  std::uint64_t handed_over_bytes = 0;
  std::uint64_t dropped = 0;
  std::string last_error;
  std::filesystem::path set_aside_as;
  bool stopping = false;

  // Of the thread.
  Instant told_at{};
  std::thread thread;

  explicit State(Setup wanted) : setup(std::move(wanted)) {}

  std::filesystem::path folder_of(const std::string& sink) const { return setup.sinks_folder / sink; }

  Outcome<void> open_queue() {
    BOOST_OUTCOME_TRY(make_private_folder(setup.queue_folder));
    BOOST_OUTCOME_TRY(queue, Queue::open(setup.queue_folder / "queue.db"));
    BOOST_OUTCOME_TRY(known, queue.kept());
    return done();
  }

  Outcome<void> open() {
    Outcome<void> opened = open_queue();
    if (!opened && opened.error().code == Errc::corrupt_data) {
      queue = Queue();
      BOOST_OUTCOME_TRY(set_aside_as, set_aside(setup.queue_folder));
      spdlog::error("event=sink_queue_damaged reason=\"{}\" set_aside={} hint=\"what waited for sinks is in there\"",
                    escaped(describe(opened.error())), set_aside_as.string());
      opened = open_queue();
    }
    if (!opened) return opened;
    for (const SinkSetup& each : setup.sinks) {
      BOOST_OUTCOME_TRY(make_private_folder(folder_of(each.config.name)));
      Sink& sink = sinks[each.config.name];
      sink.config = each.config;
      BOOST_OUTCOME_TRY(sink.waiting, queue.waiting(each.config.name));
    }
    BOOST_OUTCOME_TRY(const std::vector<std::string> names, queue.sinks());
    for (const std::string& name : names) {
      if (sinks.contains(name)) continue;
      BOOST_OUTCOME_TRY(give_up(name));
    }
    return done();
  }

  /// Nobody asks for these events any more.
  Outcome<void> give_up(const std::string& name) {
    BOOST_OUTCOME_TRY(make_private_folder(folder_of(name)));
    DeadLetters letters(folder_of(name), config::SinkConfig().dead_letter_bytes);
    std::uint64_t count = 0;
    for (;;) {
      BOOST_OUTCOME_TRY(const std::vector<Row> rows, queue.first(name, kTogether, kBatchBytes));
      if (rows.empty()) break;
      std::vector<std::string_view> bodies;
      for (const Row& row : rows) bodies.push_back(row.body);
      BOOST_OUTCOME_TRY(letters.add(bodies, "no sink of that name is configured any more"));
      BOOST_OUTCOME_TRY(queue.begin());
      for (const Row& row : rows) {
        BOOST_OUTCOME_TRY(queue.take_out(name, row.id));
      }
      BOOST_OUTCOME_TRY(queue.commit());
      count += rows.size();
    }
    spdlog::warn("event=sink_gone sink={} dead_letters={} file={}", name, count, letters.file().string());
    return done();
  }

  void add(Order order) {
    {
      const std::lock_guard lock(mutex);
      orders.push_back(std::move(order));
    }
    wake.notify_one();
  }

  void work() {
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

  /// What a batch changes, in numbers; put in force when it is committed.
  struct Change {
    Waiting waiting;  // of that sink, then
    std::uint64_t dead = 0;
    std::map<std::string, std::vector<std::string>> letters;  // dead ones, by why
  };

  Outcome<void> write(std::vector<Order>& batch) {
    std::map<std::string, Change> changes;
    std::map<std::string, config::SinkConfig> configs;
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
    put_in_force(batch, changes, lost);
    return written;
  }

  Outcome<void> write(const Put& put, const std::map<std::string, config::SinkConfig>& configs,
                      std::map<std::string, Change>& changes) {
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

  Outcome<void> write(const Report& report, Change& change) {
    for (const Report::Dead& dead : report.dead) change.letters[dead.why].push_back(dead.body);
    for (const std::int64_t id : report.done) {
      BOOST_OUTCOME_TRY(queue.take_out(report.sink, id));
    }
    for (const Report::Dead& dead : report.dead) {
      BOOST_OUTCOME_TRY(queue.take_out(report.sink, dead.id));
    }
    BOOST_OUTCOME_TRY(change.waiting, queue.waiting(report.sink));
    return done();
  }

  /// The dead letters of a batch together: a sync for each event would hold up all sinks, whose one thread this is.
  /// Counted as lost when even that cannot be written: the queue must go on.
  void bury(const config::SinkConfig& sink, Change& change, std::uint64_t& lost) {
    DeadLetters letters(folder_of(sink.name), sink.dead_letter_bytes);
    for (const auto& [why, events] : change.letters) {
      const Outcome<void> added = letters.add({events.begin(), events.end()}, why);
      if (added) {
        change.dead += events.size();
        continue;
      }
      lost += events.size();
      const std::lock_guard lock(mutex);
      complain(added.error());
    }
  }

  void put_in_force(const std::vector<Order>& batch, const std::map<std::string, Change>& changes, std::uint64_t lost) {
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
          sinks.at(report->sink).wanted = report->wanted;
        }
      }
    }
    for (const RequestKey& key : let_go) setup.let_go(key);
  }

  /// Batches for the lanes that wait for one. False: some could not be read.
  bool feed(std::unique_lock<std::mutex>& lock) {
    bool all = true;
    for (auto& [name, sink] : sinks) {
      if (sink.wanted == 0 || sink.waiting.events == 0 || !sink.lane) continue;
      const std::size_t wanted = sink.wanted;
      lock.unlock();
      Outcome<std::vector<Row>> rows = queue.first(name, wanted, kBatchBytes);
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

  /// With the lock.
  void complain(const Error& error) {
    last_error = describe(error);
    const Instant now = Clock::now();
    if (told_at != Instant{} && now - told_at < kTellEvery) return;
    told_at = now;
    spdlog::warn("event=sink_queue_failed reason=\"{}\"", escaped(last_error));
  }
};

Outbox::Outbox(std::shared_ptr<State> state) : state_(std::move(state)) {}

Outcome<std::unique_ptr<Outbox>> Outbox::open(Setup setup) {
  auto state = std::make_shared<State>(std::move(setup));
  BOOST_OUTCOME_TRY(state->open());
  for (SinkSetup& each : state->setup.sinks) {
    Lane::Place place{state->setup.node, state->folder_of(each.config.name).string()};
    State::Sink& sink = state->sinks.at(each.config.name);
    const std::lock_guard lock(state->mutex);
    sink.lane =
        Lane::start(std::move(each), std::move(place), [state](Report report) { state->add(std::move(report)); });
  }
  state->setup.sinks.clear();
  state->thread = std::thread([at = state.get()] { at->work(); });
  return std::unique_ptr<Outbox>(new Outbox(std::move(state)));
}

Outbox::~Outbox() {
  std::vector<std::shared_ptr<Lane>> lanes;
  {
    const std::lock_guard lock(state_->mutex);
    for (auto& [name, sink] : state_->sinks) lanes.push_back(std::exchange(sink.lane, nullptr));
  }
  for (const auto& lane : lanes) lane->stop();
  const Instant until = after(Clock::now(), kStopLimit);
  for (const auto& lane : lanes) {
    if (!lane->join(until)) {
      spdlog::warn("event=sink_left_behind hint=\"a delivery did not end in time; its events are delivered again\"");
    }
  }
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->wake.notify_one();
  state_->thread.join();
}

bool Outbox::wants(std::string_view task) const {
  const std::lock_guard lock(state_->mutex);
  return std::any_of(state_->sinks.begin(), state_->sinks.end(),
                     [&](const auto& entry) { return admits(entry.second.config, task); });
}

void Outbox::put(Event event) {
  Put put;
  put.bytes = kEventBytes;
  for (const auto& [index, bytes] : event.values) put.bytes += bytes.size();
  {
    const std::lock_guard lock(state_->mutex);
    for (const auto& [name, sink] : state_->sinks) {
      if (admits(sink.config, event.task)) put.sinks.push_back(name);
    }
    if (put.sinks.empty()) return;
    if (state_->handed_over >= kHandOverEvents || state_->handed_over_bytes + put.bytes > kHandOverBytes) {
      ++state_->dropped;
      state_->complain(Error{Errc::overloaded, "an event was dropped: the disk is slower than the requests"});
      return;
    }
    ++state_->handed_over;
    state_->handed_over_bytes += put.bytes;
    ++state_->on_their_way[event.key];
    put.event = std::move(event);
    state_->orders.emplace_back(std::move(put));
  }
  state_->wake.notify_one();
}

void Outbox::forget(const RequestKey& key) {
  if (!state_->setup.let_go) return;  // nothing is kept for it
  bool on_its_way = false;
  {
    const std::lock_guard lock(state_->mutex);
    on_its_way = state_->on_their_way.contains(key);
    if (on_its_way || state_->orders.size() < kMostOrders) state_->orders.emplace_back(Forget{key, on_its_way});
  }
  state_->wake.notify_one();
  if (!on_its_way) state_->setup.let_go(key);
}

const std::vector<RequestKey>& Outbox::known() const {
  return state_->known;
}

void Outbox::use(std::vector<SinkSetup> sinks) {
  const std::lock_guard lock(state_->mutex);
  for (SinkSetup& each : sinks) {
    const auto found = state_->sinks.find(each.config.name);
    if (found == state_->sinks.end() || !found->second.lane) continue;
    found->second.config = each.config;
    found->second.lane->use(std::move(each));
  }
}

Facts Outbox::facts() const {
  Facts facts;
  const std::lock_guard lock(state_->mutex);
  for (const auto& [name, sink] : state_->sinks) {
    SinkFacts each;
    each.name = name;
    each.plugin = sink.config.plugin;
    each.queued = sink.waiting.events;
    each.queued_bytes = sink.waiting.bytes;
    each.dead_letters = sink.dead;
    if (sink.lane) each.lane = sink.lane->counters();
    facts.sinks.push_back(std::move(each));
  }
  facts.handed_over = state_->handed_over;
  facts.dropped = state_->dropped;
  facts.last_error = state_->last_error;
  facts.set_aside = state_->set_aside_as;
  return facts;
}

}  // namespace gearbox::sinks
