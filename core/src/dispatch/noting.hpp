// noting.hpp: what is noted of a call for those who ask why it went where it went: the workers that were looked at, and
// how it ended. Numbers only; texts are made when somebody asks (explain/json.hpp).
#pragma once

#include <cstdint>
#include <vector>

#include "explain/trace.hpp"
#include "worker_pool/worker_pool.hpp"

namespace gearbox::dispatch {

/// Of the calls that it holds, those that its model runs, or will as soon as it asks for the next batch.
std::uint32_t runs(const worker_pool::WorkerView& worker);

/// The first ones of each kind; the rest are counted.
void add_seen(explain::Pick& pick, const worker_pool::WorkerView& worker, explain::Standing standing);

/// Of many candidates the chosen one may be among those that were only counted.
void keep_chosen(explain::Pick& pick, const std::vector<worker_pool::WorkerView>& ready);

/// To the last of the call's picks. `now`: when the answer came.
void note_end(explain::Call& call, const worker_pool::CallAnswer& answer, Instant now);

}  // namespace gearbox::dispatch
