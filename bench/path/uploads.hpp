// uploads.hpp: one upload as a device sends it, measured twice: what the node's thread spends on it, and what its bare
// parts cost on the same sealed bytes.
#pragma once

#include <string>
#include <vector>

#include "client.hpp"
#include "gearbox/link/codec_chain.hpp"
#include "gearbox/link/upload.hpp"

namespace gearbox::bench {

/// A tensor made ready to be uploaded: coded tile by tile, or stored.
class Upload {
 public:
  static Upload coded(const wire::TensorSpec& spec, ByteView plain);
  static Upload stored(Bytes content);

  /// CPU of the node from the sleeping node before the submit frame to the accepted, verified request with its slab
  /// filled. The client seals all frames before; the clock is read by the node itself where it looks for a worker.
  double node_cpu_us(NodeProcess& node, Client& client) const;

  /// CPU of this thread for the bare parts, on a channel of its own: each body record is opened by libsodium in one
  /// call; a coded tile is then decompressed and un-predicted into place, one call after the other.
  double bare_cpu_us();

  std::uint64_t wire_bytes() const { return wire_.size(); }
  std::uint64_t plain_bytes() const { return spec_.bytes; }

 private:
  Upload() = default;
  struct Bare;
  wire::TensorSpec spec_;
  Bytes wire_;
  std::vector<std::uint32_t> tiles_;  // coded bytes of each; empty: stored
  Bytes plain_;                       // what must come out
  std::shared_ptr<Bare> bare_;
};

}  // namespace gearbox::bench
