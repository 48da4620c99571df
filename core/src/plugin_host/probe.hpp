// probe.hpp: a few calls of a new plugin, in the child, before it may serve: does it keep the simplest parts of its
// contract?
#pragma once

#include "gearbox/base/outcome.hpp"
#include "plugin_host/library.hpp"

namespace gearbox::plugin_host {

/// Makes an object with the default options, tries it, destroys it. Errors: bad_plugin, with what it did.
Outcome<void> probe(const std::shared_ptr<Library>& library);

}  // namespace gearbox::plugin_host
