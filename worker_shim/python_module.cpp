#include "python_module.hpp"

#include <limits>

#include "memory_view.hpp"

namespace gearbox::shim {
namespace {

namespace py = pybind11;

ModelHost* g_host = nullptr;  // a module function has no other way to its process; set once

/// numpy.empty(shape, dtype) inside the grant of the batch's `item`, so that the answer is not copied once more;
/// ordinary memory where the grant has no room, or when no call is running.
py::object empty(const py::object& shape, const py::object& dtype, std::size_t item) {
  const py::object numpy = py::module_::import("numpy");
  const py::object type = numpy.attr("dtype")(dtype);
  if (g_host != nullptr && !type.attr("hasobject").cast<bool>()) {
    const py::tuple sizes = py::isinstance<py::int_>(shape) ? py::make_tuple(shape) : py::tuple(shape);
    std::size_t bytes = type.attr("itemsize").cast<std::size_t>();
    bool fits = true;
    for (const py::handle size : sizes) {
      const auto one = size.cast<std::int64_t>();
      fits = fits && one > 0 && bytes <= std::numeric_limits<std::size_t>::max() / static_cast<std::size_t>(one);
      if (!fits) break;
      bytes *= static_cast<std::size_t>(one);
    }
    const ByteSpan room = fits ? g_host->reserve(item, bytes) : ByteSpan();
    if (!room.empty()) {
      py::object view = MemoryView::over(room);
      g_host->lent(view);
      return numpy.attr("ndarray")(sizes, type, std::move(view));
    }
  }
  return numpy.attr("empty")(shape, type);
}

PyObject* make_module() {
  static py::module_::module_def definition;
  try {
    py::module_ module = py::module_::create_extension_module("_gearbox_worker", nullptr, &definition);
    module.def(
        "empty", &empty, py::arg("shape"), py::arg("dtype"), py::arg("item") = 0,
        "An array for an output of the batch's `item`, in shared memory where there is room: it must be returned by "
        "this call of infer() and not be kept.");
    module.def(
        "request_seed", [](std::size_t item) { return g_host == nullptr ? 0 : g_host->seed(item); },
        py::arg("item") = 0,
        "A number of 64 bits that belongs to the request: the same when it is run again, by another worker, after its "
        "node's end. 0 for a probe.");
    module.def(
        "note_input_tokens",
        [](std::uint32_t tokens, std::size_t item) {
          if (g_host != nullptr) g_host->note_input_tokens(tokens, item);
        },
        py::arg("tokens"), py::arg("item") = 0,
        "How long the prompt of the batch's `item`, or of the stream that is asked, is: told by `broker explain` and "
        "in "
        "recordings.");
    module.def(
        "wake",
        [] {
          if (g_host != nullptr) g_host->wake();
        },
        "Generators that said NOTHING_YET are asked again at once. Any thread.");
    return module.release().ptr();
  } catch (py::error_already_set& raised) {
    raised.restore();
    return nullptr;
  }
}

}  // namespace

Outcome<void> register_python_module() {
  if (PyImport_AppendInittab("_gearbox_worker", &make_module) != 0) {
    return Error{Errc::internal, "the module _gearbox_worker cannot be registered"};
  }
  return done();
}

void serve_python_module(ModelHost* host) {
  g_host = host;
}

}  // namespace gearbox::shim
