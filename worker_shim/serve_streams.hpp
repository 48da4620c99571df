// serve_streams.hpp: the worker's main loop for a model that streams: several generators are open at once and are
// advanced in turn, each only while the node has room for its next part.
#pragma once

#include "gearbox/base/outcome.hpp"
#include "gearbox/model/record.hpp"
#include "gearbox/shm/endpoint.hpp"
#include "model_host.hpp"

namespace gearbox::shim {

/// Until a signal asks to stop, or: Errors: closed when this node is gone; not_allowed when it told us to end;
/// bad_frame when the ring is broken. Every generator that was open has been closed then.
Outcome<void> serve_streams(shm::WorkerEndpoint& endpoint, const model::Record& record, ModelHost& host);

}  // namespace gearbox::shim
