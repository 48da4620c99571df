// ingest.hpp: where an upload's bytes go: checks the announced inputs against the task, reserves their slabs, puts
// stored bytes straight into place and decodes coded tiles into place.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "config/config.hpp"
#include "gearbox/link/codec_chain.hpp"
#include "gearbox/wire/messages.hpp"
#include "pipeline/run.hpp"
#include "session/service.hpp"

namespace gearbox::session {

class Ingest {
 public:
  /// Checks only; no memory is taken. Errors: bad_input (an input that the task does not have, or that is missing, or
  /// of another type or shape; a codec that may not be used; each with its name), not_found (no such codec).
  static Outcome<Ingest> plan(const Service& service, const config::TaskConfig& task, const wire::Submit& submit);

  /// Takes the slabs. Errors: no_space; nothing is held then.
  Outcome<void> reserve(worker_pool::WorkerPool& pool);
  bool reserved() const { return reserved_; }
  /// Lets go of the slabs; whoever still needs the bytes holds values().
  void release();
  /// Sum of the plain bytes.
  std::uint64_t plain_bytes() const;

  /// A piece of a slab, and what keeps it from being handed to somebody else while it is written to.
  struct Room {
    ByteSpan bytes;
    worker_pool::SlabPtr slab;
  };
  /// The place in the slab where `bytes` stored bytes of `input` at `offset` belong. Precondition: reserved, not coded.
  /// Errors: bad_frame when they reach beyond the input.
  Outcome<Room> place(std::size_t input, std::uint64_t offset, std::size_t bytes);
  /// Decodes the next tile of a coded input. Errors: corrupt_data, bad_frame (more tiles than there are).
  Outcome<void> decode(std::size_t input, ByteView tile);
  /// All inputs' plain bytes at once, one after the other, in order. Precondition: reserved. Errors: corrupt_data when
  /// they are not as many.
  Outcome<void> fill(ByteView all);
  bool is_coded(std::size_t input) const { return inputs_[input].chain.has_value(); }

  /// After the last byte: were all tiles there; is what looks like a picture one, whole, of a sane size?
  /// Errors: corrupt_data, bad_picture; the input is named.
  Outcome<void> check_content(std::uint64_t max_pixels) const;

  /// The tensors, for the pipeline. Precondition: reserved and complete.
  std::map<std::string, pipeline::Value> values() const;
  /// Views of the plain bytes, in order, for the store.
  std::vector<ByteView> plain_views() const;

 private:
  struct Input {
    wire::TensorSpec spec;
    std::optional<link::CodecChain> chain;
    std::size_t tiles_done = 0;
    worker_pool::SlabPtr slab;
  };
  std::vector<Input> inputs_;
  bool reserved_ = false;
};

}  // namespace gearbox::session
