#include "live/config_folder.hpp"

#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <system_error>
#include <utility>

#include "gearbox/toml/document.hpp"

namespace gearbox::live {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMaxTextBytes = 4 << 20;
constexpr seconds kLongWait{10};  // then people are told

bool is_config_file(const std::string& name) {
  return name.front() != '.' && fs::path(name).extension() == ".toml";
}

}  // namespace

ConfigFolder::ConfigFolder(const config::Snapshot& first) : folder_(first->folder) {
  know(*first);
  good_ = texts_of(stamps());
}

ConfigFolder::Texts ConfigFolder::texts_of(const watch::Stamps& stamps) {
  Texts texts;
  for (const auto& [path, stamp] : stamps.entries) {
    if (path.extension() != ".toml" || !S_ISREG(stamp.mode)) continue;
    auto content = toml::read_file(path, kMaxTextBytes);
    if (content) texts.emplace(path, Text{std::move(content).value(), stamp});
  }
  return texts;
}

/// A file that was written in place and holds just the beginning of what it held before: its writer died, or the disk
/// is full, or it is a moment before the rest comes. It may well parse, and mean defaults for all that is missing.
std::string ConfigFolder::cut_file(const Texts& now) const {
  for (const auto& [path, text] : now) {
    const auto before = good_.find(path);
    if (before == good_.end()) continue;
    const watch::Stamp& was = before->second.stamp;
    if (was.inode != text.stamp.inode || was.device != text.stamp.device) continue;
    const std::string& old = before->second.content;
    if (text.content.size() >= old.size() || !std::string_view(old).starts_with(text.content)) continue;
    const auto again = cut_.find(path);
    // Saved once more with the same content: it is meant so.
    const bool meant =
        again != cut_.end() && again->second.content == text.content && again->second.stamp != text.stamp;
    if (meant) continue;
    return path.string();
  }
  return {};
}

void ConfigFolder::know(const config::Config& config) {
  for (const model::Record& record : config.models) code_files_.insert(record.file);
}

watch::Stamps ConfigFolder::stamps() const {
  const auto is_model_file = [this](const std::string& name) {
    return is_config_file(name) || (name.front() != '.' && fs::path(name).extension() == ".py") ||
           code_files_.contains(name);
  };
  return watch::stamps_of({watch::Folder{folder_, 0, is_config_file},
                           watch::Folder{folder_ / "tasks", 0, is_config_file},
                           watch::Folder{folder_ / "models", 1, is_model_file}});
}

ConfigFolder::Seen ConfigFolder::look(Instant now) {
  Seen seen;
  watch::Look look;
  look.stamps = stamps();
  look.writers = watch::writers_of(look.stamps, settle_.last_applied());
  look.fresh = watch::is_fresh(look.stamps, std::chrono::system_clock::now());
  const watch::Verdict verdict = settle_.look(look, now);
  if (look.writers != watch::Writers::some) writers_since_.reset();
  if (verdict.what == watch::Verdict::What::unchanged) return seen;
  if (look.writers == watch::Writers::some) {
    if (!writers_since_) writers_since_ = now;
    if (now - *writers_since_ > kLongWait) seen.waits_for = "a changed file is open for writing in some program";
  }
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
  Texts texts = texts_of(look.stamps);
  settle_.applied(std::move(look.stamps));
  seen.what = Seen::What::read;
  if (!seen.config) return seen;
  if (const std::string cut = cut_file(texts); !cut.empty()) {
    seen.config = Error{Errc::bad_config, cut +
                                              ": holds only the beginning of what it held before, written in place: a "
                                              "write that did not finish? Save it again if it is meant so"};
    cut_.insert_or_assign(cut, std::move(texts.at(cut)));
    return seen;
  }
  know(*seen.config.value());
  good_ = std::move(texts);
  cut_.clear();
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
