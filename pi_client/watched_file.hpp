// watched_file.hpp: one file of a watched folder: who writes to it, whether it is still the one that was read, and how
// it leaves the folder without taking another one along.
//
// Between reading a picture and removing it, its name may have come to mean another file. So it gets a hidden name
// first, is compared then, and goes back when it is not what was read.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "durable.hpp"
#include "spool_item.hpp"
#include "spool_options.hpp"

namespace gearbox::client {

/// Names under which other programs write what is not finished, and names that hide.
bool is_passed_over(const std::string& name);

/// A file as it was at one look.
struct Stand {
  SourceFile source;
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  bool operator==(const Stand&) const = default;
};

/// None: it is not there, or no regular file. Links are not followed: removing one would not remove the picture.
std::optional<Stand> stand_of(const std::filesystem::path& path);

enum class Writers { none, some, unknown };

/// A read lease, which nobody gets beside a writer; held until the end of this object.
class ReadLease {
 public:
  explicit ReadLease(const std::filesystem::path& path);
  /// unknown: nobody can say: a file of another user, a file system whose leases tell nothing of other machines.
  Writers writers() const { return writers_; }

 private:
  Descriptor file_;
  Writers writers_ = Writers::unknown;
};

/// Whether a refused lease tells of a writer on a file system of this type (statfs(2)).
bool leases_tell(std::int64_t file_system);

enum class Gone {
  gone,     // deleted or moved; its folders are not synced yet
  changed,  // another file, or it was written to: it is there as it is now
  hidden,   // as before, and under a hidden name, since its own was taken meanwhile
  failed,   // it is there as it was; errno says why
};

/// Deletes `path` or moves it into `options.move_to`, if it is still the file `read`. Blocking.
Gone put_away(const std::filesystem::path& path, const Stand& read, const WatchOptions& options);

/// The name that a file had before it was hidden by put_away(); empty: it was not.
std::string name_before_hiding(const std::string& hidden);

/// Gives a file that put_away() hid its own name back. False: that is taken, or it cannot be done now.
bool unhide(const std::filesystem::path& hidden);

/// put_away() for one that is hidden already: a process died in between.
Gone put_away_hidden(const std::filesystem::path& hidden, const Stand& read, const WatchOptions& options);

}  // namespace gearbox::client
