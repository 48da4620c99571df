// Which GPU each worker's process is put on, before it is started. gpu/placement.hpp decides; here is who sits where.
#include <algorithm>

#include "worker_pool/pool.hpp"

namespace gearbox::worker_pool {

namespace {

gpu::Devices devices_of(const Worker& worker) {
  return gpu::read_devices(worker.devices).value_or(gpu::Devices());  // the configuration was checked
}

bool sits_on(const Worker& worker, const gpu::Look& look, const gpu::Gpu& gpu) {
  return std::any_of(worker.seat.gpus.begin(), worker.seat.gpus.end(),
                     [&](const std::string& name) { return gpu::find(look, name) == &gpu; });
}

bool has_seat(const Worker& worker) {
  return !worker.seat.gpus.empty() && (!worker.retired || worker.has_process());
}

/// It may have been chosen for the process that ends; NVML does not see that yet.
void forget_use(gpu::Look& look, const Worker& worker, const gpu::Holder& holder) {
  for (gpu::Gpu& gpu : look.gpus) {
    if (!sits_on(worker, look, gpu)) continue;
    std::uint64_t used = holder.settled ? gpu::share_mb(holder) << 20 : 0;
    for (const gpu::Process& process : gpu.processes) {
      if (process.pid == worker.pid && process.used_bytes) used = *process.used_bytes;
    }
    gpu.used_bytes -= std::min(gpu.used_bytes, used);
  }
}

}  // namespace

/// A worker that is between two lives keeps its seat: another that waits must not take a serving model's place.
std::vector<gpu::Holder> Pool::holders(const std::function<bool(const Worker&)>& leave_out) const {
  std::vector<gpu::Holder> all;
  for (const auto& worker : workers_) {
    if (has_seat(*worker) && !leave_out(*worker)) all.push_back(holder_of(*worker));
  }
  return all;
}

gpu::Holder Pool::holder_of(const Worker& worker) const {
  gpu::Holder holder;
  holder.gpus = worker.seat.gpus;
  holder.memory_mb = worker.record->memory_mb;
  holder.pid = worker.pid;
  holder.settled = worker.alive && worker.was_ready && worker.ready_since < gpus_.at;
  return holder;
}

/// Chooses where the next process of the slot goes. False: it has to wait, and is tried again at each tick and look.
bool Pool::seated(Worker& worker) {
  const auto others = holders([&](const Worker& other) { return &other == &worker; });
  gpu::Decision decision =
      gpu::decide(gpus_, others, devices_of(worker), worker.record->memory_mb, worker.record->name, Clock::now());
  if (decision.seat) {
    if (worker.life == Life::waiting) worker.reason.clear();
    worker.seat = std::move(*decision.seat);
    worker.hopeless = false;
    return true;
  }
  const bool news =
      worker.life != Life::waiting || worker.reason != decision.why || worker.hopeless != decision.hopeless;
  worker.life = Life::waiting;
  // Figures from before its process ended have that one's memory in them: its place is held until there are newer ones.
  if (gpus_.at > worker.ended) worker.seat = {};
  worker.awaiting = false;
  worker.awaited = 0;
  worker.start_at_once = false;
  worker.hopeless = decision.hopeless;
  worker.reason = std::move(decision.why);
  if (news) changed();
  return false;
}

void Pool::try_waiting(Worker& worker) {
  start(worker);
  if (worker.life != Life::waiting) changed();
}

void Pool::gpus_seen(gpu::Look look) {
  gpus_ = std::move(look);
  if (stopping_) return;
  for (const auto& worker : workers_) {
    if (worker->life == Life::waiting) try_waiting(*worker);
  }
}

/// Its process is gone, and its memory with it: whoever waits for that should not wait for a whole second more.
void Pool::look_at_gpus() const {
  if (setup_.look_at_gpus) setup_.look_at_gpus();
}

/// A retired worker serves until its successor is ready. On a GPU that has no place for both, that would be never: then
/// the old one ends first, one for each that waits.
bool Pool::waits_for_seat_of(const Worker& worker) const {
  if (!has_seat(worker)) return false;
  const auto is_old = [&](const Worker& other) {
    return other.retired && has_seat(other) && other.record->name == worker.record->name;
  };
  gpu::Look without = gpus_;
  std::size_t leaving = 0;
  for (const auto& other : workers_) {
    if (!is_old(*other)) continue;
    forget_use(without, *other, holder_of(*other));
    if (other->life == Life::draining || other->life == Life::gone) ++leaving;
  }
  const std::vector<gpu::Holder> others = holders(is_old);
  const auto would_fit = [&](const auto& other) {
    if (other->retired || other->life != Life::waiting || other->record->name != worker.record->name) return false;
    const auto decision =
        gpu::decide(without, others, devices_of(*other), other->record->memory_mb, other->record->name, Clock::now());
    return decision.seat.has_value();
  };
  return static_cast<std::size_t>(std::count_if(workers_.begin(), workers_.end(), would_fit)) > leaving;
}

std::string Pool::misplaced(const shm::WorkerHello& hello, const Worker& worker) const {
  return gpu::misplaced(gpus_, devices_of(worker), hello.visible);
}

/// Of a worker that an earlier node has started: it stays where that one put it.
void Pool::keep_seat(Worker& worker, const shm::WorkerHello& hello) const {
  worker.seat = {};
  worker.seat.gpus = gpu::gpus_in(devices_of(worker), hello.visible);
}

std::vector<GpuView> Pool::gpus() const {
  const auto all = holders([](const Worker&) { return false; });
  std::vector<GpuView> views;
  for (const gpu::Gpu& gpu : gpus_.gpus) {
    GpuView view;
    view.gpu = gpu;
    const gpu::Left left = gpu::left_on(gpu, gpus_, all);
    if (gpu.error.empty() && !left.whole) view.left_mb = left.mb;
    for (const auto& worker : workers_) {
      if (has_seat(*worker) && sits_on(*worker, gpus_, gpu)) view.workers.push_back(worker->id);
    }
    std::sort(view.workers.begin(), view.workers.end());
    views.push_back(std::move(view));
  }
  return views;
}

}  // namespace gearbox::worker_pool
