// no_worker.hpp: why nobody runs a model, in the words of those that should.
#pragma once

#include <string>

#include "gearbox/model/record.hpp"
#include "worker_pool/worker_pool.hpp"

namespace gearbox::dispatch {

/// ": worker-3 has failed: ImportError: ..." of the workers of `record`'s name and version: what is wrong with the one
/// that says most, and how many others there are. Empty where nobody says anything. On the pool's strand.
std::string why_no_worker(const worker_pool::WorkerPool& pool, const model::Record& record);

}  // namespace gearbox::dispatch
