// codec_peers.hpp: what the codecs are measured against. Each codes the whole sample at once and returns the bytes it
// took; a peer's set-up is outside of the measured time where its interface lets us.
#pragma once

#include <memory>
#include <optional>

#include "codec_samples.hpp"

namespace gearbox::bench {

class Peer {
 public:
  virtual ~Peer() = default;
  virtual std::size_t encode(const Sample& sample) = 0;
};

/// zstd at `level` over the plain bytes, one frame, context kept.
std::unique_ptr<Peer> zstd_peer(int level);
/// WebP lossless, method 0, for [h, w, 3] of UINT8; nullptr where the program was built without libwebp.
std::unique_ptr<Peer> webp_peer();

}  // namespace gearbox::bench
