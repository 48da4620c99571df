#include "python_error.hpp"

#include <tuple>

namespace gearbox::shim {
namespace {

namespace py = pybind11;

std::string& model_folder() {
  static std::string folder;
  return folder;
}

}  // namespace

void set_model_folder(std::string folder) {
  model_folder() = std::move(folder);
}

Failure describe_exception(const py::handle& exception, const py::handle& helpers) {
  try {
    const py::tuple told = helpers.attr("failure")(exception, model_folder());
    return Failure{static_cast<Errc>(told[0].cast<int>()), told[1].cast<std::string>(), told[2].cast<std::string>(),
                   told[3].cast<std::uint32_t>()};
  } catch (std::exception&) {  // Python's own, and casts of what is no number or no UTF-8
    return Failure{
        Errc::model_failed, std::string(Py_TYPE(exception.ptr())->tp_name) + " (it cannot be described)", {}, 0};
  }
}

Failure describe_exception(py::error_already_set& raised, const py::handle& helpers) {
  py::object exception = raised.value();
  if (!exception) return Failure{Errc::model_failed, "an exception without a value", {}, 0};
  if (raised.trace()) PyException_SetTraceback(exception.ptr(), raised.trace().ptr());
  Failure told = describe_exception(py::handle(exception), helpers);
  // Its frames hold the batch: letting go of them here is what gives the slabs back.
  PyException_SetTraceback(exception.ptr(), Py_None);
  return told;
}

}  // namespace gearbox::shim
