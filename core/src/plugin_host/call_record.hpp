// call_record.hpp: "now calling": a small file that a role maps and writes into around each call of a plugin, so that
// whoever finds the role dead or stuck knows which build it was in.
//
// The role owns the file (run/ROLE.calling) and writes; the supervisor reads. Places are claimed for one call each,
// without a lock. A name in it is a hint for the supervisor, which bars a build for it; the role that lies harms
// itself.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gearbox/base/clock.hpp"
#include "gearbox/base/outcome.hpp"

namespace gearbox::plugin_host {

inline constexpr std::size_t kCallPlaces = 32;  // calls at once; more go unrecorded

/// What a place says of its call.
struct CallBeing {
  std::string kind, name, version, checksum;
  std::string function;   // "pick"
  Instant begun{};        // the monotonic clock is one for all processes of a host
  Instant hung_after{};   // a call that is still under way then is taken for hung; Instant::max(): never
  std::size_t place = 0;  // with `turn`: two looks that show the same pair show the same call
  std::uint64_t turn = 0;
};

/// The writing side. Threads: any, at once. Kept alive by all guards that use it.
class CallRecord {
 public:
  /// Makes `file` anew (0600), sized and pre-faulted. The destructor removes it, unless another record took its place.
  /// Errors: io_error, no_space.
  static Outcome<std::shared_ptr<CallRecord>> create(const std::filesystem::path& file);
  /// A record that nobody reads: for the check's child, for tests and command lines.
  static std::shared_ptr<CallRecord> unrecorded();
  ~CallRecord();
  CallRecord(const CallRecord&) = delete;
  CallRecord& operator=(const CallRecord&) = delete;

  /// The build as it will stand in the record, prepared once for each library.
  struct Label {
    std::array<char, 32> kind{}, version{};
    std::array<char, 64> name{};
    std::array<char, 64> checksum{};  // hex, without a zero
  };
  static Label label(std::string_view kind, std::string_view name, std::string_view version, std::string_view checksum);

  /// One call, from construction to destruction. A few stores, no system call.
  class Mark {
   public:
    /// `function`: a literal.
    Mark(CallRecord& record, const Label& label, const char* function, Instant begun, Instant hung_after);
    ~Mark();
    Mark(const Mark&) = delete;
    Mark& operator=(const Mark&) = delete;

   private:
    CallRecord& record_;
    std::size_t place_;  // kCallPlaces: none was free
  };

 private:
  struct Shared;
  CallRecord() = default;
  Shared* shared_ = nullptr;  // null: unrecorded
  std::filesystem::path file_;
  std::uint64_t inode_ = 0;
};

/// The reading side: the calls under way as `file` shows them, the last begun first. A call that ends while it is read
/// is left out. Errors: not_found; corrupt_data for a file that is none (cut, another layout).
Outcome<std::vector<CallBeing>> calls_under_way(const std::filesystem::path& file);

}  // namespace gearbox::plugin_host
