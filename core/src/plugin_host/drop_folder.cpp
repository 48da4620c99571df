#include "plugin_host/drop_folder.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>

#include "plugin_host/plugin_host.hpp"

namespace gearbox::plugin_host {

namespace fs = std::filesystem;

bool is_plugin_file_name(std::string_view name) {
  constexpr std::string_view kSuffix = ".so";
  if (name.size() <= kSuffix.size() || name.front() == '.' || name.front() == '#') return false;
  return name.substr(name.size() - kSuffix.size()) == kSuffix;
}

Outcome<void> check_trusted(const struct stat& info) {
  if (info.st_uid != 0 && info.st_uid != ::geteuid()) {
    return Error{Errc::bad_plugin,
                 "belongs to user " + std::to_string(info.st_uid) + ", neither to root nor to the broker's user"};
  }
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return Error{Errc::bad_plugin, "others may write to it; try: chmod go-w"};
  return done();
}

Outcome<std::vector<fs::path>> plugin_files(const fs::path& folder, bool must_be_trusted) {
  std::vector<fs::path> files;
  const auto failed = [&](const std::string& why) {
    return Error{Errc::bad_plugin, "plugin folder " + folder.string() + ": " + why};
  };
  struct stat info {};
  if (folder.empty() || ::stat(folder.c_str(), &info) != 0) {
    if (folder.empty() || errno == ENOENT) return files;
    return failed(std::generic_category().message(errno));
  }
  if (!S_ISDIR(info.st_mode)) return failed("is no folder");
  if (must_be_trusted) {
    if (const auto trusted = check_trusted(info); !trusted) return failed(trusted.error().detail);
  }
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    if (is_plugin_file_name(entry->path().filename().string())) files.push_back(entry->path());
  }
  if (error) return failed(error.message());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace gearbox::plugin_host
