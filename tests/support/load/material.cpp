#include "material.hpp"

#include <sodium.h>

#include <algorithm>

#include "codec_choice.hpp"
#include "gearbox/base/text.hpp"

namespace gearbox::load {

namespace {

constexpr std::int64_t kWidth = 192, kHeight = 128, kChannels = 3;
constexpr std::size_t kTextBytes = 48 * 1024;
constexpr std::size_t kJpegBytes = 6 * 1024;

std::string sha256_of(ByteView bytes) {
  std::array<unsigned char, crypto_hash_sha256_BYTES> hash{};
  crypto_hash_sha256(hash.data(), reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  return to_hex(std::as_bytes(std::span(hash)));
}

/// A soft picture with a camera's noise: what the pixel filter is for.
Bytes frame(std::uint32_t seed) {
  Bytes bytes(static_cast<std::size_t>(kWidth * kHeight * kChannels));
  std::uint32_t noise = seed * 2654435761U + 1;
  std::size_t at = 0;
  for (std::int64_t y = 0; y < kHeight; ++y) {
    for (std::int64_t x = 0; x < kWidth; ++x) {
      for (std::int64_t c = 0; c < kChannels; ++c) {
        noise = noise * 1664525U + 1013904223U;
        bytes[at++] = static_cast<std::byte>(x / 2 + y + 40 * c + seed + (noise >> 30));
      }
    }
  }
  return bytes;
}

Bytes text(std::uint32_t seed) {
  std::string all;
  for (std::uint32_t line = 0; all.size() < kTextBytes; ++line) {
    all += "line " + std::to_string(line) + " of text " + std::to_string(seed) +
           ", seldom the same twice: " + std::to_string(line * seed * 2654435761U) + "\n";
  }
  const ByteView view = view_of(all);
  return Bytes(view.begin(), view.end());
}

/// Whole by its markers; its pixels are noise.
Bytes jpeg(std::uint32_t seed) {
  constexpr unsigned char kHead[] = {0xFF, 0xD8, 0xFF, 0xC0, 0, 11, 8, 0, 48, 0, 64,   1, 1,
                                     0x11, 0,    0xFF, 0xDA, 0, 8,  1, 1, 0,  0, 0x3F, 0};
  Bytes bytes;
  for (const unsigned char byte : kHead) bytes.push_back(static_cast<std::byte>(byte));
  std::uint32_t noise = seed;
  while (bytes.size() < kJpegBytes) {
    noise = noise * 1664525U + 1013904223U;
    bytes.push_back(static_cast<std::byte>(std::min(noise >> 24, 0xFEU)));
  }
  bytes.push_back(std::byte{0xFF});
  bytes.push_back(std::byte{0xD9});
  return bytes;
}

Outcome<Piece> coded(std::vector<std::int64_t> shape, Bytes plain, const std::vector<std::string>& codecs) {
  wire::TensorSpec spec;
  spec.name = "image";
  spec.dtype = wire::DType::uint8;
  spec.shape = std::move(shape);
  spec.bytes = plain.size();
  std::string sha256 = sha256_of(plain);
  BOOST_OUTCOME_TRY(client::CodedInput input, client::code_input(spec, plain, std::nullopt));
  if (input.spec.codecs != codecs) return Error{Errc::internal, "a piece is not coded as it was meant to be"};
  std::vector<link::UploadSender::Input> uploads;
  uploads.push_back(std::move(input.upload));
  return Piece{std::move(input.spec), link::UploadSender(std::move(uploads)), std::move(plain), std::move(sha256)};
}

Piece stored(Bytes plain) {
  wire::TensorSpec spec;
  spec.name = "image";
  spec.dtype = wire::DType::uint8;
  spec.shape = {static_cast<std::int64_t>(plain.size())};
  spec.bytes = plain.size();
  client::CodedInput input = client::store_input(std::move(spec), plain);
  std::vector<link::UploadSender::Input> uploads;
  uploads.push_back(std::move(input.upload));
  std::string sha256 = sha256_of(plain);
  return Piece{std::move(input.spec), link::UploadSender(std::move(uploads)), std::move(plain), std::move(sha256),
               true};
}

}  // namespace

Outcome<std::vector<Piece>> make_pieces(std::size_t count) {
  std::vector<Piece> pieces;
  for (std::uint32_t seed = 1; seed <= count; ++seed) {
    BOOST_OUTCOME_TRY(Piece colour, coded({kHeight, kWidth, kChannels}, frame(seed), {"image_delta", "zstd"}));
    pieces.push_back(std::move(colour));
    Bytes words = text(seed);
    const auto size = static_cast<std::int64_t>(words.size());
    BOOST_OUTCOME_TRY(Piece plain, coded({size}, std::move(words), {"zstd"}));
    pieces.push_back(std::move(plain));
    pieces.push_back(stored(jpeg(seed)));
  }
  return pieces;
}

std::shared_ptr<client::Outgoing> request_of(const Piece& piece, Instant expires) {
  auto outgoing = std::make_shared<client::Outgoing>();
  outgoing->id = link::random_request_id();
  outgoing->submit.task = piece.task;
  outgoing->submit.wire_bytes = piece.input.wire_bytes;
  outgoing->submit.inputs.push_back(piece.input);
  outgoing->submit.digest = piece.sender.digest();
  outgoing->sender = std::make_shared<link::UploadSender>(piece.sender);
  outgoing->expires = expires;
  if (piece.fits_inline) outgoing->inline_payload = piece.plain;
  return outgoing;
}

std::string fault_of(const Piece& piece, const wire::ResultMessage& result, ByteView payload) {
  if (piece.answer) {
    const bool same = std::equal(payload.begin(), payload.end(), piece.answer->begin(), piece.answer->end());
    return same ? std::string() : "another answer came back";
  }
  std::uint64_t at = 0;
  bool image = false, hash = false;
  for (const wire::TensorSpec& tensor : result.tensors) {
    if (tensor.bytes > payload.size() - at) return "the answer is shorter than it says";
    const ByteView bytes = payload.subspan(at, tensor.bytes);
    at += tensor.bytes;
    if (tensor.name == "image") {
      image = true;
      if (tensor.shape != piece.input.tensor.shape) return "another shape came back";
      if (!std::equal(bytes.begin(), bytes.end(), piece.plain.begin(), piece.plain.end()))
        return "other bytes came back";
    } else if (tensor.name == "text") {
      hash = true;
      if (bytes.size() != 4 + piece.sha256.size() || text_of(bytes.subspan(4)) != piece.sha256)
        return "the model saw other bytes";
    }
  }
  return image && hash && at == payload.size() ? std::string() : "the answer has other tensors";
}

}  // namespace gearbox::load
