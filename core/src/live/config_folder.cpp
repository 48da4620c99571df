#include "live/config_folder.hpp"

#include <spdlog/spdlog.h>

#include <system_error>
#include <utility>

namespace gearbox::live {

namespace fs = std::filesystem;

namespace {

bool is_config_file(const std::string& name) {
  return name.front() != '.' && fs::path(name).extension() == ".toml";
}

}  // namespace

void ConfigFolder::know(const config::Config& config) {
  for (const model::Record& record : config.models) code_files_.insert(record.file);
}

watch::Stamps ConfigFolder::stamps() const {
  const auto is_model_file = [this](const std::string& name) {
    return is_config_file(name) || (name.front() != '.' && fs::path(name).extension() == ".py") ||
           code_files_.contains(name);
  };
  return watch::stamps_of({watch::Folder{folder_, 0, is_config_file}, watch::Folder{folder_ / "tasks", 0, is_config_file},
                           watch::Folder{folder_ / "models", 1, is_model_file}});
}

ConfigFolder::Seen ConfigFolder::look(Instant now) {
  Seen seen;
  watch::Look look;
  look.stamps = stamps();
  look.writers = watch::writers_of(look.stamps, settle_.last_applied());
  look.fresh = watch::is_fresh(look.stamps, std::chrono::system_clock::now());
  const watch::Verdict verdict = settle_.look(look, now);
  if (verdict.what == watch::Verdict::What::unchanged) return seen;
  seen.what = Seen::What::wait;
  seen.look_again = verdict.look_again;
  if (verdict.what == watch::Verdict::What::wait) return seen;
  seen.config = config::load(folder_);
  // What changed while it was read was perhaps read half: it settles again first.
  if (stamps() != look.stamps) {
    seen.look_again = after(now, watch::kStill);
    return seen;
  }
  if (look.stamps.too_many && !std::exchange(told_too_many_, true)) {
    spdlog::warn("{} and the folders in it have more than {} entries: changes beyond are not seen", folder_.string(),
                 watch::kMaxEntries);
  }
  settle_.applied(std::move(look.stamps));
  if (seen.config) know(*seen.config.value());
  seen.what = Seen::What::read;
  return seen;
}

std::vector<fs::path> ConfigFolder::folders() const {
  std::vector<fs::path> all{folder_, folder_ / "tasks", folder_ / "models"};
  std::error_code error;  // a folder that is not there has nothing to watch
  for (fs::directory_iterator at(folder_ / "models", error), end; !error && at != end; at.increment(error)) {
    std::error_code unknown;
    if (at->is_directory(unknown)) all.push_back(at->path());
  }
  return all;
}

}  // namespace gearbox::live
