// model_host.hpp: the loaded model: builds its batches, calls it, and turns what comes back into answers.
#pragma once

#include <pybind11/pybind11.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gearbox/base/outcome.hpp"
#include "gearbox/model/record.hpp"
#include "gearbox/shm/endpoint.hpp"
#include "numpy_arrays.hpp"
#include "python_error.hpp"
#include "results.hpp"

namespace gearbox::shim {

/// Used by the thread that started Python, with the GIL held except where said. Never destroyed: Python is not
/// finalised.
class ModelHost {
 public:
  /// Imports model.py and calls load(). `threads` is what the numeric libraries were told.
  /// Errors: model_failed, with the last line of what Python raised (SystemExit too).
  static Outcome<ModelHost*> load(const model::Record& record, const std::string& device, std::uint32_t threads);

  /// Runs `calls` as one batch and answers each through `endpoint`. When infer() raises for more than one, or gives
  /// another number of results, they are run one by one, so that one bad request does not fail its neighbours. Calls
  /// whose time is up are answered without being run.
  void run(shm::WorkerEndpoint& endpoint, std::vector<shm::Call>& calls);

  // Models that stream; streaming.cpp.

  /// What stream() gave for one request, and the views that it was given.
  struct Stream {
    pybind11::object parts;  // the iterator
    std::vector<pybind11::object> lent;
  };
  /// Errors: bad_input; what the model raised. Nothing is open then.
  Outcome<Stream> open_stream(shm::Call& call);
  enum class Next { part, nothing_yet, end };
  /// Lets the model make one more part of `call`. Errors: what the model raised, bad_result; the stream is to be closed
  /// then, as at its end.
  Outcome<Next> next_part(shm::Call& call, Stream& stream, Results& into);
  /// Tells a generator that has not come to its end (GeneratorExit), and lets go of it.
  void close_stream(Stream& stream);
  /// A probe's stream, over some parts or to its end. `pause`: waits until it is worth to ask for a part again. Errors:
  /// those of the other three, and of `pause`.
  Outcome<void> try_stream(shm::Call& probe, const std::function<Outcome<void>()>& pause);
  /// What gearbox_worker.wake() does from now on, on the thread that calls it, with the GIL; empty: nothing.
  void on_wake(std::function<void()> waker) { waker_ = std::move(waker); }
  void wake() const {
    if (waker_) waker_();
  }

  /// Does the model hold memory of calls that have been answered? Then the mappings must stay until the process ends.
  bool holds_memory() const { return !held_.empty(); }

  /// The model's close() and Python's exit handlers. May take for ever: the caller bounds it.
  void finish();

  /// For gearbox_worker.empty(): room for an output inside the grant of the batch's `item`; empty when there is none.
  ByteSpan reserve(std::size_t item, std::size_t bytes);
  /// For gearbox_worker.note_input_tokens(): of the batch's `item`, or of the stream that is asked.
  void note_input_tokens(std::uint32_t tokens, std::size_t item);
  /// For gearbox_worker.request_seed(): of the batch's `item`, or of the stream that is asked; 0: none.
  std::uint64_t seed(std::size_t item) const;
  /// Remembers a writable view so that one kept past its call is noticed.
  void lent(pybind11::object view) { lent_.push_back(std::move(view)); }

 private:
  /// One call of a batch and what is known of it; used again for later calls, with its buffers.
  struct Item {
    shm::Call* call = nullptr;
    pybind11::object input;
    Outcome<void> state = done();
    Results results;
    std::chrono::nanoseconds run{0};
  };
  ModelHost() = default;

  Outcome<pybind11::object> build_item(const shm::Call& call);
  pybind11::object array_over(const wire::TensorSpec& spec, pybind11::object view);
  pybind11::object objects_from(const shm::InputTensor& tensor);
  Outcome<pybind11::object> probe_item();
  void infer(std::vector<Item*>& items);
  void one_by_one(const std::vector<Item*>& items);
  Outcome<void> take_result(const pybind11::object& given, std::size_t index, Item& item);
  void answer(shm::WorkerEndpoint& endpoint, Item& item);
  void take_back_views();
  /// The error of a call whose model raised; what it says beside that is kept with the call.
  static Error error_of(const Failure& failure, shm::Call& call);
  void say_failed(const char* what, const Failure& failure) const;
  Error stream_failed(const char* what, pybind11::error_already_set& raised, shm::Call& call) const;

  model::Record record_;
  pybind11::object model_, infer_, helpers_, ndarray_;  // infer_: stream() of a model that streams
  pybind11::object nothing_yet_;
  std::function<void()> waker_;
  std::uint64_t stream_seed_ = 0;     // of the stream that is asked
  shm::Call* stream_call_ = nullptr;  // the same, while it is
  NumpyArrays::Dtypes dtypes_;
  NumpyArrays arrays_;
  std::vector<pybind11::object> input_names_, output_names_;  // of the record's, as Python text, made once
  std::vector<pybind11::object> lent_;                        // views that the batch under way was given
  std::vector<pybind11::object> held_;       // views that a model kept although their call was answered
  bool copy_inputs_ = false;                 // once a model was seen keeping views
  shm::WorkerEndpoint* endpoint_ = nullptr;  // of the batch under way
  std::vector<Item> items_;                  // at least as many as calls under way
  std::vector<Item*> batch_;                 // those of them that are run
  std::vector<Item*> running_;               // the batch under way, in the model's order
};

}  // namespace gearbox::shim
