#include <algorithm>
#include <numeric>

#include "gearbox/link/upload.hpp"
#include "gearbox/wire/frame.hpp"
#include "link/invariant.hpp"

namespace gearbox::link {

UploadSender::UploadSender(std::vector<Input> inputs) : inputs_(std::move(inputs)) {
  for (const Input& input : inputs_) {
    wire_bytes_ += input.wire.size();
    if (input.tile_bytes.empty()) continue;
    std::uint64_t sum = 0;
    for (const std::uint32_t tile : input.tile_bytes) {
      if (tile == 0 || tile > wire::kMaxPayloadBytes) broken_invariant("a tile that fits no frame");
      sum += tile;
    }
    if (sum != input.wire.size()) broken_invariant("an input's tiles do not add up to its bytes");
  }
  skip_finished_inputs();
}

void UploadSender::skip_finished_inputs() {
  while (input_ < inputs_.size() && in_input_ == inputs_[input_].wire.size()) {
    ++input_;
    tile_ = 0;
    in_input_ = 0;
  }
}

std::string UploadSender::digest() const {
  Digest digest;
  for (const Input& input : inputs_) digest.update(input.wire);
  return digest.hex();
}

Outcome<void> UploadSender::seek(std::uint64_t offset) {
  if (offset > wire_bytes_) {
    return Error{Errc::bad_frame, "asked to go on at " + std::to_string(offset) + " of an upload of " +
                                      std::to_string(wire_bytes_) + " bytes"};
  }
  std::size_t input = 0;
  std::uint64_t left = offset;
  while (input < inputs_.size() && left >= inputs_[input].wire.size()) left -= inputs_[input++].wire.size();
  std::size_t tile = 0;
  if (input < inputs_.size() && !inputs_[input].tile_bytes.empty()) {
    std::uint64_t start = 0;
    while (start < left) start += inputs_[input].tile_bytes[tile++];  // ends: the tiles add up to more than `left`
    if (start != left) {
      return Error{Errc::bad_frame, "asked to go on at " + std::to_string(offset) + ", which lies inside a tile"};
    }
  }
  input_ = input;
  tile_ = tile;
  in_input_ = left;
  offset_ = offset;
  return done();
}

UploadSender::Chunk UploadSender::next() {
  if (finished()) broken_invariant("a chunk is asked for after the end of an upload");
  const Input& input = inputs_[input_];
  const std::uint64_t bytes = input.tile_bytes.empty()
                                  ? std::min<std::uint64_t>(input.wire.size() - in_input_, wire::kTileBytes)
                                  : input.tile_bytes[tile_];
  const Chunk chunk{offset_, ByteView(input.wire).subspan(in_input_, bytes)};
  ++tile_;
  in_input_ += bytes;
  offset_ += bytes;
  skip_finished_inputs();
  return chunk;
}

}  // namespace gearbox::link
