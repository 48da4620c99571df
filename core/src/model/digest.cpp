#include "model/digest.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>

#include "gearbox/base/ids.hpp"

namespace gearbox::model {

struct FilesDigest::State {
  XXH3_state_t hash;  // aligned to 64 bytes by its own declaration; operator new of C++17 keeps that
};

FilesDigest::FilesDigest() : state_(std::make_unique<State>()) {
  XXH3_128bits_reset(&state_->hash);
}
FilesDigest::~FilesDigest() = default;

void FilesDigest::add(std::string_view piece) {
  std::array<std::byte, 8> length{};
  store_le<std::uint64_t>(length.data(), piece.size());
  XXH3_128bits_update(&state_->hash, length.data(), length.size());
  XXH3_128bits_update(&state_->hash, piece.data(), piece.size());
}

std::string FilesDigest::hex() const {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(&state_->hash));
  return to_hex(std::as_bytes(std::span(canonical.digest)));
}

}  // namespace gearbox::model
