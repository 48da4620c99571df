#include <pybind11/pybind11.h>

#include "serve.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

#include "batches.hpp"
#include "gearbox/base/text.hpp"
#include "serve_streams.hpp"
#include "watchdog.hpp"

namespace gearbox::shim {
namespace {

namespace py = pybind11;

constexpr milliseconds kDialAgain{100};
constexpr milliseconds kDialSlack{35'000};  // beyond the time for dialling: a node that accepts and then says nothing

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

/// What nodes that are gone have left in this process: their memory stays mapped while the model looks at it.
using Estate = std::vector<std::unique_ptr<shm::WorkerEndpoint>>;

/// `unfinished`: the calls that were under way when the node went. Errors: closed when this node is gone; not_allowed
/// when it told us to end; bad_frame when the ring is broken.
Outcome<void> serve_node(shm::WorkerEndpoint& endpoint, const model::Record& record, ModelHost& host, Estate& estate,
                         std::vector<shm::CallKey>& unfinished) {
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
    if (!estate.empty() && !host.holds_memory()) estate.clear();
    if (Watchdog::node_gone()) {  // what else its ring holds, nobody waits for
      for (const shm::Call& call : calls.value()) {
        unfinished.push_back({call.descriptor.request, call.descriptor.attempt});
      }
      return Error{Errc::closed, "the node went while a call ran"};
    }
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
  hello.folder = options.model.string();
  hello.env = options.env;
  hello.python = options.python.string();
  hello.devices = options.devices;
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) hello.visible = visible;
  hello.threads = options.threads != 0 ? options.threads : record.threads;
  hello.origin = options.origin;
  return hello;
}

namespace {
/// Why it ends, for the log. What the node says in an exit message is no error of ours.
std::string ending_text(const Error& error) {
  return escaped(error.code == Errc::not_allowed ? "told to by the node: " + error.detail : describe(error));
}
}  // namespace

ExitCode serve(const Options& options, const model::Record& record, ModelHost& host) {
  shm::WorkerHello hello = hello_of(options, record);
  Estate estate;
  for (; !Watchdog::stopping(); ++hello.attached) {
    Outcome<std::unique_ptr<shm::WorkerEndpoint>> attached = Error{};
    // Nobody else bounds this: no node may be there, and a thread of the model may keep the GIL for ever.
    Watchdog::arm(options.reattach + kDialSlack, ExitCode::failed, "no node, and no way to go on");
    {
      const py::gil_scoped_release python_threads_may_run;
      attached = attach(options, hello);
    }
    Watchdog::disarm();
    if (!attached) {
      std::fprintf(stderr, "worker_shim: model=%s ends: %s\n", record.name.c_str(),
                   ending_text(attached.error()).c_str());
      return ExitCode::told_to_stop;
    }
    shm::WorkerEndpoint* const endpoint = attached.value().get();
    Watchdog::watch_node({[endpoint] { endpoint->beat(); }, [endpoint] { return endpoint->node_gone(); },
                          milliseconds(record.call_timeout_ms)});
    hello.unfinished.clear();
    const Outcome<void> served = record.stream ? serve_streams(*endpoint, record, host)
                                               : serve_node(*endpoint, record, host, estate, hello.unfinished);
    Watchdog::forget_node();
    if (host.holds_memory()) {  // arrays that the model kept point into the mappings
      endpoint->hang_up();
      estate.push_back(std::move(attached).value());
    }
    if (!served && served.error().code != Errc::closed) {
      const bool told = served.error().code == Errc::not_allowed;
      std::fprintf(stderr, "worker_shim: model=%s ends: %s\n", record.name.c_str(),
                   ending_text(served.error()).c_str());
      return told ? ExitCode::told_to_stop : ExitCode::failed;
    }
  }
  return ExitCode::told_to_stop;
}

}  // namespace gearbox::shim
