// files.hpp: has a folder changed? Told from what the file system says of each file, without reading one.
//
// No single field is enough: an unpacked archive brings older time stamps, a swapped symbolic link another inode, an
// edit in place the same inode, and `touch -d` sets times back; a change time (ctime) is the kernel's own. So all are
// compared, and any difference counts. What the files say is not looked at: whoever reads them compares that.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace gearbox::watch {

inline constexpr std::size_t kMaxEntries = 16'384;  // of one set of folders; what is beyond them is not watched

/// What the file system says of one file or folder, through symbolic links. Of a folder and of what is neither file nor
/// folder only identity, mode and owner are kept: their times change when others use them.
struct Stamp {
  std::uint64_t device = 0, inode = 0;
  std::uint64_t size_bytes = 0;
  std::int64_t mtime_ns = 0, ctime_ns = 0;  // since 1970; the wall clock's
  std::uint32_t mode = 0;                   // st_mode: type and rights
  std::uint32_t uid = 0;
  int fault = 0;  // errno: it is listed, but stat() fails (a link that leads nowhere)
  bool operator==(const Stamp&) const = default;
};

/// A set of folders and files at one moment. Two are equal when nothing changed in between.
struct Stamps {
  std::map<std::filesystem::path, Stamp> entries;  // by the path given, links not resolved; folders are among them
  bool too_many = false;                           // kMaxEntries were there; the rest is not in it
  bool operator==(const Stamps&) const = default;
};

struct Folder {
  std::filesystem::path path;                             // may be missing; may be a symbolic link
  unsigned depth = 0;                                     // 0: its files; 1: those of its folders as well
  std::function<bool(const std::string& name)> wanted{};  // of a file's name, at any depth; none: all
};

/// Looks at each folder now. Hidden folders below (".git", "..data") are left out. Never fails: what cannot be read is
/// not there. Any thread.
Stamps stamps_of(const std::vector<Folder>& folders);

/// Is something that was in `before` gone, or now a link that leads nowhere?
bool vanished(const Stamps& before, const Stamps& now);

/// Does a file differ that is the same one as in `before` (device and inode)? It was not renamed into place.
bool written_in_place(const Stamps& before, const Stamps& now);

/// Is a file's time within 50 ms of `wall`? Then a second change could bear the same stamps as the first: look again
/// when it has aged.
bool is_fresh(const Stamps& stamps, std::chrono::system_clock::time_point wall);

/// Does anybody have a file open for writing?
enum class Writers {
  none,
  some,
  unknown,  // the file is another user's, or its file system has no leases
};

/// Asks for a read lease, which nobody gets beside a writer, and gives it back at once; a writer that comes in between
/// waits for that long only. Any thread.
Writers writers_of(const std::filesystem::path& file);

/// The same of each file in `now` that is not as it was in `before`: some before unknown before none.
Writers writers_of(const Stamps& now, const Stamps& before);

inline bool is_being_written(const std::filesystem::path& file) {
  return writers_of(file) == Writers::some;
}

}  // namespace gearbox::watch
