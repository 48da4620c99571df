#include "store/store.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/json.hpp>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "gearbox/base/text.hpp"
#include "sqlite/folder.hpp"
#include "sqlite/sqlite.hpp"
#include "store/files.hpp"

namespace gearbox::store {

namespace {

constexpr milliseconds kTellEvery{10'000};  // between two log lines about one trouble
constexpr std::size_t kQueueItems = 256;
constexpr std::uint64_t kQueueBytes = 64ULL << 20;  // they lie in the node's memory until they are written
constexpr unsigned kFolders = 256;                  // "00" to "ff": the first two digits of a request
constexpr auto kTidyEvery = std::chrono::seconds(30);

constexpr const char* kSchema = R"sql(
  PRAGMA journal_mode=WAL;
  PRAGMA synchronous=NORMAL;
  CREATE TABLE IF NOT EXISTS results(
    id INTEGER PRIMARY KEY,
    request TEXT NOT NULL, device TEXT NOT NULL, user TEXT NOT NULL, tenant INTEGER NOT NULL, task TEXT NOT NULL,
    node TEXT NOT NULL, ok INTEGER NOT NULL, error TEXT NOT NULL,
    finished_unix_ms INTEGER NOT NULL,  -- the wall clock, for people only
    kept_at_ms INTEGER NOT NULL,        -- the store's own clock: running time, so that no jump of the wall clock evicts
    inputs TEXT NOT NULL, outputs TEXT NOT NULL, timing TEXT NOT NULL,
    input_bytes INTEGER NOT NULL, output_bytes INTEGER NOT NULL,
    input_file TEXT NOT NULL, output_file TEXT NOT NULL,
    UNIQUE(device, request));
  CREATE INDEX IF NOT EXISTS results_by_task ON results(task, id);
  CREATE INDEX IF NOT EXISTS results_by_request ON results(request);
  CREATE TABLE IF NOT EXISTS clock(id INTEGER PRIMARY KEY CHECK(id = 0), running_ms INTEGER NOT NULL);
  INSERT OR IGNORE INTO clock VALUES(0, 0);
)sql";

std::string to_text(const std::vector<wire::TensorSpec>& specs) {
  boost::json::array out;
  for (const wire::TensorSpec& spec : specs) {
    boost::json::array shape(spec.shape.begin(), spec.shape.end());
    out.push_back(boost::json::object{
        {"name", spec.name}, {"dtype", wire::name_of(spec.dtype)}, {"shape", std::move(shape)}, {"bytes", spec.bytes}});
  }
  return boost::json::serialize(out);
}

std::string to_text(const wire::Timing& timing) {
  boost::json::array steps;
  for (const wire::StepTiming& step : timing.steps) {
    steps.push_back(boost::json::object{{"step", step.step},
                                        {"model", step.model},
                                        {"version", step.version},
                                        {"calls", step.calls},
                                        {"queue_us", step.queue_us},
                                        {"run_us", step.run_us},
                                        {"retries", step.retries}});
  }
  return boost::json::serialize(boost::json::object{{"upload_us", timing.upload_us},
                                                    {"queue_us", timing.queue_us},
                                                    {"total_us", timing.total_us},
                                                    {"steps", std::move(steps)}});
}

std::uint64_t total(const std::vector<ByteView>& views) {
  std::uint64_t bytes = 0;
  for (const ByteView view : views) bytes += view.size();
  return bytes;
}

struct Queued {
  Item item;
  std::function<void()> written;
  std::uint64_t bytes = 0;
};

/// What a write did to the files' sum.
struct Change {
  std::uint64_t added = 0, freed = 0;
};

bool has_damaged_index(const std::filesystem::path& folder) {
  std::error_code failure;
  std::filesystem::directory_iterator entries(folder, failure);
  for (; !failure && entries != std::filesystem::directory_iterator(); entries.increment(failure)) {
    if (entries->path().filename().string().starts_with("index.db.damaged-")) return true;
  }
  return static_cast<bool>(failure);  // unknown: rather keep too much
}

}  // namespace

struct ResultStore::State {
  std::filesystem::path folder;
  sqlite::Database database;
  Instant opened = Clock::now();
  std::int64_t running_before_ms = 0;
  bool keeps_a_damaged_index = false;

  mutable std::mutex mutex;  // guards what follows
  std::condition_variable wake;
  std::deque<Queued> queue;
  std::uint64_t queued_bytes = 0;
  bool stopping = false;
  bool tidy_soon = false;  // the limits have changed
  config::StoreConfig config;
  Counters counters;

