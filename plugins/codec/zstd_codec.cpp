#include "codec/zstd_codec.hpp"

// The literals' mode and the frame header's reader are in the part of zstd that may change between its versions; both
// have been there unchanged since 1.4, and the build fails if they go.
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>
#include <zstd_errors.h>

#include <string>
#include <utility>

namespace gearbox::codec {

namespace {
constexpr unsigned long long kMaxWindowBytes = 8ULL << 20;

Error corrupt(std::string why) {
  return Error{Errc::corrupt_data, "zstd: " + std::move(why)};
}

bool is_picture(const plugin::TileView& tile) {
  return tile.dtype == wire::DType::uint8 && (tile.channels > 1 || tile.rows > 1);
}
}  // namespace

void ZstdCodec::FreeEncoder::operator()(ZSTD_CCtx_s* context) const {
  ZSTD_freeCCtx(context);
}
void ZstdCodec::FreeDecoder::operator()(ZSTD_DCtx_s* context) const {
  ZSTD_freeDCtx(context);
}

ZstdCodec::ZstdCodec(Encoder pictures, Encoder others, Decoder decoder)
    : pictures_(std::move(pictures)), others_(std::move(others)), decoder_(std::move(decoder)) {}

Outcome<ZstdCodec::Encoder> ZstdCodec::make_encoder(int level) {
  if (level < kLowestZstdLevel || level > kHighestZstdLevel) {
    return Error{Errc::bad_plugin, "zstd: level " + std::to_string(level) + " is outside " +
                                       std::to_string(kLowestZstdLevel) + ".." + std::to_string(kHighestZstdLevel)};
  }
  Encoder encoder(ZSTD_createCCtx());
  if (!encoder) return Error{Errc::no_space, "zstd: no memory for an encoder"};
  std::size_t failed = ZSTD_CCtx_setParameter(encoder.get(), ZSTD_c_compressionLevel, level);
  if (ZSTD_isError(failed) == 0 && level < 0) {
    failed = ZSTD_CCtx_setParameter(encoder.get(), ZSTD_c_literalCompressionMode, ZSTD_ps_enable);
  }
  if (ZSTD_isError(failed) != 0) {
    return Error{Errc::bad_plugin, "zstd: level " + std::to_string(level) + ": " + ZSTD_getErrorName(failed)};
  }
  return encoder;
}

Outcome<std::unique_ptr<plugin::Codec>> ZstdCodec::create(const ZstdSettings& settings) {
  BOOST_OUTCOME_TRY(Encoder pictures, make_encoder(settings.picture_level));
  BOOST_OUTCOME_TRY(Encoder others, make_encoder(settings.level));
  Decoder decoder(ZSTD_createDCtx());
  if (!decoder) return Error{Errc::no_space, "zstd: no memory for a decoder"};
  return std::unique_ptr<plugin::Codec>(new ZstdCodec(std::move(pictures), std::move(others), std::move(decoder)));
}

std::size_t ZstdCodec::bound(std::size_t in_bytes) const {
  return ZSTD_compressBound(in_bytes);
}

Outcome<std::size_t> ZstdCodec::encode(const plugin::TileView& tile, ByteView in, ByteSpan out) {
  ZSTD_CCtx* const encoder = is_picture(tile) ? pictures_.get() : others_.get();
  const std::size_t used = ZSTD_compress2(encoder, out.data(), out.size(), in.data(), in.size());
  if (ZSTD_isError(used) != 0) {
    return Error{Errc::internal, "zstd: " + std::to_string(in.size()) + " bytes into " + std::to_string(out.size()) +
                                     ": " + ZSTD_getErrorName(used)};
  }
  return used;
}

Outcome<std::size_t> ZstdCodec::decode(const plugin::TileView&, ByteView in, ByteSpan out) {
  ZSTD_frameHeader header{};
  const std::size_t more = ZSTD_getFrameHeader(&header, in.data(), in.size());
  if (ZSTD_isError(more) != 0) return corrupt(ZSTD_getErrorName(more));
  if (more != 0) return corrupt("the frame's header is cut");
  if (header.frameType != ZSTD_frame) return corrupt("a skippable frame holds no tile");
  if (header.dictID != 0) return corrupt("the frame asks for a dictionary");
  if (header.frameContentSize != ZSTD_CONTENTSIZE_UNKNOWN && header.frameContentSize > out.size()) {
    return corrupt("the frame declares " + std::to_string(header.frameContentSize) + " bytes, the tile has at most " +
                   std::to_string(out.size()));
  }
  if (header.windowSize > kMaxWindowBytes) {
    return corrupt("a window of " + std::to_string(header.windowSize) + " bytes is over the limit of 8 MiB");
  }
  // Walks the block headers only; zstd itself would decode every frame that follows.
  const std::size_t frame_bytes = ZSTD_findFrameCompressedSize(in.data(), in.size());
  if (ZSTD_isError(frame_bytes) != 0) return corrupt(ZSTD_getErrorName(frame_bytes));
  if (frame_bytes != in.size()) {
    return corrupt(std::to_string(in.size() - frame_bytes) + " bytes follow the end of the frame");
  }
  const std::size_t used = ZSTD_decompressDCtx(decoder_.get(), out.data(), out.size(), in.data(), in.size());
  if (ZSTD_isError(used) != 0) {
    if (ZSTD_getErrorCode(used) == ZSTD_error_dstSize_tooSmall) {
      return corrupt("the frame holds more than the tile's " + std::to_string(out.size()) + " bytes");
    }
    return corrupt(ZSTD_getErrorName(used));
  }
  return used;
}

}  // namespace gearbox::codec
