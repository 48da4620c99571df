// arena.hpp: memory that is passed between processes as a descriptor, and its mappings. It has no name, so nothing is
// left behind however its holders end. All of it is claimed when it is made: too little memory is an error then, never
// a SIGBUS.
#pragma once

#include <boost/interprocess/mapped_region.hpp>

#include <cstdint>
#include <string>

#include "gearbox/base/bytes.hpp"
#include "gearbox/base/outcome.hpp"
#include "gearbox/shm/fd.hpp"

namespace gearbox::shm {

/// Makes `bytes` of zeroed memory (a memfd, rounded up to whole pages), allocated and sealed against shrinking and
/// growing. `label` is seen in /proc/PID/maps. Errors: no_space, with what was wanted and what there is; io_error.
Outcome<Fd> create_memory(const std::string& label, std::uint64_t bytes);

/// The same memory through a descriptor that cannot be mapped writable. Errors: io_error.
Outcome<Fd> reopen_read_only(const Fd& memory);

/// No process, not even the one that holds the writable descriptor, can map it writable from here on; mappings that
/// exist stay. False where the kernel does not know that seal (before 5.1).
bool forbid_new_writers(const Fd& memory);

/// How much memory a new arena may take: the machine's available memory or what the control groups leave, whichever is
/// less.
std::uint64_t available_memory();

enum class Access { read_only, read_write };

/// A whole memory mapped into this process, pre-faulted.
class Mapping {
 public:
  Mapping() = default;
  /// `bytes` as the other side said. Errors: bad_frame when the memory is smaller or could be shrunk under us;
  /// no_space.
  static Outcome<Mapping> map(const Fd& memory, std::uint64_t bytes, Access access);

  std::byte* data() const { return static_cast<std::byte*>(region_.get_address()); }
  std::uint64_t size() const { return region_.get_size(); }
  ByteSpan bytes() const { return {data(), region_.get_size()}; }
  ByteView view() const { return {data(), region_.get_size()}; }
  /// A child that this process forks does not inherit the mapping, so it cannot outlive us in it.
  void hide_from_children() const;

 private:
  boost::interprocess::mapped_region region_;
};

}  // namespace gearbox::shm