  std::thread thread;

  State(std::filesystem::path at, const config::StoreConfig& wanted, sqlite::Database opened_database)
      : folder(std::move(at)), database(std::move(opened_database)), config(wanted) {}

  config::StoreConfig limits() const {
    const std::lock_guard lock(mutex);
    return config;
  }

  std::int64_t running_ms() const {
    return running_before_ms + std::chrono::duration_cast<milliseconds>(Clock::now() - opened).count();
  }

  void work() {
    Instant next_tidy = Clock::now();
    unsigned next_folder = 0;  // to sweep: all of them once, one at a time, so that nothing queued waits for long
    std::uint64_t swept = 0;
    std::unique_lock lock(mutex);
    for (;;) {
      const Instant until = next_folder < kFolders ? Clock::now() : next_tidy;
      wake.wait_until(lock, until, [&] { return stopping || tidy_soon || !queue.empty(); });
      while (!queue.empty()) {
        Queued next = std::move(queue.front());
        queue.pop_front();
        lock.unlock();
        const Outcome<Change> written = write(next.item);
        lock.lock();
        queued_bytes -= next.bytes;
        note(written);
        lock.unlock();
        next.written();
        lock.lock();
      }
      if (stopping) return;
      if (next_folder < kFolders) {
        lock.unlock();
        sweep(next_folder, swept);
        if (++next_folder == kFolders && swept > 0) {
          spdlog::info("store: {} files that no record names were removed", swept);
        }
        lock.lock();
      }
      if (std::exchange(tidy_soon, false) || Clock::now() >= next_tidy) {
        next_tidy = Clock::now() + kTidyEvery;
        lock.unlock();
        const Outcome<std::uint64_t> removed = tidy();
        lock.lock();
        if (removed) counters.removed += removed.value();
        if (!removed) complain(removed.error());
      }
    }
  }

  void note(const Outcome<Change>& written) {
    if (written) {
      ++counters.kept;
      counters.bytes += written.value().added;
      counters.bytes -= std::min(counters.bytes, written.value().freed);
      counters.last_error.clear();
      // Under load a queue may be full and not full many times a second.
      if (!told.empty() && Clock::now() - told_at >= kTellEvery) {
        spdlog::info("store: writing works again");
        told.clear();
      }
      return;
    }
    ++counters.dropped;
    complain(written.error());
  }

  void complain(const Error& error) {
    const std::string text = describe(error);
    counters.last_error = text;
    const Instant now = Clock::now();
    if (text == told || (told_at != Instant{} && now - told_at < kTellEvery)) return;  // once, not per item
    spdlog::warn("store: a result was not kept: {}", escaped(text));
    told = text;
    told_at = now;
  }

  std::string told;  // the error that was logged, until it was said that it is over
  Instant told_at{};

  /// Keeps `item`: whole, or nothing of it. A request that ran again (its first answer was forgotten) replaces the row
  /// of its earlier run and that one's files.
  Outcome<Change> write(const Item& item) {
    const std::string request = gearbox::to_text(item.key.id);
    const std::string device = gearbox::to_text(item.key.device);
    BOOST_OUTCOME_TRY(auto select, database.prepare("SELECT input_file, output_file, input_bytes + output_bytes "
                                                    "FROM results WHERE device = ? AND request = ?"));
    BOOST_OUTCOME_TRY(const bool again, select.first(device, request));
    const std::string old_input = again ? select.text(0) : std::string();
    const std::string old_output = again ? select.text(1) : std::string();
    Change change{.added = total(item.output_bytes),
                  .freed = again ? static_cast<std::uint64_t>(select.integer(2)) : 0};
    select.rewind();

    // Other names than the earlier run's: until the row is replaced, its files stay as they are.
    std::string base = request.substr(0, 2) + "/" + device.substr(0, 16) + "-" + request;
    if (old_input == base + ".in" || old_output == base + ".out") base += "-again";
    const bool with_input = limits().keep_inputs && total(item.input_bytes) > 0;
    const std::string input_file = with_input ? base + ".in" : std::string();
    const std::string output_file = total(item.output_bytes) > 0 ? base + ".out" : std::string();
    const std::uint64_t input_bytes = with_input ? total(item.input_bytes) : 0;
    change.added += input_bytes;

    Outcome<void> kept = done();
    if (with_input) kept = write_whole(folder / input_file, item.input_bytes);
    if (kept && !output_file.empty()) kept = write_whole(folder / output_file, item.output_bytes);
    if (kept) kept = insert(item, request, device, input_file, input_bytes, output_file);
    if (!kept) {
      remove_files(input_file, output_file);
      return std::move(kept).error();
    }
    remove_files(old_input, old_output);
    return change;
  }

