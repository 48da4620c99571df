// build_book.hpp: which builds of plugins this installation has had, and which of them are barred: one small file in
// the folder of private copies, shared by all roles of the host, the supervisor and the command line.
//
// A build is barred when it crashed or hung a process, failed too often, or was rolled back by hand. Every role looks
// at the book before it takes a build, and follows it while it runs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "gearbox/base/outcome.hpp"

namespace gearbox::plugin_host {

/// One build that once served, as it was then. Its private copy CHECKSUM.so is kept with it.
struct Build {
  std::string kind, name, version, checksum;
  std::int64_t since_unix_ms = 0;  // first taken; for people
};

struct Bar {
  std::string kind, name, version, checksum;
  std::string reason;  // "crashed node (SIGSEGV in pick)", "rolled back by hand"
  std::int64_t since_unix_ms = 0;
};

/// What the gate last said about one plugin (plugins.gate): may this build take the place of that one?
struct Ruling {
  std::string kind, name, version, checksum;  // of the build that was judged
  std::string pair;                           // which question it answers: both builds, their options, the replay
  bool passes = false;
  std::string reason;  // why not
  std::int64_t since_unix_ms = 0;
};

/// What the file says at one moment.
struct BuildBook {
  std::vector<Build> builds;  // oldest first; at most kKeptBuilds of one kind and name
  std::vector<Bar> bars;
  std::vector<Ruling> rulings;  // one for each kind and name: the last

  const Bar* bar_of(std::string_view checksum) const;
  /// The newest build of that plugin that is neither barred nor `other_than`; nullptr when there is none.
  const Build* last_good(std::string_view kind, std::string_view name, std::string_view other_than) const;
  const Ruling* ruling_on(std::string_view kind, std::string_view name) const;  // nullptr when there is none
};

inline constexpr std::size_t kKeptBuilds = 3;
inline constexpr std::size_t kMostBars = 256;  // the oldest give way

/// COPIES/book.json.
std::filesystem::path book_file(const std::filesystem::path& copies);

/// A missing file is an empty book. A damaged one (cut, zero bytes, not ours) is set aside as book.json.damaged with a
/// logged warning, and an empty book is given: bars are lost then, never service. Errors: io_error.
Outcome<BuildBook> read_book(const std::filesystem::path& copies);

/// Each of these reads, changes and writes the file under a lock (a moment; several processes may do it at once),
/// beside and renamed into place, and gives back what was written. Errors: io_error, no_space.
Outcome<BuildBook> note_build(const std::filesystem::path& copies, const Build& build);  // moves a known one to the end
Outcome<BuildBook> bar(const std::filesystem::path& copies, const Bar& bar);             // a second bar of one checksum
                                                                                         // changes nothing
Outcome<BuildBook> note_ruling(const std::filesystem::path& copies, const Ruling& ruling);  // in the last one's place
/// Takes away all bars of the plugins called `name`, and what the gate has against them; `kind` empty: of any kind.
/// `released`: how many there were.
Outcome<BuildBook> release(const std::filesystem::path& copies, std::string_view kind, std::string_view name,
                           std::size_t& released);

}  // namespace gearbox::plugin_host
