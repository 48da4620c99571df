// private_copy.hpp: a plugin's file as it was once, in a folder of ours: what happens to the original cannot reach
// running code.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "gearbox/base/bytes.hpp"
#include "gearbox/base/outcome.hpp"

namespace gearbox::plugin_host {

inline constexpr std::size_t kMaxPluginBytes = 256 << 20;

/// In use as long as it lives, also in the eyes of other processes (a shared lock on the file).
class PrivateCopy {
 public:
  /// Copies `original` to `folder`/CHECKSUM.so, mode 0600, unless it is there already. Errors: bad_plugin (cannot be
  /// read, no regular file, too large, or others may write to it); io_error (the copy cannot be made).
  static Outcome<PrivateCopy> make(const std::filesystem::path& original, const std::filesystem::path& folder);
  /// The copy that is there already under that name. Errors: bad_plugin when there is none or it holds something else.
  static Outcome<PrivateCopy> reopen(const std::string& checksum, const std::filesystem::path& folder);
  PrivateCopy(PrivateCopy&& other) noexcept;
  PrivateCopy& operator=(PrivateCopy&&) = delete;
  ~PrivateCopy();

  const std::filesystem::path& path() const { return path_; }
  /// BLAKE2b-256 of the content, hex.
  const std::string& checksum() const { return checksum_; }

 private:
  PrivateCopy(int descriptor, std::filesystem::path path, std::string checksum);
  int descriptor_;
  std::filesystem::path path_;
  std::string checksum_;
};

/// Makes `folder`, 0700. Errors: io_error, also when it belongs to somebody else or others may write to it.
Outcome<void> open_copies_folder(const std::filesystem::path& folder);

/// Removes copies and half-made copies that no process uses, except those of `kept` checksums.
void remove_unused_copies(const std::filesystem::path& folder, const std::vector<std::string>& kept = {});

}  // namespace gearbox::plugin_host
