// python_error.hpp: a Python exception as one line and a number.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <string>

#include "gearbox/base/error.hpp"

namespace gearbox::shim {

struct Failure {
  Errc code = Errc::model_failed;
  std::string reason;          // "ValueError: no such thing"
  std::string where;           // "model.py:42", or empty
  std::uint32_t again_ms = 0;  // of overloaded: when the model wants to be asked again
  Error error() const { return Error{code, reason}; }
};

/// `helpers` is the module gearbox_worker._host. Never throws; every exception counts, SystemExit and KeyboardInterrupt
/// too.
Failure describe_exception(pybind11::error_already_set& raised, const pybind11::handle& helpers);
/// The same for an exception object that was returned instead of raised.
Failure describe_exception(const pybind11::handle& exception, const pybind11::handle& helpers);

/// Set once: the folder whose files are named as the place of a failure.
void set_model_folder(std::string folder);

}  // namespace gearbox::shim
