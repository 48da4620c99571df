#include <algorithm>
#include <system_error>

#include "config/config.hpp"
#include "config/reading.hpp"
#include "config/versions.hpp"
#include "gearbox/base/text.hpp"
#include "model/digest.hpp"

namespace gearbox::config {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMaxFilesOfAKind = 1024;

/// Names in `folder`, sorted, without hidden ones (editors' files, "..data" of mounted volumes). A missing folder is an
/// empty one.
std::vector<std::string> names_in(const fs::path& folder, toml::Faults& faults) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  if (error == std::errc::no_such_file_or_directory) return names;
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (name.front() == '.' || name.back() == '~') continue;
    names.push_back(std::move(name));
    if (names.size() > kMaxFilesOfAKind) {
      faults.add(folder.string(), 0, 0, {}, "has more than " + std::to_string(kMaxFilesOfAKind) + " entries");
      break;
    }
  }
  if (error) faults.add(folder.string(), 0, 0, {}, error.message());
  std::sort(names.begin(), names.end());
  return names;
}

void load_models(Config& config, toml::Faults& faults, model::FilesDigest& digest) {
  const fs::path folder = config.folder / "models";
  for (const std::string& name : names_in(folder, faults)) {
    std::error_code error;
    if (!fs::is_directory(folder / name, error)) continue;  // a README beside the models
    Outcome<model::Record> record = model::read_record(folder / name);
    if (!record) {
      faults.add_told(record.error());
      continue;
    }
    digest.add("models/" + name);
    digest.add(record.value().digest);
    const auto twin = std::find_if(config.models.begin(), config.models.end(), [&](const model::Record& other) {
      return other.name == record.value().name && other.version == record.value().version;
    });
    if (twin != config.models.end()) {
      faults.add((folder / name / "model.toml").string(), 0, 0, "version",
                 "model " + twin->name + " " + twin->version + " is in " + twin->folder.string() + " as well");
    }
    config.models.push_back(std::move(record).value());
  }
  std::sort(config.models.begin(), config.models.end(), [](const model::Record& a, const model::Record& b) {
    return a.name != b.name ? a.name < b.name : compare_versions(a.version, b.version) < 0;
  });
}

void load_tasks(Config& config, toml::Faults& faults, model::FilesDigest& digest) {
  const fs::path folder = config.folder / "tasks";
  for (const std::string& file : names_in(folder, faults)) {
    if (fs::path(file).extension() != ".toml") continue;
    const std::string shown = (folder / file).string();
    const std::string stem = fs::path(file).stem().string();
    if (!is_name(stem)) {
      faults.add(shown, 0, 0, {}, "the file's name is no name of a task: 1 to 64 of A-Z a-z 0-9 . _ - are allowed");
      continue;
    }
    const auto document = toml::Document::read(folder / file, shown, faults);
    if (!document) continue;
    digest.add("tasks/" + file);
    digest.add(document->text());
    read_task(*document, stem, config);
  }
}

}  // namespace

Outcome<Snapshot> load(const fs::path& folder) {
  toml::Faults faults;
  auto config = std::make_shared<Config>();
  std::error_code error;
  config->folder = fs::absolute(folder, error).lexically_normal();
  if (error || !fs::is_directory(config->folder, error)) {
    faults.add(folder.string(), 0, 0, {}, "is no folder");
    return faults.error();
  }
  config->plugins.folder = config->folder / "plugins";
  model::FilesDigest digest;
  load_models(*config, faults, digest);
  const fs::path main_file = config->folder / "gearbox.toml";
  const auto document = toml::Document::read(main_file, main_file.string(), faults);
  if (document) {
    digest.add("gearbox.toml");
    digest.add(document->text());
    read_main(*document, *config);
  }
  load_tasks(*config, faults, digest);
  if (document) check_sinks(*document, *config);
  if (!faults.empty()) return faults.error();
  config->digest = digest.hex();
  return Snapshot(std::move(config));
}

}  // namespace gearbox::config
