// readiness.hpp: what a role's own status answer says about being ready, as one line for people.
#pragma once

#include <string>
#include <string_view>

#include "gearbox/base/outcome.hpp"

namespace gearbox::supervisor {

struct Readiness {
  bool ready = false;  // as the role says: for a node after a real round trip through each model
  std::string line;    // "node ready at tcp://...: tasks read-text (ppocr-det 1 worker, ppocr-rec 1 worker)"
};

/// Reads the status JSON of `role`. Errors: bad_frame when it is no such object.
Outcome<Readiness> read_readiness(std::string_view role, std::string_view status_json);

}  // namespace gearbox::supervisor
