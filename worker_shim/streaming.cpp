// How a model's generator is opened, advanced and closed. All of it is the model's code, which may raise anywhere.
#include <cstdio>

#include "gearbox/base/text.hpp"
#include "model_host.hpp"
#include "python_error.hpp"
#include "watchdog.hpp"

namespace gearbox::shim {

namespace py = pybind11;

namespace {

constexpr int kProbedParts = 8;

/// While it lives, the model is running a call.
class Busy {
 public:
  Busy() { Watchdog::busy(true); }
  ~Busy() { Watchdog::busy(false); }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;
};

/// While it lives, `call` is the one whose generator runs.
class Asked {
 public:
  Asked(shm::Call*& place, shm::Call& call) : place_(place) { place_ = &call; }
  ~Asked() { place_ = nullptr; }
  Asked(const Asked&) = delete;
  Asked& operator=(const Asked&) = delete;

 private:
  shm::Call*& place_;
};

}  // namespace

void ModelHost::say_failed(const char* what, const Failure& failure) const {
  std::fprintf(stderr, "worker_shim: model=%s %s failed: %s%s%s\n", record_.name.c_str(), what,
               escaped(failure.reason, 1000).c_str(), failure.where.empty() ? "" : " at ", failure.where.c_str());
}

Error ModelHost::stream_failed(const char* what, py::error_already_set& raised, shm::Call& call) const {
  const Failure failure = describe_exception(raised, helpers_);
  say_failed(what, failure);
  return error_of(failure, call);
}

Outcome<ModelHost::Stream> ModelHost::open_stream(shm::Call& call) {
  stream_seed_ = call.descriptor.seed;
  const Asked asked(stream_call_, call);
  Stream stream;
  Outcome<py::object> input = build_item(call);
  stream.lent = std::exchange(lent_, {});
  if (!input) {
    close_stream(stream);
    return input.error();
  }
  Outcome<void> state = done();
  try {
    const Busy busy;
    const auto given = py::reinterpret_steal<py::object>(PyObject_CallOneArg(infer_.ptr(), input.value().ptr()));
    if (!given) throw py::error_already_set();
    PyObject* const parts = PyObject_GetIter(given.ptr());
    if (parts == nullptr) throw py::error_already_set();
    stream.parts = py::reinterpret_steal<py::object>(parts);
  } catch (py::error_already_set& raised) {
    state = stream_failed("stream()", raised, call);
  }
  input.value() = py::object();
  if (!state) {
    close_stream(stream);
    return std::move(state).error();
  }
  return stream;
}

Outcome<ModelHost::Next> ModelHost::next_part(shm::Call& call, Stream& stream, Results& into) {
  into.clear();
  stream_seed_ = call.descriptor.seed;
  const Asked asked(stream_call_, call);
  py::object part;
  try {
    const Busy busy;
    part = py::reinterpret_steal<py::object>(PyIter_Next(stream.parts.ptr()));
    if (!part && PyErr_Occurred() != nullptr) throw py::error_already_set();
  } catch (py::error_already_set& raised) {
    return stream_failed("stream", raised, call);
  }
  if (!part) return Next::end;
  if (part.is(nothing_yet_)) return Next::nothing_yet;
  try {
    BOOST_OUTCOME_TRY(into.take({record_, output_names_, arrays_, helpers_}, part));
  } catch (py::error_already_set& raised) {
    return Error{Errc::bad_result, "what stream() gave cannot be read: " + describe_exception(raised, helpers_).reason};
  } catch (std::exception& thrown) {
    return Error{Errc::bad_result, std::string("what stream() gave cannot be read: ") + thrown.what()};
  }
  return Next::part;
}

void ModelHost::close_stream(Stream& stream) {
  try {
    const Busy busy;
    // At its end a generator's close() does nothing; other iterators need not have one.
    if (stream.parts && py::hasattr(stream.parts, "close")) stream.parts.attr("close")();
    stream.parts = py::object();
  } catch (py::error_already_set& raised) {
    say_failed("the end of a stream", describe_exception(raised, helpers_));
    stream.parts = py::object();
  }
  lent_ = std::exchange(stream.lent, {});
  take_back_views();
}

Outcome<void> ModelHost::try_stream(shm::Call& probe, const std::function<Outcome<void>()>& pause) {
  BOOST_OUTCOME_TRY(Stream stream, open_stream(probe));
  Outcome<void> state = done();
  Results results;
  for (int parts = 0; parts < kProbedParts && state;) {
    const Outcome<Next> next = next_part(probe, stream, results);
    if (!next) {
      state = next.error();
    } else if (next.value() == Next::end) {
      break;
    } else if (next.value() == Next::part) {
      ++parts;
    } else {
      state = pause();
    }
  }
  results.clear();
  close_stream(stream);
  return state;
}

}  // namespace gearbox::shim
