// gate_folder.hpp: two small configurations that `broker replay gate` compares: the plugins of a swap as they were
// checked, with their options and the rules of [gears].
#pragma once

#include <filesystem>
#include <string>

#include "gearbox/base/outcome.hpp"
#include "plugin_host/swap_gate.hpp"

namespace gearbox::plugin_host {

/// Removed with all that is in it; so is what an earlier process of the same role left.
class GateFolder {
 public:
  explicit GateFolder(const HostPaths& paths);
  ~GateFolder();
  GateFolder(const GateFolder&) = delete;
  GateFolder& operator=(const GateFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Makes candidate/, against/ and tmp/, 0700. Errors: io_error.
  Outcome<void> fill(const Swap& swap, const std::filesystem::path& copies) const;

 private:
  std::filesystem::path path_;
};

/// gearbox.toml of one side.
std::string gate_config_text(const Swap& swap, const SwapPart& side);

/// One "key = value" of TOML in each line.
std::string options_text(const Given& options);

}  // namespace gearbox::plugin_host
