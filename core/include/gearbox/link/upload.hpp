// upload.hpp: both sides of one upload as explicit state machines, without I/O: session/ and pi_client/ move the bytes.
//
//   normal → announced → receiving → verifying → accepted → running → done | failed
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gearbox/base/bytes.hpp"
#include "gearbox/base/outcome.hpp"
#include "gearbox/wire/messages.hpp"

namespace gearbox::link {

/// XXH3-128 over a stream of bytes, canonical form, hex. Guards against our own mistakes, not against people.
class Digest {
 public:
  Digest();
  Digest(Digest&&) noexcept;
  Digest& operator=(Digest&&) noexcept;
  ~Digest();
  void update(ByteView bytes);
  std::string hex() const;  // of all bytes so far; may be called again

 private:
  struct State;
  std::unique_ptr<State> state_;
};

enum class UploadState : std::uint8_t { normal, announced, receiving, verifying, accepted, running, done, failed };
std::string_view name_of(UploadState state);

/// The node's side. It knows only about bytes on the wire; where they go is the caller's.
class UploadReceiver {
 public:
  /// Checks the announcement against itself: sums, tensor specs, codec counts, names.
  /// Errors: bad_input, bad_name; too_large when wire_bytes or the plain bytes exceed `limit_bytes` (said before
  /// anything is received). The state is then `announced`; an upload of no bytes is complete at once.
  static Outcome<UploadReceiver> announce(wire::Submit submit, std::uint64_t limit_bytes);

  /// One whose bytes an earlier process has received and verified: complete, in the state `verifying`. Errors: as
  /// above.
  static Outcome<UploadReceiver> received_before(wire::Submit submit, std::uint64_t limit_bytes);

  /// Which input and which of its wire bytes lie at the current offset; for the caller to find the place.
  struct Place {
    std::size_t input = 0;
    std::uint64_t offset_in_input = 0;
    std::uint64_t left_in_input = 0;
  };
  Place place() const;

  /// Takes note of a chunk that arrived whole at `offset` with `bytes`.
  /// Errors: bad_frame when `offset` is not where we are, the chunk is empty or crosses the end of an input, or nothing
  /// is expected any more; the upload stays usable.
  Outcome<void> received(std::uint64_t offset, ByteView bytes);
  /// When complete: compares the digest; the state is then `verifying`, and accepting is the caller's step.
  /// Errors: digest_mismatch (state failed).
  Outcome<void> verify();
  /// Is `again` the same announcement, so that an upload may go on after a reconnect?
  bool matches(const wire::Submit& again) const;

  void to(UploadState next);  // a step that the table above does not have ends the process: our own mistake
  UploadState state() const { return state_; }
  std::uint64_t offset() const { return offset_; }
  bool complete() const { return offset_ == submit_.wire_bytes; }
  const wire::Submit& submit() const { return submit_; }

 private:
  explicit UploadReceiver(wire::Submit submit) : submit_(std::move(submit)) {}
  void skip_finished_inputs();
  wire::Submit submit_;
  UploadState state_ = UploadState::normal;
  std::uint64_t offset_ = 0;
  std::size_t input_ = 0;
  std::uint64_t input_start_ = 0;
  Digest digest_;
};

/// The device's side: cuts the upload into chunks from wherever the node says it is.
class UploadSender {
 public:
  /// One encoded input: `chunks` follow each other; a stored input is one long chunk that may be cut anywhere, a coded
  /// one has one chunk per tile, which must stay whole.
  struct Input {
    Bytes wire;
    std::vector<std::uint32_t> tile_bytes;  // empty: stored
  };
  /// Precondition: the tiles of a coded input add up to its bytes, each of 1 to kMaxPayloadBytes.
  explicit UploadSender(std::vector<Input> inputs);

  std::uint64_t wire_bytes() const { return wire_bytes_; }
  std::string digest() const;

  /// Go on from `offset`, as the node told. Errors: bad_frame when it lies beyond the end or inside a tile.
  Outcome<void> seek(std::uint64_t offset);
  struct Chunk {
    std::uint64_t offset = 0;
    ByteView bytes;
  };
  bool finished() const { return offset_ == wire_bytes_; }
  std::uint64_t offset() const { return offset_; }
  /// One tile, or at most kTileBytes of a stored input; a view on the input. Precondition: not finished.
  Chunk next();

 private:
  void skip_finished_inputs();
  std::vector<Input> inputs_;
  std::uint64_t wire_bytes_ = 0;
  std::size_t input_ = 0;
  std::size_t tile_ = 0;
  std::uint64_t in_input_ = 0;
  std::uint64_t offset_ = 0;
};

}  // namespace gearbox::link
