// compare.hpp: what changed between two configurations, key by key, and can it change while the broker runs?
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/config.hpp"
#include "config/values_of.hpp"

namespace gearbox::config {

struct Change {
  std::string key;
  std::string before, after;  // empty: absent, or an empty text
  bool needs_restart = false;
};

/// The settings that differ, in the order of values_of(after), those that are gone last. Comments, blanks and the order
/// of tables are no difference.
std::vector<Change> compare(const Config& before, const Config& after);
std::vector<Change> compare(const std::vector<Value>& before, const std::vector<Value>& after);

/// Is this a key that only a restart changes?
bool needs_restart(std::string_view key);

/// "node.listen: tcp://a:1 -> tcp://a:2 needs a restart of the broker; nothing of this change is applied": names each
/// such key; empty when there is none. Escaped: fit for a log line.
std::string restart_fault(const std::vector<Change>& changes);

/// The same for a log, one line each, escaped: "node.listen: tcp://a:1 -> tcp://a:2"; an environment, worker table,
/// task or model that comes or goes is one line, "model echo@2: added". `sections`: of these ("node", "model") only.
std::vector<std::string> lines_of(const Config& before, const Config& after,
                                  const std::vector<std::string_view>& sections);

/// "node.listen: tcp://a:1 -> tcp://a:2": one change for a log line, escaped; "(none)" for what is absent.
std::string shown(const Change& change);

}  // namespace gearbox::config
