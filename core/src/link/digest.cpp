#define XXH_INLINE_ALL
#include <xxhash.h>

#include "gearbox/base/ids.hpp"
#include "gearbox/link/upload.hpp"

namespace gearbox::link {

struct Digest::State {
  XXH3_state_t hash;  // over-aligned; operator new honours that
};

Digest::Digest() : state_(std::make_unique<State>()) {
  XXH3_128bits_reset(&state_->hash);
}
Digest::Digest(Digest&&) noexcept = default;
Digest& Digest::operator=(Digest&&) noexcept = default;
Digest::~Digest() = default;

void Digest::update(ByteView bytes) {
  XXH3_128bits_update(&state_->hash, bytes.data(), bytes.size());
}

std::string Digest::hex() const {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(&state_->hash));
  return to_hex(std::as_bytes(std::span(canonical.digest)));
}

}  // namespace gearbox::link
