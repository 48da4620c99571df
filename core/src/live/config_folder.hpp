// config_folder.hpp: the configuration's files as they change, up to a new snapshot that is valid.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "watch/settle.hpp"

namespace gearbox::live {

/// One thread.
class ConfigFolder {
 public:
  /// `first`: what was read at the start.
  explicit ConfigFolder(const config::Snapshot& first);

  struct Seen {
    enum class What { nothing, wait, read } what = What::nothing;
    Instant look_again = Instant::max();
    Outcome<config::Snapshot> config = Error{};  // when read: the snapshot, or all faults
    std::string waits_for;                       // what has held a change up for long; empty: nothing
  };
  /// `read` only when the files differ from those read last, have settled, and kept still while they were read.
  Seen look(Instant now);

  /// The folders that tell of a change.
  std::vector<std::filesystem::path> folders() const;

 private:
  /// A text as it was read, and where it lay.
  struct Text {
    std::string content;
    watch::Stamp stamp;
  };
  using Texts = std::map<std::filesystem::path, Text>;
  watch::Stamps stamps() const;
  void know(const config::Config& config);
  static Texts texts_of(const watch::Stamps& stamps);
  std::string cut_file(const Texts& now) const;
  std::filesystem::path folder_;
  /// The code files that records name. What else lies in a model's folder (weights, what the model itself writes) is no
  /// part of the configuration: a cache that is always being written must not hold off every reload.
  std::set<std::string> code_files_;
  Texts good_;  // of the files that were valid last
  Texts cut_;   // that were refused as cut: the same again is meant
  bool told_too_many_ = false;
  std::optional<Instant> writers_since_;  // somebody has a changed file open for writing
  watch::Settle settle_;
};

}  // namespace gearbox::live
