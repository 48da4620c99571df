#include "numpy_arrays.hpp"

#include <algorithm>
#include <cstdint>

#include <pybind11/eval.h>

#include "memory_view.hpp"

namespace gearbox::shim {
namespace {

namespace py = pybind11;
using wire::DType;

// Of numpy's function table, and of an array's flags: fixed since numpy 1.7.
constexpr std::size_t kType = 2;
constexpr std::size_t kNewFromDescr = 94;
constexpr std::size_t kSetBaseObject = 282;
constexpr int kInOrder = 0x0001;
constexpr int kAligned = 0x0100;

/// The front of numpy's array object.
struct Fields {
  PyObject_HEAD char* data;
  int rank;
  Py_ssize_t* shape;
  Py_ssize_t* strides;
  PyObject* base;
  PyObject* dtype;
  int flags;
};

/// numpy's table of functions; null when it is not where it was in any version so far.
void** function_table() {
  for (const char* module : {"numpy._core._multiarray_umath", "numpy.core._multiarray_umath"}) {
    PyObject* const there = PyImport_ImportModule(module);
    PyObject* const capsule = there != nullptr ? PyObject_GetAttrString(there, "_ARRAY_API") : nullptr;
    void* const table = capsule != nullptr ? PyCapsule_GetPointer(capsule, nullptr) : nullptr;
    Py_XDECREF(capsule);
    Py_XDECREF(there);
    if (table != nullptr) return static_cast<void**>(table);
    PyErr_Clear();
  }
  return nullptr;
}

bool plain_type(DType type) {
  return type != DType::bytes && wire::element_bytes(type) > 0;
}

}  // namespace

void NumpyArrays::open(const py::handle& ndarray, const Dtypes& dtypes) {
  static_assert(sizeof(Py_ssize_t) == sizeof(std::int64_t));
  void** const table = function_table();
  if (table == nullptr || table[kType] != ndarray.ptr()) return;
  dtypes_ = dtypes;
  type_ = reinterpret_cast<PyTypeObject*>(ndarray.ptr());
  new_from_descr_ = reinterpret_cast<NewFromDescr>(table[kNewFromDescr]);
  set_base_object_ = reinterpret_cast<SetBaseObject>(table[kSetBaseObject]);
  if (!works()) new_from_descr_ = nullptr;
}

/// Makes one array and compares what numpy itself says of it.
bool NumpyArrays::works() const {
  alignas(8) static const std::array<std::byte, 48> kBytes{std::byte{7}};
  try {
    const wire::TensorSpec spec{"probe", DType::int32, {3, 4}, kBytes.size()};
    const py::object array = over(spec, kBytes, MemoryView::over(ByteView(kBytes)));
    if (!array) return false;
    const auto seen = plain(array);
    const py::object flags = array.attr("flags");
    return seen && seen->dtype == DType::int32 && seen->rank == 2 && seen->shape[0] == 3 && seen->shape[1] == 4 &&
           seen->bytes.data() == kBytes.data() && seen->bytes.size() == kBytes.size() &&
           py::object(array.attr("shape")).equal(py::make_tuple(3, 4)) &&
           py::object(array.attr("dtype")).is(dtypes_.at(static_cast<std::size_t>(DType::int32))) &&
           array.attr("ctypes").attr("data").cast<std::uintptr_t>() ==
               reinterpret_cast<std::uintptr_t>(kBytes.data()) &&
           !flags.attr("writeable").cast<bool>() && flags.attr("c_contiguous").cast<bool>() &&
           py::object(array.attr("tolist")()).equal(py::eval("[[7, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]"));
  } catch (py::error_already_set&) {
    return false;  // the plain way needs none of this
  } catch (py::cast_error&) {
    return false;
  }
}

py::object NumpyArrays::over(const wire::TensorSpec& spec, ByteView bytes, const py::object& view) const {
  if (new_from_descr_ == nullptr || bytes.empty() || !plain_type(spec.dtype)) return {};
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % wire::element_bytes(spec.dtype) != 0) return {};
  PyObject* const dtype = dtypes_.at(static_cast<std::size_t>(spec.dtype)).ptr();
  if (dtype == nullptr) return {};
  std::array<Py_ssize_t, wire::kMaxRank> shape{};
  if (spec.shape.size() > shape.size()) return {};
  Py_INCREF(dtype);  // numpy takes one
  std::copy(spec.shape.begin(), spec.shape.end(), shape.begin());
  PyObject* const array = new_from_descr_(type_, dtype, static_cast<int>(spec.shape.size()), shape.data(), nullptr,
                                          const_cast<std::byte*>(bytes.data()), kInOrder | kAligned, nullptr);
  if (array == nullptr) throw py::error_already_set();
  auto made = py::reinterpret_steal<py::object>(array);
  Py_INCREF(view.ptr());  // and another one
  if (set_base_object_(array, view.ptr()) != 0) throw py::error_already_set();
  return made;
}

std::optional<NumpyArrays::Plain> NumpyArrays::plain(const py::handle& value) const {
  if (new_from_descr_ == nullptr || Py_TYPE(value.ptr()) != type_) return std::nullopt;
  const auto* const fields = reinterpret_cast<const Fields*>(value.ptr());
  if ((fields->flags & kInOrder) == 0 || fields->rank < 0 || fields->rank > static_cast<int>(wire::kMaxRank)) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < dtypes_.size(); ++i) {
    const auto type = static_cast<DType>(i);
    if (dtypes_[i].ptr() != fields->dtype || !plain_type(type)) continue;
    std::size_t bytes = wire::element_bytes(type);
    for (int k = 0; k < fields->rank; ++k) bytes *= static_cast<std::size_t>(fields->shape[k]);
    return Plain{type, fields->shape, fields->rank, ByteView(reinterpret_cast<const std::byte*>(fields->data), bytes)};
  }
  return std::nullopt;
}

}  // namespace gearbox::shim
