// resolve.hpp: which build serves under which name, of all that is there: a dropped file goes before a shipped one, a
// barred build gives way to the last good one, and what a role needs is not taken away.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "plugin_host/folder_files.hpp"

namespace gearbox::plugin_host {

struct Chosen {
  BuildPtr build;
  std::string reason;  // why it serves although its file does not say so; empty as a rule
};
using PluginKey = std::pair<std::string, std::string>;  // kind, name

struct Resolved {
  std::map<PluginKey, Chosen> serving;
  std::vector<PluginInfo> others;  // refused, barred and shadowed files
};

struct ResolveInput {
  FolderFiles* shipped = nullptr;
  FolderFiles* dropped = nullptr;
  const BuildBook* book = nullptr;
  const Needs* needs = nullptr;
  std::map<PluginKey, BuildPtr> in_force;
  std::function<Outcome<BuildPtr>(const Build&)> reload;
};

Resolved resolve(const ResolveInput& input);

}  // namespace gearbox::plugin_host
