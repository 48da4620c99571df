#include <pybind11/pybind11.h>

#include "serve.hpp"

#include <unistd.h>

#include <cstdio>
#include <thread>

#include "batches.hpp"
#include "gearbox/base/text.hpp"
#include "serve_streams.hpp"
#include "watchdog.hpp"

namespace gearbox::shim {
namespace {

namespace py = pybind11;

constexpr milliseconds kDialAgain{100};

/// Dials until a node accepts. Without the GIL.
/// Errors: not_allowed when the node says to end; otherwise the last one, when the time is up or a signal came.
Outcome<std::unique_ptr<shm::WorkerEndpoint>> attach(const Options& options, const shm::WorkerHello& hello) {
  const Instant until = after(Clock::now(), options.reattach);
  for (;;) {
    auto endpoint = shm::WorkerEndpoint::attach(options.node, hello);
    if (endpoint || endpoint.error().code == Errc::not_allowed || endpoint.error().code == Errc::unsupported_version ||
        Clock::now() >= until || Watchdog::stopping()) {
      return endpoint;
    }
    std::this_thread::sleep_for(kDialAgain);
  }
}

/// Errors: closed when this node is gone; not_allowed when it told us to end; bad_frame when the ring is broken.
Outcome<void> serve_node(shm::WorkerEndpoint& endpoint, const model::Record& record, ModelHost& host) {
  Batches batches(endpoint, record);
  while (!Watchdog::stopping()) {
    Outcome<std::vector<shm::Call>> calls = batches.look();
    if (calls && calls.value().empty()) {
      const py::gil_scoped_release python_threads_may_run;
      calls = batches.wait();
    }
    if (!calls) return std::move(calls).error();
    if (calls.value().empty()) continue;
    host.run(endpoint, calls.value());
    endpoint.keep_gone_arenas(host.holds_memory());
  }
  return done();
}

}  // namespace

shm::WorkerHello hello_of(const Options& options, const model::Record& record) {
  shm::WorkerHello hello;
  hello.model = record.name;
  hello.version = record.version;
  hello.digest = record.digest;
  hello.shim = "worker_shim " GEARBOX_VERSION " (Python " PY_VERSION ")";
  hello.pid = ::getpid();
  hello.slot = options.slot;
  return hello;
}

ExitCode serve(const Options& options, const model::Record& record, ModelHost& host) {
  const shm::WorkerHello hello = hello_of(options, record);
  while (!Watchdog::stopping()) {
    Outcome<std::unique_ptr<shm::WorkerEndpoint>> attached = Error{};
    {
      const py::gil_scoped_release python_threads_may_run;
      attached = attach(options, hello);
    }
    if (!attached) {
      std::fprintf(stderr, "worker_shim: model=%s ends: %s\n", record.name.c_str(),
                   escaped(describe(attached.error())).c_str());
      return ExitCode::told_to_stop;
    }
    shm::WorkerEndpoint* const endpoint = attached.value().get();
    Watchdog::watch_node({[endpoint] { endpoint->beat(); }, [endpoint] { return endpoint->node_gone(); },
                          milliseconds(record.call_timeout_ms)});
    const Outcome<void> served =
        record.stream ? serve_streams(*endpoint, record, host) : serve_node(*endpoint, record, host);
    Watchdog::forget_node();
    // Arrays that the model kept point into the mappings: those then stay until the process ends.
    if (host.holds_memory()) attached.value().release();
    if (!served && served.error().code != Errc::closed) {
      const bool told = served.error().code == Errc::not_allowed;
      std::fprintf(stderr, "worker_shim: model=%s ends: %s\n", record.name.c_str(),
                   escaped(describe(served.error())).c_str());
      return told ? ExitCode::told_to_stop : ExitCode::failed;
    }
  }
  return ExitCode::told_to_stop;
}

}  // namespace gearbox::shim
