#include "node/gpu_facts.hpp"

#include <algorithm>

#include "gearbox/base/clock.hpp"

namespace gearbox::node {

namespace json = boost::json;

namespace {
const char* name_of(gpu::Sight sight) {
  switch (sight) {
    case gpu::Sight::not_yet:
      return "not yet";
    case gpu::Sight::none:
      return "none";
    case gpu::Sight::seen:
      return "answers";
    case gpu::Sight::lost:
      return "lost";
  }
  return "unknown";
}
}  // namespace

json::object gpu_facts(const worker_pool::WorkerPool& pool) {
  const gpu::Look& look = pool.gpu_look();
  json::array list;
  for (const worker_pool::GpuView& view : pool.gpus()) {
    json::array workers;
    for (const WorkerId id : view.workers) workers.push_back(static_cast<std::uint32_t>(id));
    const gpu::Gpu& gpu = view.gpu;
    json::value busy;  // null: not told
    if (gpu.busy_percent) busy = *gpu.busy_percent;
    list.push_back(json::object{{"index", gpu.index},
                                {"uuid", gpu.uuid},
                                {"name", gpu.name},
                                {"memory_total_bytes", gpu.total_bytes},
                                {"memory_used_bytes", gpu.used_bytes},
                                {"left_mb", view.left_mb},
                                {"busy_percent", std::move(busy)},
                                {"workers", std::move(workers)},
                                {"error", gpu.error}});
  }
  return json::object{{"nvml", name_of(look.sight)},
                      {"reason", look.why},
                      {"age_ms", std::chrono::duration_cast<milliseconds>(Clock::now() - look.at).count()},
                      {"list", std::move(list)}};
}

json::array gpus_of(const worker_pool::WorkerPool& pool, const worker_pool::WorkerView& worker) {
  json::array all;
  for (const std::string& name : worker.gpus) {
    const gpu::Gpu* const gpu = gpu::find(pool.gpu_look(), name);
    if (gpu != nullptr) {
      all.push_back(gpu->index);
    } else {
      all.emplace_back(name);
    }
  }
  return all;
}

}  // namespace gearbox::node
