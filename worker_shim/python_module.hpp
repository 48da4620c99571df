// python_module.hpp: the built-in Python module _gearbox_worker, which gives models room for outputs in shared memory.
#pragma once

#include "model_host.hpp"

namespace gearbox::shim {

/// Puts the module where `import _gearbox_worker` finds it. Before Python starts.
/// Errors: internal.
Outcome<void> register_python_module();

/// Whose batches empty() serves; before the first call.
void serve_python_module(ModelHost* host);

}  // namespace gearbox::shim
