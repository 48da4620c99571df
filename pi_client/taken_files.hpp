// taken_files.hpp: which files of a watched folder were taken and stay there, over restarts: lines of JSON in the
// spool.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "spool_item.hpp"

namespace gearbox::client {

enum class FileNow { same, other, missing };

/// How much is kept.
struct TakenBounds {
  std::size_t missing = 100'000;  // lines of files that cannot be seen now; the newest
  std::size_t rewrite = 20'000;   // lines; shorter files are not worth writing anew
};

/// Blocking; one thread.
class TakenFiles {
 public:
  /// What became of a file that was taken.
  using Look = std::function<FileNow(const SourceFile&)>;

  /// Reads `file`, of any size; lines that are cut or damaged are skipped. Then writes it anew without the files that
  /// are others by now: here, and whenever it is twice as long as what it needs. Those that cannot be seen stay, up to
  /// a bound: the folder may not be mounted. Errors: io_error, no_space.
  static Outcome<TakenFiles> open(std::filesystem::path file, Look look, TakenBounds bounds = {});

  /// The same path with the same size and time.
  bool has(const SourceFile& source) const;
  /// Durable when it returns. On an error it is remembered by this object alone. Errors: io_error, no_space.
  Outcome<void> add(const SourceFile& source);

 private:
  struct Taken {
    SourceFile source;
    std::uint64_t line = 0;  // grows: the newest have the highest
  };
  TakenFiles(std::filesystem::path file, Look look, TakenBounds bounds)
      : file_(std::move(file)), look_(std::move(look)), bounds_(bounds) {}
  Outcome<void> read();
  Outcome<void> write_anew();

  std::filesystem::path file_;
  Look look_;
  TakenBounds bounds_;
  std::map<std::string, Taken> taken_;  // by path
  std::uint64_t next_line_ = 0;
  std::size_t lines_ = 0;  // in the file
  std::size_t lived_ = 0;  // of them, when it was written anew the last time
};

}  // namespace gearbox::client
