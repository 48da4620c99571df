// swap_keeper.hpp: plugins.gate among what resolve() chose: a build that would take another one's place waits outside
// until the gate has let it through, and what serves stays.
//
// Of the roles that use one plugin one judges, the first in GateConfig::uses; the others follow its ruling in the book
// of builds. A configuration that names another plugin, or gives it other options, is judged by each role that uses it.
// Not gated: what takes the place of a barred build, since that must go, and a plugin that nothing uses.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "plugin_host/resolve.hpp"
#include "plugin_host/swap_gate.hpp"

namespace gearbox::plugin_host {

struct InForce {
  BuildPtr build;
  Given options;
};

/// The looking thread's.
class SwapKeeper {
 public:
  SwapKeeper(const HostPaths& paths, std::function<void()> ended)
      : copies_(paths.copies), gate_(paths, std::move(ended)) {}
  void interrupt() { gate_.interrupt(); }

  struct Input {
    const config::PluginsConfig* config = nullptr;
    bool is_new = false;  // `config` is not in force yet
    const Needs* needs = nullptr;
    const Needs* needs_before = nullptr;    // those in force
    std::map<PluginKey, InForce> in_force;  // empty at a start: then what served last goes for it
    std::function<Outcome<BuildPtr>(const Build&)> reload;
  };
  /// Changes `resolved`, and `book` by what was ruled. `look_again` is made earlier when something has to be tried
  /// again. Errors: bad_config: what `config` alone changes is refused, or not judged yet.
  Outcome<void> apply(const Input& input, BuildBook& book, Resolved& resolved, Instant& look_again);

 private:
  using Standing = SwapGate::Standing;
  struct Case;
  Outcome<void> look_at(const Case& at, Resolved& resolved);
  bool find_served(const Case& at, const BuildPtr& candidate, InForce& served);
  Standing judge(const Case& at, const SwapPart& candidate, const SwapPart& against);
  Standing follow(const Case& at, const SwapPart& candidate) const;
  void rule(const Case& at, const SwapPart& candidate, const SwapPart& against, const std::string& pair,
            const Standing& standing);
  void say(const std::string& about, const std::string& line, bool warns);

  std::filesystem::path copies_;
  SwapGate gate_;
  std::map<std::string, std::string> told_;  // logged last, by what it is about
};

}  // namespace gearbox::plugin_host
