// code_of.hpp: an outcome's error number, Errc{} when all went well: a test that expected an error then fails, not
// aborts.
#pragma once

#include "gearbox/base/outcome.hpp"

namespace gearbox {

template <class T>
Errc code_of(const Outcome<T>& outcome) {
  return outcome ? Errc{} : outcome.error().code;
}

}  // namespace gearbox
