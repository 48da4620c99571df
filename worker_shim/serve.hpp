// serve.hpp: the worker's life after its model is loaded: attach, answer calls, look for the next node, end.
#pragma once

#include "gearbox/model/record.hpp"
#include "gearbox/shm/endpoint.hpp"
#include "model_host.hpp"
#include "options.hpp"

namespace gearbox::shim {

/// What the node is told about this process.
shm::WorkerHello hello_of(const Options& options, const model::Record& record);

/// Serves until a signal, the node's word, or until no node has answered for options.reattach. With the GIL held.
ExitCode serve(const Options& options, const model::Record& record, ModelHost& host);

}  // namespace gearbox::shim
