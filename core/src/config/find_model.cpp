#include "config/config.hpp"
#include "config/versions.hpp"

namespace gearbox::config {

const model::Record* find_model(const Config& config, std::string_view model, std::string_view asked) {
  const model::Record* found = nullptr;
  for (const model::Record& record : config.models) {
    if (record.name != model || !admits(asked, record.version)) continue;
    if (found == nullptr || compare_versions(record.version, found->version) > 0) found = &record;
  }
  return found;
}

}  // namespace gearbox::config
