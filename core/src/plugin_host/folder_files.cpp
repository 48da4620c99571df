#include "plugin_host/folder_files.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <set>

#include "gearbox/base/text.hpp"
#include "plugin_host/drop_folder.hpp"
#include "plugin_host/manifest.hpp"

namespace gearbox::plugin_host {

namespace fs = std::filesystem;

namespace {

constexpr milliseconds kFirstRetry{1'000};
constexpr milliseconds kLongestRetry{60'000};

/// The stamps of a library and of what lies beside it.
watch::Stamps part_of(const watch::Stamps& folder, const fs::path& library) {
  watch::Stamps part;
  for (const fs::path& path : {library, manifest_of(library), signature_of(library)}) {
    const auto found = folder.entries.find(path);
    if (found != folder.entries.end()) part.entries.insert(*found);
  }
  return part;
}

}  // namespace

Outcome<Instant> FolderFiles::look(Instant now, bool first, const Load& load) {
  BOOST_OUTCOME_TRY(const auto listed, plugin_files(folder_, !shipped_));
  const watch::Stamps stamps = watch::stamps_of({watch::Folder{folder_, 0, {}}});
  const auto wall = std::chrono::system_clock::now();
  for (const fs::path& path : listed) files_.try_emplace(path).first->second.path = path;
  Instant look_again = Instant::max();
  for (auto at = files_.begin(); at != files_.end();) {
    File& file = at->second;
    watch::Look seen;
    seen.stamps = part_of(stamps, file.path);
    const bool there = std::find(listed.begin(), listed.end(), file.path) != listed.end();
    if (first) {
      file.settle.applied(seen.stamps);
      take(file, load);
      ++at;
      continue;
    }
    if (!there && file.settle.last_applied().entries.empty()) {  // it was no file, and is gone: nothing has to settle
      at = files_.erase(at);
      continue;
    }
    seen.writers = watch::writers_of(seen.stamps, file.settle.last_applied());
    seen.fresh = watch::is_fresh(seen.stamps, wall);
    const watch::Verdict verdict = file.settle.look(seen, now);
    if (verdict.what == watch::Verdict::What::wait) look_again = std::min(look_again, verdict.look_again);
    if (verdict.what != watch::Verdict::What::settled) {
      if (file.retry_at <= now) take(file, load);
      look_again = std::min(look_again, file.retry_at);
      ++at;
      continue;
    }
    if (!there) {
      at = files_.erase(at);
      continue;
    }
    file.settle.applied(std::move(seen.stamps));
    take(file, load);
    ++at;
  }
  return look_again;
}

void FolderFiles::again(const std::function<bool(const File&)>& wanted, const Load& load) {
  for (auto& [path, file] : files_) {
    if (wanted(file)) take(file, load);
  }
}

void FolderFiles::take(File& file, const Load& load) const {
  PluginInfo told;
  Outcome<BuildPtr> loaded = load(file.path, told);
  file.retry_at = Instant::max();
  if (loaded) {
    file.retry_pause = milliseconds{0};
    file.good = std::move(loaded).value();
    file.bad.reset();
    return;
  }
  if (told.may_pass) {
    file.retry_pause = std::clamp(file.retry_pause * 2, kFirstRetry, kLongestRetry);
    file.retry_at = after(Clock::now(), file.retry_pause);
  }
  const bool known = file.bad && file.bad->checksum == told.checksum && file.bad->reason == told.reason;
  if (!known) {
    spdlog::warn("plugin {} file={} checksum={} reason=\"{}\"{}", told.state, escaped(file.path.string()),
                 told.checksum.substr(0, 12), told.reason,
                 file.good ? "; version " + file.good->info.version + " of it stays" : std::string());
  }
  file.bad = std::move(told);
}

}  // namespace gearbox::plugin_host
