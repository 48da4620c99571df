// taken_files.hpp: which files of a watched folder were taken and stay there, over restarts: lines of JSON in the
// spool.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "spool_item.hpp"

namespace gearbox::client {

/// Blocking; one thread.
class TakenFiles {
 public:
  /// Reads `file`; lines that are cut or damaged are skipped. Then writes it anew with those for which `still_there`
  /// holds, so that it does not grow for ever. Errors: io_error, no_space.
  static Outcome<TakenFiles> open(std::filesystem::path file,
                                  const std::function<bool(const SourceFile&)>& still_there);

  /// The same path with the same size and time.
  bool has(const SourceFile& source) const;
  /// Durable when it returns. On an error it is remembered by this object alone. Errors: io_error, no_space.
  Outcome<void> add(const SourceFile& source);

 private:
  explicit TakenFiles(std::filesystem::path file) : file_(std::move(file)) {}
  std::filesystem::path file_;
  std::map<std::string, SourceFile> taken_;  // by path
};

}  // namespace gearbox::client
