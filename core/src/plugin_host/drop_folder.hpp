// drop_folder.hpp: which files of a folder are plugins, and may they be trusted?
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <vector>

#include "gearbox/base/outcome.hpp"

namespace gearbox::plugin_host {

/// Belongs to root or to us, and neither group nor others may write to it. Errors: bad_plugin.
Outcome<void> check_trusted(const struct stat& info);

/// Files in `folder` that look like plugins, sorted by name; empty when there is no such folder.
/// Errors: bad_plugin when `folder` cannot be trusted or read.
Outcome<std::vector<std::filesystem::path>> plugin_files(const std::filesystem::path& folder, bool must_be_trusted);

}  // namespace gearbox::plugin_host
