// doctor: nodes that [gears] names, and whether central knows them; only where central's accounts are on this host.
#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "central/accounts.hpp"
#include "central/accounts_place.hpp"
#include "cli/doctor_checks.hpp"

namespace gearbox::cli {

std::vector<Finding> check_gear_hosts(const config::Config& config, const config::StateDir& state) {
  std::vector<Finding> out;
  if (!config.gears.hosts.empty() && !config.gears.enabled) {
    out.push_back({"gears.hosts", Verdict::warn, "names nodes, but no scheduler runs here",
                   "set gears.enabled, or take gears.hosts out"});
  }
  std::vector<std::string> named = config.gears.hosts;
  named.insert(named.end(), config.gears.leaders.begin(), config.gears.leaders.end());
  std::sort(named.begin(), named.end());
  named.erase(std::unique(named.begin(), named.end()), named.end());
  std::erase(named, config.node.name);
  const central::AccountsPlace place = central::accounts_place(state, config.central);
  std::error_code unknown;
  if (named.empty() || !config.central.enabled) return out;
  if (place.is_shared() || !std::filesystem::exists(state.central_db(), unknown)) return out;
  const auto accounts = central::Accounts::open(place, central::OnDamage::refuse);
  if (!accounts) return out;  // other commands say so, with better words
  const auto nodes = accounts.value()->nodes();
  if (!nodes) return out;
  for (const std::string& name : named) {
    const bool known = std::any_of(nodes.value().begin(), nodes.value().end(),
                                   [&](const central::NodeEntry& node) { return node.name == name && !node.removed; });
    if (known) continue;
    out.push_back({"gears.hosts", Verdict::warn, "central knows no node '" + name + "', which [gears] names",
                   "add it: broker nodes add " + name + " KEY, or correct gears.hosts and gears.leaders"});
  }
  return out;
}

}  // namespace gearbox::cli
