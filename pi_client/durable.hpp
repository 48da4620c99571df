// durable.hpp: files that are there whole after a kill or a power cut, or not at all. Blocking; any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <utility>

#include "gearbox/base/bytes.hpp"
#include "gearbox/base/clock.hpp"
#include "gearbox/base/outcome.hpp"

namespace gearbox::client {

/// Owns a descriptor; -1 is none.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor();
  int get() const { return number_; }

 private:
  int number_ = -1;
};

/// What `errno` says of `path`: no_space for a full disk or quota, else io_error.
Error file_error(const std::filesystem::path& path, int number);

/// The whole of a regular file, as long as it is when its end is met. Errors: io_error; too_large over `limit` bytes.
Outcome<Bytes> read_whole(const std::filesystem::path& path, std::uint64_t limit);

/// Writes all of `bytes` at the descriptor's place. Errors: as file_error.
Outcome<void> write_all(int descriptor, ByteView bytes, const std::filesystem::path& path);

/// Writes PATH.new, syncs it, renames it to PATH. It is there for good when its folder has been synced as well.
/// Errors: as file_error; PATH is then as it was.
Outcome<void> write_durably(const std::filesystem::path& path, ByteView bytes);

/// Makes names that were added, renamed or removed in `folder` durable. Errors: as file_error.
Outcome<void> sync_folder(const std::filesystem::path& folder);

/// Opens or makes `path` (mode 0600) and locks it against other descriptors of it; the kernel lets go of it when the
/// process ends, however it ends. Waits for it; overloaded when somebody has it for longer than `within`. Errors: as
/// file_error.
Outcome<Descriptor> lock_file(const std::filesystem::path& path, milliseconds within);

}  // namespace gearbox::client