  Outcome<void> insert(const Item& item, const std::string& request, const std::string& device,
                       const std::string& input_file, std::uint64_t input_bytes, const std::string& output_file) {
    // Replaced, not updated: the row gets a new id, by which lists and tidy() know what is newest.
    BOOST_OUTCOME_TRY(auto statement,
                      database.prepare("INSERT OR REPLACE INTO results(request, device, user, tenant, task, node, ok, "
                                       "error, finished_unix_ms, kept_at_ms, inputs, outputs, timing, input_bytes, "
                                       "output_bytes, input_file, output_file) "
                                       "VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"));
    const auto wall =
        std::chrono::duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
    BOOST_OUTCOME_TRY(statement.first(request, device, item.user, std::int64_t{item.tenant}, item.task, item.node,
                                      std::int64_t{item.ok}, item.error, std::int64_t{wall}, running_ms(),
                                      to_text(item.inputs), to_text(item.outputs), to_text(item.timing),
                                      static_cast<std::int64_t>(input_bytes),
                                      static_cast<std::int64_t>(total(item.output_bytes)), input_file, output_file));
    return done();
  }

  /// Empty names are skipped. What cannot be removed now, the next start's sweep finds.
  void remove_files(const std::string& input_file, const std::string& output_file) {
    for (const std::string* name : {&input_file, &output_file}) {
      if (name->empty()) continue;
      if (const Outcome<void> removed = remove_file(folder / *name); !removed) {
        spdlog::debug("store: {}", escaped(describe(removed.error())));
      }
    }
  }

  /// Removes half-written files, and files that no row names: what a power cut leaves between file and row.
  void sweep(unsigned number, std::uint64_t& removed) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    const std::string name{kDigits[number / 16], kDigits[number % 16]};
    std::error_code failure;
    std::filesystem::directory_iterator entries(folder / name, failure);
    for (; !failure && entries != std::filesystem::directory_iterator(); entries.increment(failure)) {
      const Outcome<bool> wanted = is_wanted(name, entries->path().filename().string());
      Outcome<void> gone = wanted ? done() : Outcome<void>(wanted.error());
      if (wanted && !wanted.value()) {
        gone = remove_file(entries->path());
        if (gone) ++removed;
      }
      if (!gone) return spdlog::warn("store: sweeping {} ended: {}", name, escaped(describe(gone.error())));
    }
    if (failure && failure != std::errc::no_such_file_or_directory && failure != std::errc::not_a_directory) {
      spdlog::warn("store: sweeping {} ended: {}", name, failure.message());
    }
  }

  /// False for what this store has made and no longer knows; whatever else lies there is not its to remove.
  Outcome<bool> is_wanted(const std::string& in_folder, const std::string& name) {
    if (name.ends_with(".in.part") || name.ends_with(".out.part")) return false;
    if (!name.ends_with(".in") && !name.ends_with(".out")) return true;
    const std::size_t dash = name.find('-');
    // A damaged index that was set aside names files of its own; they stay for as long as somebody keeps it.
    if (keeps_a_damaged_index || dash == std::string::npos) return true;
    BOOST_OUTCOME_TRY(auto select,
                      database.prepare("SELECT 1 FROM results WHERE request = ?1 AND (input_file = ?2 OR output_file = "
                                       "?2)"));
    BOOST_OUTCOME_TRY(const bool named, select.first(name.substr(dash + 1, 32), in_folder + "/" + name));
    return named;
  }

