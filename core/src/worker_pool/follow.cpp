// How the pool follows the configuration: which slots there are. A slot that is wanted no more is retired: it serves on
// while it is needed, then it drains, ends, and is removed. Nothing here happens while workers_ is being walked:
// apply() comes from outside, settle() is posted.
#include <algorithm>

#include <boost/asio/post.hpp>

#include "config/pools.hpp"
#include "config/versions.hpp"
#include "worker_pool/pool.hpp"

namespace gearbox::worker_pool {

/// One [[worker]] entry and one model it names.
struct Pool::Wanted {
  Settings settings;
  std::uint32_t count = 0;
  std::uint32_t missing = 0;
};

bool is_same_model(const model::Record& a, const model::Record& b) {
  return a.version == b.version && a.digest == b.digest && a.name == b.name;
}

bool Settings::operator==(const Settings& other) const {
  return is_same_model(*record, *other.record) && record->folder == other.record->folder &&
         record->threads == other.record->threads && env == other.env && python == other.python &&
         devices == other.devices;
}

namespace {
PoolPlace place_in(const config::GearsConfig& gears, const std::string& name) {
  PoolPlace place;
  const config::PoolConfig* const pool = config::find_pool(gears, name);
  if (pool == nullptr) return place;
  place.name = name;
  place.classes = config::classes_requests(*pool);
  if (place.classes) place.lends_percent = pool->lends_percent;
  return place;
}
}  // namespace

void Pool::start_workers() {
  open_window();
  started_ = true;
  follow();
  settle_window();
  tick_later();
}

void Pool::apply(config::Snapshot config) {
  if (stopping_) return;
  const std::uint32_t spin_us = config->node.spin_us;
  const bool other_spin = spin_us != setup_.config->node.spin_us;
  setup_.config = std::move(config);
  for (const auto& worker : workers_) {
    if (!other_spin) break;
    worker->spin = shm::SpinBudget(microseconds(spin_us));
    if (!worker->attached()) continue;
    // Its socket is full of arenas it has not looked at: it learns of the new time when it is started again.
    [[maybe_unused]] const auto told = worker->attachment->set_spin(spin_us);
  }
  if (started_) follow();
}

std::vector<Pool::Wanted> Pool::wanted_of(const config::Config& config) const {
  std::vector<Wanted> all;
  for (const config::WorkerConfig& entry : config.workers) {
    for (const model::Record& record : config.models) {
      if (record.name != entry.model || (!entry.version.empty() && record.version != entry.version)) continue;
      Wanted wanted;
      wanted.count = entry.count;
      wanted.settings.record = std::make_shared<const model::Record>(record);
      wanted.settings.env = entry.env;
      wanted.settings.devices = entry.devices;
      wanted.settings.memory_limit = entry.memory_limit_bytes;
      wanted.settings.pool = place_in(config.gears, entry.pool);
      const auto env = config.envs.find(entry.env);
      if (env != config.envs.end() && !env->second.python.empty()) {
        // An absolute path stays as it is.
        wanted.settings.python = (setup_.state.envs() / env->second.python).string();
      }
      all.push_back(std::move(wanted));
    }
  }
  return all;
}

/// From the slots that are there to those that setup_.config wants.
void Pool::follow() {
  std::vector<Wanted> wanted = wanted_of(*setup_.config);
  std::vector<Worker*> spare;
  for (const auto& worker : workers_) {
    const bool ends =
        worker->retired && (worker->life == Life::draining || worker->oversized || !worker->has_process());
    if (!ends) spare.push_back(worker.get());
  }
  claim(wanted, spare);
  retire(wanted, spare);
  for (const Wanted& entry : wanted) {
    for (std::uint32_t i = 0; i < entry.missing; ++i) add(entry.settings);
  }
  // Later: whoever applies has work under way that belongs to the earlier snapshot.
  if (unsettled_ > 0) settle_later();
  changed();
}

/// What is there already and wanted still is taken out of `spare`: the ready ones first, of these the busy ones. Where
/// it can, a slot stays in its pool; else it changes to the other one as it is.
void Pool::claim(std::vector<Wanted>& wanted, std::vector<Worker*>& spare) {
  const auto worth = [](const Worker* worker) {
    return (worker->life == Life::ready ? 1000U
            : worker->was_ready         ? 500U
            : worker->has_process()     ? 100U
                                        : 0U) +
           static_cast<std::uint32_t>(std::min<std::size_t>(worker->running.size(), 99));
  };
  std::stable_sort(spare.begin(), spare.end(), [&](const Worker* a, const Worker* b) { return worth(a) > worth(b); });
  const auto take = [&](Wanted& entry, bool of_its_pool) {
    std::erase_if(spare, [&](Worker* worker) {
      if (entry.missing == 0 || !(*worker == entry.settings)) return false;
      if (of_its_pool && worker->pool.name != entry.settings.pool.name) return false;
      --entry.missing;
      worker->pool = entry.settings.pool;
      if (worker->retired) --unsettled_;
      worker->retired = worker->surplus = false;
      if (worker->memory_limit != entry.settings.memory_limit) {
        worker->memory_limit = entry.settings.memory_limit;
        if (worker->alive) setup_.launcher->limit(worker->pid, worker->memory_limit);
      }
      std::erase_if(worker->wanted_by, [](const auto& snapshot) { return snapshot.expired(); });
      worker->wanted_by.push_back(setup_.config);
      return true;
    });
  };
  for (Wanted& entry : wanted) entry.missing = entry.count;
  for (Wanted& entry : wanted) take(entry, true);
  for (Wanted& entry : wanted) take(entry, false);
}

void Pool::retire(const std::vector<Wanted>& wanted, const std::vector<Worker*>& spare) {
  for (Worker* worker : spare) {
    if (!worker->retired) ++unsettled_;
    worker->retired = true;
    worker->restart.cancel();
    worker->surplus = std::any_of(wanted.begin(), wanted.end(),
                                  [&](const Wanted& entry) { return entry.count > 0 && *worker == entry.settings; });
  }
}

Worker& Pool::add_slot(const Settings& settings) {
  auto worker = std::make_unique<Worker>(io_, settings);
  worker->slot = next_slot_++;
  worker->place = 1;
  const auto taken = [&](const auto& other) { return other->place == worker->place; };
  while (std::any_of(workers_.begin(), workers_.end(), taken)) ++worker->place;
  worker->spin = shm::SpinBudget(microseconds(setup_.config->node.spin_us));
  worker->wanted_by.push_back(setup_.config);
  return *workers_.emplace_back(std::move(worker));
}

void Pool::add(const Settings& settings) {
  begin(add_slot(settings));
}

/// For each that has grown too large another one, as if it went on with the same slot: a model that grows too large
/// soon after each start is started less and less often.
void Pool::add_successors() {
  std::vector<Worker*> large;
  for (const auto& worker : workers_) {
    if (worker->oversized && !worker->retired && worker->has_process()) large.push_back(worker.get());
  }
  for (Worker* const worker : large) {
    worker->retired = true;
    ++unsettled_;
    Worker& next = add_slot(*worker);
    next.wanted_by = worker->wanted_by;
    next.starts = worker->starts;
    next.backoff = worker->backoff;
    next.was_ready = true;
    next.ready_since = worker->ready_since;
    next.reason = "it takes over from worker " + std::to_string(worker->place) + ": " + worker->reason;
    start_again_later(next);
  }
}

void Pool::settle_later() {
  if (std::exchange(settling_, true)) return;
  asio::post(io_, [self = weak_from_this()] {
    const auto pool = self.lock();
    if (pool) pool->settle();
  });
}

/// Moves each retired slot as far as it can go by now.
void Pool::settle() {
  settling_ = false;
  if (stopping_) return;
  add_successors();
  bool moved = false;
  for (const auto& worker : workers_) {
    if (!worker->retired) continue;
    if (worker->life != Life::draining && worker->has_process() && worker->life != Life::gone && may_drain(*worker)) {
      drain(*worker);
      moved = true;
    }
    if (worker->life == Life::draining) end(*worker);
  }
  const std::size_t before = workers_.size();
  remove_ended();
  give_arenas_back();
  if (moved || workers_.size() != before) changed();
}

bool Pool::may_drain(Worker& worker) const {
  if (worker.surplus) return true;
  std::erase_if(worker.wanted_by, [](const auto& snapshot) { return snapshot.expired(); });
  // A request that holds that snapshot may need it; a successor serves that as well.
  if (!worker.wanted_by.empty() && !worker.oversized) return false;
  const bool serves = worker.life == Life::ready || worker.life == Life::suspect;
  return !serves || is_replaced(worker) || waits_for_seat_of(worker);
}

/// Is nobody left to come who shall take its place, or are there enough that are ready? Those are the wanted slots of
/// the same version; of newer ones when there are none; of any.
bool Pool::is_replaced(const Worker& worker) const {
  enum Rank { any, newer, same };
  const auto rank_of = [&](const Worker& other) {
    const auto order = config::compare_versions(other.record->version, worker.record->version);
    return order == 0 ? same : order > 0 ? newer : any;
  };
  std::optional<Rank> best;
  std::size_t wanted = 0;
  std::size_t ready = 0;
  std::size_t serving = 0;  // of those that are retired like it, itself included
  for (const auto& other : workers_) {
    if (other->record->name != worker.record->name) continue;
    if (other->retired) {
      const bool serves = other->life == Life::ready || other->life == Life::suspect;
      if (serves && other->record->version == worker.record->version) ++serving;
      continue;
    }
    const Rank rank = rank_of(*other);
    if (best && rank < *best) continue;
    if (best != rank) wanted = ready = 0;
    best = rank;
    ++wanted;
    if (other->life == Life::ready) ++ready;
  }
  // One goes for each that is ready: the work of all must not fall on the first.
  return ready >= wanted || (ready > 0 && serving > wanted - ready);
}

void Pool::drain(Worker& worker) {
  worker.life = Life::draining;
  worker.early.reset();
}

/// When nobody waits for an answer of it any more.
void Pool::end(Worker& worker) {
  if (!worker.alive || worker.told_to_end || worker.owes_answers()) return;
  worker.told_to_end = true;
  worker.told_at = Clock::now();
  say_goodbye(worker,
              worker.outgrown || worker.oversized ? worker.reason : "the configuration does not want it any more");
  setup_.launcher->stop(worker.pid, setup_.timing.stop_grace);
}

void Pool::remove_ended() {
  for (const auto& worker : workers_) {
    if (worker->retired && !worker->has_process() && worker->output) {
      orphans_.push_back({worker->output->id(), worker->output});
    }
  }
  unsettled_ -= std::erase_if(workers_, [](const auto& worker) { return worker->retired && !worker->has_process(); });
}

/// Arenas whose last slab has been given back: no call can name them any more, so no worker need see them.
void Pool::give_arenas_back() {
  std::erase_if(orphans_, [&](const Orphan& orphan) {
    if (!orphan.arena.expired()) return false;
    for (const auto& worker : workers_) {
      if (worker->attached()) worker->attachment->forget(orphan.id);
    }
    return true;
  });
}

}  // namespace gearbox::worker_pool
