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

}  // namespace

Outcome<ModelHost::Stream> ModelHost::open_stream(const shm::Call& call) {
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
    const Failure told = describe_exception(raised, helpers_);
    std::fprintf(stderr, "worker_shim: model=%s stream() failed: %s%s%s\n", record_.name.c_str(),
                 escaped(told.reason, 1000).c_str(), told.where.empty() ? "" : " at ", told.where.c_str());
    state = told.error();
  }
  input.value() = py::object();
  if (!state) {
    close_stream(stream);
    return std::move(state).error();
  }
  return stream;
}

Outcome<bool> ModelHost::next_part(Stream& stream, Results& into) {
  into.clear();
  py::object part;
  try {
    const Busy busy;
    part = py::reinterpret_steal<py::object>(PyIter_Next(stream.parts.ptr()));
    if (!part && PyErr_Occurred() != nullptr) throw py::error_already_set();
  } catch (py::error_already_set& raised) {
    const Failure told = describe_exception(raised, helpers_);
    std::fprintf(stderr, "worker_shim: model=%s stream failed: %s%s%s\n", record_.name.c_str(),
                 escaped(told.reason, 1000).c_str(), told.where.empty() ? "" : " at ", told.where.c_str());
    return told.error();
  }
  if (!part) return false;
  try {
    BOOST_OUTCOME_TRY(into.take({record_, output_names_, arrays_, helpers_}, part));
  } catch (py::error_already_set& raised) {
    return Error{Errc::bad_result, "what stream() gave cannot be read: " + describe_exception(raised, helpers_).reason};
  } catch (std::exception& thrown) {
    return Error{Errc::bad_result, std::string("what stream() gave cannot be read: ") + thrown.what()};
  }
  return true;
}

void ModelHost::close_stream(Stream& stream) {
  try {
    const Busy busy;
    // At its end a generator's close() does nothing; other iterators need not have one.
    if (stream.parts && py::hasattr(stream.parts, "close")) stream.parts.attr("close")();
    stream.parts = py::object();
  } catch (py::error_already_set& raised) {
    const Failure told = describe_exception(raised, helpers_);
    std::fprintf(stderr, "worker_shim: model=%s the end of a stream failed: %s%s%s\n", record_.name.c_str(),
                 escaped(told.reason, 1000).c_str(), told.where.empty() ? "" : " at ", told.where.c_str());
    stream.parts = py::object();
  }
  lent_ = std::exchange(stream.lent, {});
  take_back_views();
}

Outcome<void> ModelHost::try_stream(const shm::Call& probe) {
  BOOST_OUTCOME_TRY(Stream stream, open_stream(probe));
  Outcome<bool> more = true;
  Results results;
  for (int i = 0; i < kProbedParts && more && more.value(); ++i) more = next_part(stream, results);
  results.clear();
  close_stream(stream);
  if (!more) return std::move(more).error();
  return done();
}

}  // namespace gearbox::shim
