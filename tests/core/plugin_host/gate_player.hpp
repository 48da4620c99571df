// gate_player.hpp: plays `broker replay record` and `broker replay gate --child` for tests: what is to happen stands in
// the file that is given as the cluster.
#pragma once

namespace gearbox::plugin_host {

/// `arguments` begin with "replay". Returns the exit code.
int play_replay(int count, char** arguments);

}  // namespace gearbox::plugin_host
