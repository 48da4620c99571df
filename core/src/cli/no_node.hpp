// no_node.hpp: the one way to say that a command needs a node and there is none.
#pragma once

#include <string>

#include "gearbox/base/outcome.hpp"

namespace gearbox::cli {

/// `error` of a question to the node's control socket, with words for people. `lost`: what that means, if anything.
inline Error from_node(const Error& error, const std::string& lost = {}) {
  if (error.code != Errc::unreachable) return Error{error.code, "the node: " + error.detail};
  return Error{Errc::unreachable, "no node runs here" + lost + " (" + error.detail + ")"};
}

}  // namespace gearbox::cli
