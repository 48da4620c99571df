#include <pybind11/pybind11.h>

#include "serve.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

#include "gearbox/base/text.hpp"
#include "watchdog.hpp"

namespace gearbox::shim {
namespace {

namespace py = pybind11;

constexpr milliseconds kLook{250};  // between two looks at Watchdog::stopping()
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

/// The next batch: what is there at once, then, where the record asks for it, what comes within max_delay_ms.
/// Without the GIL. Errors: those of WorkerEndpoint::next.
Outcome<std::vector<shm::Call>> next_batch(shm::WorkerEndpoint& endpoint, const model::Record& record) {
  BOOST_OUTCOME_TRY(std::vector<shm::Call> calls, endpoint.next(record.max_batch, kLook));
  if (calls.empty() || record.max_delay_ms == 0) return calls;
  const Instant until = after(Clock::now(), milliseconds(record.max_delay_ms));
  while (calls.size() < record.max_batch) {
    const auto left = std::chrono::duration_cast<milliseconds>(until - Clock::now());
    if (left.count() <= 0) break;
    BOOST_OUTCOME_TRY(std::vector<shm::Call> more, endpoint.next(record.max_batch - calls.size(), left));
    for (shm::Call& call : more) calls.push_back(std::move(call));
  }
  return calls;
}

/// Waits a little without letting go of the GIL, whose way out and back costs more than a short wait; but other Python
/// threads get it at least as often as Python's own switching would give it to them.
class ShortWait {
 public:
  /// Empty: let the others run, and wait as long as it takes. Errors: those of WorkerEndpoint::next.
  Outcome<std::vector<shm::Call>> look(shm::WorkerEndpoint& endpoint, const model::Record& record) {
    if (record.max_delay_ms != 0 || turn_over_) return std::vector<shm::Call>{};
    BOOST_OUTCOME_TRY(std::vector<shm::Call> calls, endpoint.look(record.max_batch, kShort));
    if (!calls.empty()) turn_over_ = calls.front().taken - since_ >= kTurn;
    return calls;
  }
  void others_ran(Instant now) {
    since_ = now;
    turn_over_ = false;
  }

 private:
  static constexpr microseconds kShort{5};
  static constexpr microseconds kTurn{100};  // as in _host.load()
  Instant since_{};
  bool turn_over_ = true;
};

/// What nodes that are gone have left in this process: their memory stays mapped while the model looks at it.
using Estate = std::vector<std::unique_ptr<shm::WorkerEndpoint>>;

/// `unfinished`: the calls that were under way when the node went. Errors: closed when this node is gone; not_allowed
/// when it told us to end; bad_frame when the ring is broken.
Outcome<void> serve_node(shm::WorkerEndpoint& endpoint, const model::Record& record, ModelHost& host, Estate& estate,
                         std::vector<shm::CallKey>& unfinished) {
  ShortWait short_wait;
  while (!Watchdog::stopping()) {
    Outcome<std::vector<shm::Call>> calls = short_wait.look(endpoint, record);
    if (calls && calls.value().empty()) {
      const py::gil_scoped_release python_threads_may_run;
      calls = next_batch(endpoint, record);
      if (calls && !calls.value().empty()) short_wait.others_ran(calls.value().front().taken);
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
                   escaped(describe(attached.error())).c_str());
      return ExitCode::told_to_stop;
    }
    shm::WorkerEndpoint* const endpoint = attached.value().get();
    Watchdog::watch_node({[endpoint] { endpoint->beat(); }, [endpoint] { return endpoint->node_gone(); },
                          milliseconds(record.call_timeout_ms)});
    hello.unfinished.clear();
    const Outcome<void> served = serve_node(*endpoint, record, host, estate, hello.unfinished);
    Watchdog::forget_node();
    if (host.holds_memory()) {  // arrays that the model kept point into the mappings
      endpoint->hang_up();
      estate.push_back(std::move(attached).value());
    }
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
