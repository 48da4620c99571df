// Parts of streamed answers, on their way from the pool to whoever asked.
#include "dispatch/dispatcher.hpp"

namespace gearbox::dispatch {

/// Counts what is handed on: a call of which somebody has seen a part is not tried again.
void Dispatcher::pass_parts(JobId id, worker_pool::CallSpec& spec) {
  if (!spec.on_part) return;
  spec.on_part = [this, id, given = std::move(spec.on_part)](worker_pool::StreamPart part) {
    const auto found = jobs_.find(id);
    if (found == jobs_.end()) return;  // cancelled meanwhile
    if (found->second.parts++ == 0) found->second.first_part = Clock::now();
    given(std::move(part));
  };
}

}  // namespace gearbox::dispatch
