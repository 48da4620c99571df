// digest.hpp: XXH3-128 over several files, to tell versions of a model or a configuration apart. It guards against
// mistakes, never against intent. (The digest of an upload is link/upload.hpp's.)
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace gearbox::model {

/// Fed piece by piece. Pieces are framed by their length, so that ("ab", "c") and ("a", "bc") differ.
class FilesDigest {
 public:
  FilesDigest();
  ~FilesDigest();
  FilesDigest(const FilesDigest&) = delete;
  FilesDigest& operator=(const FilesDigest&) = delete;
  void add(std::string_view piece);
  /// Canonical form, 32 lower-case hexadecimal digits.
  std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gearbox::model