  /// Removes the oldest while they are too old or all together too large; returns how many. Keeps the clock.
  Outcome<std::uint64_t> tidy() {
    BOOST_OUTCOME_TRY(auto clock, database.prepare("UPDATE clock SET running_ms = ?"));
    BOOST_OUTCOME_TRY(clock.first(running_ms()));
    BOOST_OUTCOME_TRY(auto sum, database.prepare("SELECT coalesce(sum(input_bytes + output_bytes), 0) FROM results"));
    BOOST_OUTCOME_TRY(sum.first());
    auto bytes = static_cast<std::uint64_t>(sum.integer(0));
    const config::StoreConfig wanted = limits();
    const std::int64_t oldest = running_ms() - std::int64_t{wanted.keep_hours} * 3'600'000;
    BOOST_OUTCOME_TRY(auto next, database.prepare("SELECT id, input_file, output_file, kept_at_ms, input_bytes + "
                                                  "output_bytes FROM results ORDER BY id LIMIT 1"));
    BOOST_OUTCOME_TRY(auto erase, database.prepare("DELETE FROM results WHERE id = ?"));
    std::uint64_t removed = 0;
    for (;;) {
      BOOST_OUTCOME_TRY(const bool row, next.first());
      if (!row || (next.integer(3) >= oldest && bytes <= wanted.max_bytes)) break;
      // Files first: a row without files is found again by the next tidy, files without a row never.
      for (int column = 1; column <= 2; ++column) {
        if (next.text(column).empty()) continue;
        BOOST_OUTCOME_TRY(remove_file(folder / next.text(column)));
      }
      const std::int64_t id = next.integer(0);
      bytes -= std::min(bytes, static_cast<std::uint64_t>(next.integer(4)));
      next.rewind();
      BOOST_OUTCOME_TRY(erase.first(id));
      ++removed;
    }
    const std::lock_guard lock(mutex);
    counters.bytes = bytes;
    return removed;
  }
};

ResultStore::ResultStore(std::unique_ptr<State> state) : state_(std::move(state)) {
  state_->thread = std::thread([state = state_.get()] { state->work(); });
}

ResultStore::~ResultStore() {
  if (!state_) return;
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->wake.notify_one();
  state_->thread.join();
}

namespace {
Outcome<sqlite::Database> open_index(const std::filesystem::path& file) {
  BOOST_OUTCOME_TRY(auto database, sqlite::Database::open(file, true));
  BOOST_OUTCOME_TRY(database.run(kSchema));
  BOOST_OUTCOME_TRY(auto check, database.prepare("PRAGMA quick_check(1)"));
  BOOST_OUTCOME_TRY(check.first());
  if (check.text(0) != "ok") return Error{Errc::corrupt_data, check.text(0)};
  return database;
}
}  // namespace

Outcome<std::unique_ptr<ResultStore>> ResultStore::open(const std::filesystem::path& folder,
                                                        const config::StoreConfig& config) {
  BOOST_OUTCOME_TRY(sqlite::make_private_folder(folder));
  const std::filesystem::path file = folder / "index.db";
  Outcome<sqlite::Database> database = open_index(file);
  if (!database && database.error().code == Errc::corrupt_data) {
    BOOST_OUTCOME_TRY(const auto aside, sqlite::set_aside(file));
    spdlog::warn("store: the index was damaged ({}); set aside as {}, a new one begins",
                 escaped(describe(database.error())), aside.string());
    database = open_index(file);
  }
  if (!database) return Error{database.error().code, file.string() + ": " + database.error().detail};
  auto state = std::make_unique<State>(folder, config, std::move(database).value());
  BOOST_OUTCOME_TRY(auto clock, state->database.prepare("SELECT running_ms FROM clock"));
  BOOST_OUTCOME_TRY(clock.first());
  state->running_before_ms = clock.integer(0);
  clock.rewind();
  state->keeps_a_damaged_index = has_damaged_index(folder);
  return std::unique_ptr<ResultStore>(new ResultStore(std::move(state)));
}

void ResultStore::put(Item item, std::function<void()> written) {
  const std::uint64_t bytes = total(item.input_bytes) + total(item.output_bytes);
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->queue.size() < kQueueItems && state_->queued_bytes + bytes <= kQueueBytes && !state_->stopping) {
      state_->queued_bytes += bytes;
      state_->queue.push_back({std::move(item), std::move(written), bytes});
      state_->wake.notify_one();
      return;
    }
    ++state_->counters.dropped;
    state_->complain(bytes > kQueueBytes
                         ? Error{Errc::too_large, std::to_string(bytes >> 20) + " MiB of one request; at most " +
                                                      std::to_string(kQueueBytes >> 20) + " MiB can wait for the disk"}
                         : Error{Errc::overloaded, "the disk is slower than the requests"});
  }
  written();
}

void ResultStore::reconfigure(const config::StoreConfig& config) {
  const std::lock_guard lock(state_->mutex);
  state_->config = config;
  state_->tidy_soon = true;
  state_->wake.notify_one();
}

Counters ResultStore::counters() const {
  const std::lock_guard lock(state_->mutex);
  return state_->counters;
}

}  // namespace gearbox::store
