// Which of the workers' models stands for what a task names, while versions come and go.
#include <algorithm>
#include <tuple>

#include "config/versions.hpp"
#include "worker_pool/pool.hpp"

namespace gearbox::worker_pool {

namespace {

Service service_of(const Worker& worker) {
  switch (worker.life) {
    case Life::ready:
      return Service::ready;
    case Life::failed:
      return Service::none;
    case Life::waiting:
      return worker.hopeless ? Service::none : Service::coming;
    case Life::draining:
    case Life::gone:
      return worker.retired ? Service::none : Service::coming;  // a retired one is not started again
    case Life::starting:
    case Life::loading:
    case Life::probing:
    case Life::suspect:
      return Service::coming;
  }
  return Service::none;
}

bool is_declared_alike(const model::TensorDecl& a, const model::TensorDecl& b) {
  return a.name == b.name && a.list == b.list && a.any_dtype == b.any_dtype && (a.any_dtype || a.dtype == b.dtype);
}
bool takes_alike(const model::TensorDecl& a, const model::TensorDecl& b) {
  return is_declared_alike(a, b) && a.any_shape == b.any_shape && (a.any_shape || a.shape == b.shape);
}

/// Can `other` do what a task expects that was checked against `known`: takes it the same inputs, gives it at least
/// those outputs, in one or in parts?
bool stands_in(const model::Record& other, const model::Record& known) {
  const auto among = [](const auto& all, const model::TensorDecl& one, auto alike) {
    return std::any_of(all.begin(), all.end(), [&](const model::TensorDecl& each) { return alike(each, one); });
  };
  return other.stream == known.stream && other.inputs.size() == known.inputs.size() &&
         std::all_of(known.inputs.begin(), known.inputs.end(),
                     [&](const auto& input) { return among(other.inputs, input, takes_alike); }) &&
         std::all_of(known.outputs.begin(), known.outputs.end(),
                     [&](const auto& output) { return among(other.outputs, output, is_declared_alike); });
}

}  // namespace

Service Pool::service(const model::Record& record) const {
  Service best = Service::none;
  for (const auto& worker : workers_) {
    if (is_same_model(*worker->record, record)) best = std::max(best, service_of(*worker));
  }
  return best;
}

Resolved Pool::resolve(const config::Config& config, std::string_view model, std::string_view version) const {
  const model::Record* const named = config::find_model(config, model, version);
  const Worker* best = nullptr;
  const auto is_better = [&](const Worker& a, const Worker& b) {
    const auto at_ease = [&](const Worker& worker) {
      const model::Record* own = config::find_model(config, model, worker.record->version);
      // Ready ones first; then by the snapshot's own word.
      return std::make_tuple(service_of(worker), own != nullptr);
    };
    if (at_ease(a) != at_ease(b)) return at_ease(a) > at_ease(b);
    const auto order = config::compare_versions(a.record->version, b.record->version);
    if (order != 0) return order > 0;
    const auto detail = [&](const Worker& worker) {
      const model::Record* own = config::find_model(config, model, worker.record->version);
      return std::make_tuple(own != nullptr && is_same_model(*own, *worker.record), !worker.retired, worker.slot);
    };
    return detail(a) > detail(b);
  };
  for (const auto& worker : workers_) {
    const model::Record& record = *worker->record;
    if (record.name != model || !config::admits(version, record.version)) continue;
    const Service service = service_of(*worker);
    if (service == Service::none) continue;
    if (service == Service::ready && named != nullptr && is_same_model(record, *named))
      return {worker->record, service};
    if (named != nullptr && !is_same_model(record, *named) && !stands_in(record, *named)) continue;
    if (best == nullptr || is_better(*worker, *best)) best = worker.get();
  }
  Resolved resolved;
  if (best != nullptr) {
    resolved.record = best->record;
    resolved.service = service_of(*best);
  } else if (named != nullptr) {
    resolved.record = std::make_shared<const model::Record>(*named);
  }
  return resolved;
}

}  // namespace gearbox::worker_pool
