#include <pybind11/pybind11.h>

#include "serve_streams.hpp"

#include <algorithm>
#include <atomic>
#include <list>

#include "batches.hpp"
#include "gearbox/base/stop_point.hpp"
#include "watchdog.hpp"

namespace gearbox::shim {
namespace {

namespace py = pybind11;

constexpr milliseconds kLook{250};     // between two looks at Watchdog::stopping(), and at deadlines
constexpr milliseconds kAskAgain{10};  // a stream that had nothing yet, when its model wakes nobody

/// One request whose generator is open.
struct Open {
  shm::Call call;
  ModelHost::Stream stream;
  std::chrono::nanoseconds run{0};  // inside the model
  bool had_nothing = false;         // when it was asked last, and the model has not called wake() since
  Instant ask_at{};                 // of one that had nothing
};

class Streams {
 public:
  Streams(shm::WorkerEndpoint& endpoint, const model::Record& record, ModelHost& host)
      : endpoint_(endpoint), record_(record), host_(host) {
    host_.on_wake([this] {
      if (!woken_.exchange(true)) endpoint_.nudge();
    });
  }
  ~Streams() {  // the node is gone, or we are to end: the generators hear of it
    host_.on_wake({});
    for (Open& open : open_) host_.close_stream(open.stream);
  }
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  Outcome<void> serve() {
    while (!Watchdog::stopping()) {
      if (woken_.exchange(false)) {
        for (Open& open : open_) open.had_nothing = false;
      }
      const std::size_t most = open_.size() < record_.streams ? record_.streams - open_.size() : 0;
      const bool none_goes = !any_goes();
      Outcome<std::vector<shm::Call>> calls = std::vector<shm::Call>{};
      if (none_goes) {
        const py::gil_scoped_release python_threads_may_run;
        calls = endpoint_.next_or(most, pause(), [&] { return woken_.load() || any_goes(); });
      } else if (most > 0) {
        calls = endpoint_.look(most, std::chrono::nanoseconds{0});
      }  // else nothing is looked at: a stream that goes on runs out of rooms when the node is gone
      if (!calls) return std::move(calls).error();
      for (shm::Call& call : calls.value()) take(call);
      for (auto at = open_.begin(); at != open_.end();) {
        const bool stays = !goes(*at, Clock::now()) || advance(*at);
        at = stays ? std::next(at) : open_.erase(at);
      }
      endpoint_.keep_gone_arenas(host_.holds_memory());
    }
    return done();
  }

 private:
  /// Is there something to do for it: a part to be made, or an end?
  bool goes(const Open& open, Instant now) const {
    return (endpoint_.has_room(open.call) && (!open.had_nothing || now >= open.ask_at)) ||
           !still_wanted(open.call, now);
  }

  bool any_goes() const {
    const Instant now = Clock::now();
    return std::any_of(open_.begin(), open_.end(), [&](const Open& open) { return goes(open, now); });
  }

  /// How long nothing need be looked at, unless something comes.
  milliseconds pause() const {
    const bool asks_again = std::any_of(open_.begin(), open_.end(), [](const Open& open) { return open.had_nothing; });
    return asks_again ? kAskAgain : kLook;
  }

  /// Of a probe, which is alone.
  Outcome<void> wait_for_model() {
    const py::gil_scoped_release python_threads_may_run;
    BOOST_OUTCOME_TRY(endpoint_.next_or(0, kAskAgain, [&] { return woken_.exchange(false); }));
    if (Watchdog::stopping()) return Error{Errc::cancelled, "the worker is ending"};
    return done();
  }

  static Error ended(const Error& why) {
    return Error{why.code, why.code == Errc::cancelled ? "it was cancelled" : "its time was up before its last part"};
  }

  void take(shm::Call& call) {
    const Instant began = Clock::now();
    Outcome<void> state = still_wanted(call, Clock::now());
    if (call.descriptor.kind == shm::CallKind::probe) {
      state = host_.try_stream(call, [&] { return wait_for_model(); });
      finish(call, state, Clock::now() - began);
      return;
    }
    if (call.rooms.rooms == 0) state = Error{Errc::bad_result, "the node asks a streaming model for one answer"};
    stop_point("worker.call.taken");
    Outcome<ModelHost::Stream> stream = state ? host_.open_stream(call) : Outcome<ModelHost::Stream>(state.error());
    const std::chrono::nanoseconds run = Clock::now() - began;
    if (!stream) {
      state = stream.error();
      finish(call, state, run);
      return;
    }
    Open open;
    open.call = std::move(call);
    open.stream = std::move(stream).value();
    open.run = run;
    open_.push_back(std::move(open));
  }

  /// One part more, or the end. False: it is over.
  bool advance(Open& open) {
    Outcome<void> state = still_wanted(open.call, Clock::now());
    if (state) {
      const Instant began = Clock::now();
      const Outcome<ModelHost::Next> next = host_.next_part(open.call, open.stream, results_);
      const Instant now = Clock::now();
      open.run += now - began;
      if (!next) {
        state = next.error();
      } else if (next.value() == ModelHost::Next::nothing_yet) {
        open.had_nothing = true;
        open.ask_at = after(now, kAskAgain);
        return true;
      } else if (next.value() == ModelHost::Next::part) {
        open.had_nothing = false;
        state = publish(open.call);
        if (state) return true;
      }
    } else {
      state = ended(state.error());
    }
    results_.clear();
    host_.close_stream(open.stream);
    finish(open.call, state, open.run);
    return false;
  }

  Outcome<void> publish(shm::Call& call) {
    const Outcome<void> sent = endpoint_.part(call, results_.tensors());
    results_.clear();
    return sent;
  }

  void finish(shm::Call& call, const Outcome<void>& state, std::chrono::nanoseconds run) {
    stop_point("worker.call.done");
    if (state) {
      endpoint_.end(call, run);
    } else {
      endpoint_.fail(call, state.error(), run);
    }
  }

  shm::WorkerEndpoint& endpoint_;
  const model::Record& record_;
  ModelHost& host_;
  std::list<Open> open_;
  Results results_;
  std::atomic<bool> woken_ = false;  // set by threads of the model
};

}  // namespace

Outcome<void> serve_streams(shm::WorkerEndpoint& endpoint, const model::Record& record, ModelHost& host) {
  return Streams(endpoint, record, host).serve();
}

}  // namespace gearbox::shim
