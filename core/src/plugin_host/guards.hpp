// guards.hpp: plugin objects as the rest of the broker sees them: no throw comes out, no answer outside the contract
// goes on.
#pragma once

#include <memory>

#include "plugin_host/library.hpp"

namespace gearbox::plugin_host {

/// Each keeps `library` open for as long as it lives; faults are counted there.
std::shared_ptr<plugin::Balancer> guarded(std::shared_ptr<Library> library, std::unique_ptr<plugin::Balancer> inner);
std::shared_ptr<plugin::Codec> guarded(std::shared_ptr<Library> library, std::unique_ptr<plugin::Codec> inner);
std::shared_ptr<plugin::Transport> guarded(std::shared_ptr<Library> library, std::unique_ptr<plugin::Transport> inner);
std::shared_ptr<plugin::Sink> guarded(std::shared_ptr<Library> library, std::unique_ptr<plugin::Sink> inner);
std::shared_ptr<plugin::Coordination> guarded(std::shared_ptr<Library> library,
                                              std::unique_ptr<plugin::Coordination> inner);
std::shared_ptr<plugin::GearPolicy> guarded(std::shared_ptr<Library> library,
                                            std::unique_ptr<plugin::GearPolicy> inner);

}  // namespace gearbox::plugin_host
