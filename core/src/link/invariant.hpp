// invariant.hpp: ends the process when our own code broke a rule of ours; never reached by anything a peer can send.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace gearbox::link {

[[noreturn]] inline void broken_invariant(const char* what) {
  std::fprintf(stderr, "gearbox: broken invariant: %s\n", what);
  std::abort();
}

}  // namespace gearbox::link
