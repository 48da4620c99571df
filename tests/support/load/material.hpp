// material.hpp: what the load sends, made and coded before it begins, each piece another one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gearbox/base/bytes.hpp"
#include "gearbox/base/outcome.hpp"
#include "gearbox/link/upload.hpp"
#include "gearbox/wire/messages.hpp"
#include "node_connection.hpp"

namespace gearbox::load {

/// One upload and what must come back for it.
struct Piece {
  wire::InputSpec input;  // with the codecs it travels with
  link::UploadSender sender;
  Bytes plain;
  std::string sha256;  // of `plain`, hex
  bool fits_inline = false;
  std::string task = "echo";
  std::optional<Bytes> answer{};  // its payload, whole; not set: what the echo task gives
};

/// `count` of each sort: colour frames (image_delta, zstd), text (zstd), JPEG files (stored).
/// Errors: internal when a frame does not come out coded as meant.
Outcome<std::vector<Piece>> make_pieces(std::size_t count);

/// A new request of `piece`.
std::shared_ptr<client::Outgoing> request_of(const Piece& piece, Instant expires);

/// Is that the answer to `piece`, to the last byte? Says what is wrong; empty: nothing.
std::string fault_of(const Piece& piece, const wire::ResultMessage& result, ByteView payload);

}  // namespace gearbox::load
