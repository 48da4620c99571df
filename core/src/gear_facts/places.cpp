#include "gear_facts/places.hpp"

#include <algorithm>
#include <system_error>

#include "gearbox/base/text.hpp"

namespace gearbox::gear_facts {

namespace fs = std::filesystem;

fs::path group_socket(const config::StateDir& state, const std::string& group) {
  return state.groups() / (group + ".sock");
}

GroupNames find_groups(const config::StateDir& state) {
  GroupNames found;
  std::error_code error;
  for (fs::directory_iterator at(state.groups(), error), end; !error && at != end; at.increment(error)) {
    const fs::path& file = at->path();
    std::error_code gone;
    if (file.extension() != ".sock" || !fs::is_socket(at->symlink_status(gone)) || gone) continue;
    const std::string name = file.stem().string();
    if (is_name(name)) found.names.push_back(name);
  }
  std::sort(found.names.begin(), found.names.end());
  if (found.names.size() > kMostGroups) {
    found.left_out = found.names.size() - kMostGroups;
    found.names.resize(kMostGroups);
  }
  return found;
}

}  // namespace gearbox::gear_facts
