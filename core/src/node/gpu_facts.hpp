// gpu_facts.hpp: what `broker status` tells of the node's GPUs.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "worker_pool/worker_pool.hpp"

namespace gearbox::node {

/// {"nvml", "reason", "age_ms", "list": [...]}
boost::json::object gpu_facts(const worker_pool::WorkerPool& pool);

/// The numbers of the GPUs that the worker has a seat on; a name where no number is known.
boost::json::array gpus_of(const worker_pool::WorkerPool& pool, const worker_pool::WorkerView& worker);

}  // namespace gearbox::node
