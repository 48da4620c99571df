// outcome.hpp: the one way in which failure is returned (style: a broken invariant terminates, all else is an Outcome).
#pragma once

#include <boost/outcome/basic_result.hpp>
#include <boost/outcome/policy/terminate.hpp>
#include <boost/outcome/try.hpp>

#include "gearbox/base/error.hpp"

namespace gearbox {

/// Either a T or an Error. Asking for the one that is not there ends the process: check first.
template <class T>
using Outcome = boost::outcome_v2::basic_result<T, Error, boost::outcome_v2::policy::terminate>;

/// What an Outcome<void> is when all went well.
inline auto done() {
  return boost::outcome_v2::success();
}

}  // namespace gearbox
