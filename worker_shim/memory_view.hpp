// memory_view.hpp: a Python object that lends memory of ours to numpy, and knows whether anybody still holds it.
#pragma once

#include <pybind11/pybind11.h>

#include "gearbox/base/bytes.hpp"

namespace gearbox::shim {

/// Everything here needs the GIL. An array made over a view keeps it as its base, slices of the array too, so the
/// view's reference count tells who can still reach the memory.
class MemoryView {
 public:
  /// Makes the Python type; once per process. False with a Python error set.
  static bool ready();

  /// A view of `bytes`, which must live until revoke() and, if held() is true then, until this process ends.
  /// Throws pybind11::error_already_set.
  static pybind11::object over(ByteView bytes);  // read-only
  static pybind11::object over(ByteSpan bytes);  // writable
  /// A read-only view of memory that it owns: may be kept for ever.
  static pybind11::object copy_of(ByteView bytes);

  /// From now on nobody new can get at the memory.
  static void revoke(const pybind11::object& view);
  /// Does anything but `view` itself refer to it?
  static bool held(const pybind11::object& view) { return Py_REFCNT(view.ptr()) > 1; }
};

}  // namespace gearbox::shim
