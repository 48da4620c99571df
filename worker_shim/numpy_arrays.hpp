// numpy_arrays.hpp: numpy arrays made and read through numpy's own C functions: about 0.4 µs less for each array than
// by calling numpy.ndarray and the buffer protocol. Only what numpy keeps stable from 1.7 to 2.x is used, and it is
// tried out once; where it is not as expected everything goes the way of plain Python.
#pragma once

#include <pybind11/pybind11.h>

#include <array>
#include <optional>

#include "gearbox/base/bytes.hpp"
#include "gearbox/wire/tensor.hpp"

namespace gearbox::shim {

/// Everything here needs the GIL.
class NumpyArrays {
 public:
  using Dtypes = std::array<pybind11::object, 14>;  // numpy.dtype by wire::DType

  /// Finds numpy's functions and tries them. Never fails: without them over() and plain() have nothing to offer.
  /// `dtypes` is kept.
  void open(const pybind11::handle& ndarray, const Dtypes& dtypes);

  /// An array over `bytes`, with `view` (memory_view.hpp) as its base; read-only. Null when it has to be made in the
  /// plain way. Throws pybind11::error_already_set.
  pybind11::object over(const wire::TensorSpec& spec, ByteView bytes, const pybind11::object& view) const;

  struct Plain {
    wire::DType dtype;
    const Py_ssize_t* shape;
    int rank;
    ByteView bytes;
  };
  /// What lies in `value`, when that is an array in C order, of a native element type: valid while `value` lives.
  std::optional<Plain> plain(const pybind11::handle& value) const;

 private:
  bool works() const;

  using NewFromDescr = PyObject* (*)(PyTypeObject*, PyObject*, int, const Py_ssize_t*, const Py_ssize_t*, void*, int,
                                     PyObject*);
  using SetBaseObject = int (*)(PyObject*, PyObject*);
  NewFromDescr new_from_descr_ = nullptr;  // null: everything in the plain way
  SetBaseObject set_base_object_ = nullptr;
  PyTypeObject* type_ = nullptr;
  Dtypes dtypes_;
};

}  // namespace gearbox::shim
