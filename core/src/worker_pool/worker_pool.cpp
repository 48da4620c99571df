#include "worker_pool/worker_pool.hpp"

#include <algorithm>

#include "worker_pool/pool.hpp"

namespace gearbox::worker_pool {

void Launcher::list(milliseconds /*within*/, std::function<void(Outcome<std::vector<Running>>)> listed) {
  listed(std::vector<Running>());
}

void Launcher::how_ended(int /*pid*/, std::function<void(End)> told) {
  told({});
}

void Launcher::limit(int /*pid*/, std::uint64_t /*memory_limit*/) {}  // the pool looks at it itself, too

struct WorkerPool::State {
  std::shared_ptr<Pool> pool;
};

WorkerPool::WorkerPool(std::unique_ptr<State> state) : state_(std::move(state)) {}
WorkerPool::~WorkerPool() {
  state_->pool->close();
}

Outcome<std::unique_ptr<WorkerPool>> WorkerPool::create(Setup setup) {
  auto state = std::make_unique<State>();
  BOOST_OUTCOME_TRY(state->pool, Pool::create(std::move(setup)));
  return std::unique_ptr<WorkerPool>(new WorkerPool(std::move(state)));
}

void WorkerPool::start_workers() {
  state_->pool->start_workers();
}

Outcome<SlabPtr> WorkerPool::allocate(std::uint64_t bytes) {
  SlabPtr slab = state_->pool->input_->take(bytes);
  if (slab) return slab;
  const Memory now = memory();
  return Error{Errc::no_space, "the input arena: " + std::to_string(bytes) + " bytes wanted, " +
                                   std::to_string(now.input_bytes - now.input_used) + " of " +
                                   std::to_string(now.input_bytes) + " free"};
}

std::vector<WorkerView> WorkerPool::workers() const {
  std::vector<WorkerView> views;
  views.reserve(state_->pool->workers_.size());
  for (const auto& worker : state_->pool->workers_) views.push_back(state_->pool->view(*worker));
  std::sort(views.begin(), views.end(), [](const WorkerView& a, const WorkerView& b) { return a.id < b.id; });
  return views;
}

namespace {
template <class Fits>
std::vector<WorkerView> ready_ones(const Pool& pool, const Fits& fits) {
  std::vector<WorkerView> views;
  for (const auto& worker : pool.workers_) {
    if (worker->life == Life::ready && fits(*worker->record)) views.push_back(pool.view(*worker));
  }
  std::sort(views.begin(), views.end(), [](const WorkerView& a, const WorkerView& b) { return a.id < b.id; });
  return views;
}
}  // namespace

std::vector<WorkerView> WorkerPool::ready(std::string_view model, std::string_view version) const {
  return ready_ones(*state_->pool,
                    [&](const model::Record& other) { return other.name == model && other.version == version; });
}

std::vector<WorkerView> WorkerPool::ready(const model::Record& record) const {
  return ready_ones(*state_->pool, [&](const model::Record& other) { return is_same_model(other, record); });
}

std::uint64_t WorkerPool::generation() const {
  std::uint64_t mixed = 14695981039346656037ULL;  // FNV-1a over what resolve() looks at
  const auto mix = [&](std::uint64_t value) { mixed = (mixed ^ value) * 1099511628211ULL; };
  for (const auto& worker : state_->pool->workers_) {
    mix(static_cast<std::uint32_t>(worker->id));
    mix(static_cast<std::uint64_t>(worker->life));
    mix(worker->retired ? 1 : 0);
    mix(worker->hopeless ? 1 : 0);
  }
  return mixed;
}

Service WorkerPool::service(const model::Record& record) const {
  return state_->pool->service(record);
}

Resolved WorkerPool::resolve(const config::Config& config, std::string_view model, std::string_view version) const {
  return state_->pool->resolve(config, model, version);
}

void WorkerPool::apply(config::Snapshot config) {
  state_->pool->apply(std::move(config));
}

void WorkerPool::gpus_seen(gpu::Look look) {
  state_->pool->gpus_seen(std::move(look));
}
std::vector<GpuView> WorkerPool::gpus() const {
  return state_->pool->gpus();
}
const gpu::Look& WorkerPool::gpu_look() const {
  return state_->pool->gpus_;
}

Outcome<WorkerPool::CallId> WorkerPool::call(WorkerId worker, CallSpec spec, Answered answered) {
  return state_->pool->call(worker, std::move(spec), std::move(answered));
}
void WorkerPool::cancel(CallId call) {
  state_->pool->cancel(call);
}
void WorkerPool::on_change(std::function<void()> changed) {
  state_->pool->changed_ = std::move(changed);
}
std::size_t WorkerPool::poll() {
  return state_->pool->poll(Clock::now());
}
void WorkerPool::run() {
  state_->pool->run();
}
void WorkerPool::stop(std::function<void()> stopped) {
  state_->pool->stop(std::move(stopped));
}

WorkerPool::Ended WorkerPool::ended() const {
  return state_->pool->ended_;
}

WorkerPool::CameBack WorkerPool::came_back() const {
  return state_->pool->came_back_;
}

WorkerPool::Memory WorkerPool::memory() const {
  return state_->pool->memory();
}

WorkerPool::Memory Pool::memory() const {
  WorkerPool::Memory memory;
  memory.input_bytes = input_->size();
  memory.input_used = input_->used();
  const auto add = [&](const ArenaSlabs* arena) {
    if (arena == nullptr) return;
    memory.output_bytes += arena->size();
    memory.output_used += arena->used();
  };
  for (const auto& worker : workers_) add(worker->output.get());
  for (const Orphan& orphan : orphans_) add(orphan.arena.lock().get());
  return memory;
}

WorkerView Pool::view(const Worker& worker) const {
  WorkerView view;
  view.id = worker.id;
  view.model = worker.record->name;
  view.version = worker.record->version;
  view.digest = worker.record->digest;
  view.state = name_of(worker.life);
  view.retired = worker.retired;
  view.reason = worker.reason;
  view.pid = worker.pid;
  view.place = worker.place;
  view.running = static_cast<std::uint32_t>(worker.running.size());
  view.capacity = worker.capacity();
  view.max_batch = worker.record->max_batch;
  view.calls = worker.calls;
  view.failures = worker.failures;
  if (worker.batches > 0) view.mean_batch = static_cast<double>(worker.answers) / static_cast<double>(worker.batches);
  view.step_p95 = worker.steps.p95(Clock::now());
  view.restarts = worker.starts > 0 ? worker.starts - 1 : 0;
  view.reattached = worker.reattached;
  view.memory_bytes = worker.memory;
  view.memory_limit_bytes = worker.memory_limit;
  view.pool = worker.pool;
  view.devices = worker.devices;
  view.gpus = worker.seat.gpus;
  view.gpu_memory_mb = worker.record->memory_mb;
  return view;
}

}  // namespace gearbox::worker_pool
