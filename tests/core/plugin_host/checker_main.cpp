// What `broker plugins check --child FILE` does, without the rest of the broker; and a replay as tests want it.
#include <cstdio>
#include <cstring>

#include "core/plugin_host/gate_player.hpp"
#include "plugin_host/check_child.hpp"

int main(int count, char** arguments) {
  using gearbox::plugin_host::kChildArguments;
  if (count > 2 && std::strcmp(arguments[1], "replay") == 0)
    return gearbox::plugin_host::play_replay(count - 1, arguments + 1);
  if (count != 5) return 2;
  for (std::size_t i = 0; i < kChildArguments.size(); ++i) {
    if (std::strcmp(arguments[i + 1], kChildArguments[i]) != 0) return 2;
  }
  return gearbox::plugin_host::check_child_main(arguments[4]);
}
