// central_dialler.hpp: finds a central that answers: this host's own, or the configured ones in turn.
#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

#include "config/central_places.hpp"
#include "node/central_link.hpp"
#include "plugin_host/plugin_host.hpp"

namespace gearbox::node {

/// Knows what the configuration said at the start: those keys never change while the node lives. One thread at a time.
class CentralDialler {
 public:
  /// `own_socket`: the control socket of this host's central, which tells its address and key where they are left out.
  CentralDialler(std::filesystem::path own_socket, const config::NodeConfig& config);

  /// See CentralLink::Setup::dial. Errors: of the last one tried: unreachable, timeout; bad_frame (this host's central
  /// tells nothing usable).
  Outcome<CentralLink::Dialled> dial(plugin_host::PluginHost& plugins, milliseconds within, bool another);

 private:
  Outcome<CentralLink::Dialled> dial_one(plugin_host::PluginHost& plugins, config::CentralPlace place,
                                         milliseconds within) const;
  std::filesystem::path own_socket_;
  std::vector<config::CentralPlace> places_;  // at least one; what is left out of it is empty
  std::size_t turn_ = 0;                      // the place that connected last
};

/// The channel keys of the centrals that this node reports to. `own_key`: the key file of this host's central, whose
/// key it is where the configuration names none; while that file cannot be read, no key stands for it.
std::vector<CentralKey> central_keys(const config::NodeConfig& config, const std::filesystem::path& own_key);

}  // namespace gearbox::node
