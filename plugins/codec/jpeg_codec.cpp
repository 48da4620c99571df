#include "codec/jpeg_codec.hpp"

#include <csetjmp>
#include <cstdio>  // jpeglib.h needs FILE and size_t before it

#include <jpeglib.h>

#include <jerror.h>

#include <array>
#include <string>
#include <string_view>
#include <utility>

namespace gearbox::codec {

namespace {
// libjpeg ends a call that fails by error_exit, which must not return: longjmp takes us back to the setjmp in one of
// the functions below. A jump over a C++ object would leave its destructor out, so those functions, and all that
// libjpeg calls back, hold plain data only, and what outlives the jump lies in Library.
struct Failure {
  jpeg_error_mgr manager{};  // first: libjpeg sees only this
  std::jmp_buf back{};
  std::array<char, JMSG_LENGTH_MAX> text{};
};

void fail(j_common_ptr info) {
  auto* failure = reinterpret_cast<Failure*>(info->err);
  info->err->format_message(info, failure->text.data());
  std::longjmp(failure->back, 1);
}
void keep_quiet(j_common_ptr) {}  // libjpeg would write to stderr
void count_warning(j_common_ptr info, int level) {
  if (level >= 0) return;
  // The first one tells what is wrong; those that follow are its echoes.
  if (info->err->num_warnings++ == 0)
    info->err->format_message(info, reinterpret_cast<Failure*>(info->err)->text.data());
}

void prepare(Failure& failure) {
  jpeg_std_error(&failure.manager);
  failure.manager.error_exit = fail;
  failure.manager.output_message = keep_quiet;
  failure.manager.emit_message = count_warning;
}

// Output: one buffer of fixed size; full is an error, never a growth.
struct FixedTarget {
  jpeg_destination_mgr manager{};
  JOCTET* start = nullptr;
  std::size_t size = 0;
};
void target_start(j_compress_ptr info) {
  auto* target = reinterpret_cast<FixedTarget*>(info->dest);
  target->manager.next_output_byte = target->start;
  target->manager.free_in_buffer = target->size;
}
boolean target_full(j_compress_ptr info) {
  ERREXIT(info, JERR_CANT_SUSPEND);
  return FALSE;
}
void target_end(j_compress_ptr) {}

// Input: all there from the start; its end inside the picture is an error.
void source_start(j_decompress_ptr) {}
void source_end(j_decompress_ptr) {}
boolean source_empty(j_decompress_ptr info) {
  ERREXIT(info, JERR_INPUT_EOF);
  return FALSE;
}
void source_skip(j_decompress_ptr info, long bytes) {
  if (bytes <= 0) return;
  const auto skip = static_cast<std::size_t>(bytes);
  if (skip > info->src->bytes_in_buffer) ERREXIT(info, JERR_INPUT_EOF);
  info->src->next_input_byte += skip;
  info->src->bytes_in_buffer -= skip;
}
}  // namespace

struct JpegCodec::Library {
  jpeg_compress_struct encoder{};
  jpeg_decompress_struct decoder{};
  Failure encoder_failure;
  Failure decoder_failure;
  FixedTarget target;
  jpeg_source_mgr source{};
  int quality = 90;
  bool encoder_made = false;
  bool decoder_made = false;
  const char* refused = nullptr;  // why, when it was us and not libjpeg

  bool start();
  bool encode(const plugin::TileView& tile, const JSAMPLE* pixels, JOCTET* out, std::size_t out_bytes);
  bool decode(const plugin::TileView& tile, const JOCTET* in, std::size_t in_bytes, JSAMPLE* pixels);
  const char* look(const plugin::TileView& tile) const;

  Library() = default;
  Library(const Library&) = delete;  // libjpeg keeps pointers into it
  Library& operator=(const Library&) = delete;
  ~Library() {
    if (encoder_made) jpeg_destroy_compress(&encoder);
    if (decoder_made) jpeg_destroy_decompress(&decoder);
  }
};

bool JpegCodec::Library::start() {
  prepare(encoder_failure);
  encoder.err = &encoder_failure.manager;
  prepare(decoder_failure);
  decoder.err = &decoder_failure.manager;
  if (setjmp(encoder_failure.back) != 0) return false;
  jpeg_create_compress(&encoder);
  encoder_made = true;
  if (setjmp(decoder_failure.back) != 0) return false;
  jpeg_create_decompress(&decoder);
  decoder_made = true;
  target.manager.init_destination = target_start;
  target.manager.empty_output_buffer = target_full;
  target.manager.term_destination = target_end;
  encoder.dest = &target.manager;
  source.init_source = source_start;
  source.fill_input_buffer = source_empty;
  source.skip_input_data = source_skip;
  source.resync_to_restart = jpeg_resync_to_restart;
  source.term_source = source_end;
  decoder.src = &source;
  return true;
}

bool JpegCodec::Library::encode(const plugin::TileView& tile, const JSAMPLE* pixels, JOCTET* out,
                                std::size_t out_bytes) {
  target.start = out;
  target.size = out_bytes;
  if (setjmp(encoder_failure.back) != 0) {
    jpeg_abort_compress(&encoder);
    return false;
  }
  encoder.image_width = tile.width;
  encoder.image_height = tile.rows;
  encoder.input_components = static_cast<int>(tile.channels);
  encoder.in_color_space = tile.channels == 3 ? JCS_RGB : JCS_GRAYSCALE;
  jpeg_set_defaults(&encoder);
  jpeg_set_quality(&encoder, quality, TRUE);
  jpeg_start_compress(&encoder, TRUE);
  const std::size_t stride = std::size_t{tile.width} * tile.channels;
  while (encoder.next_scanline < encoder.image_height) {
    auto* row = const_cast<JSAMPROW>(pixels + encoder.next_scanline * stride);  // libjpeg only reads it
    jpeg_write_scanlines(&encoder, &row, 1);
  }
  jpeg_finish_compress(&encoder);
  return true;
}

// What the header says, held against the tile; nullptr when all is well.
const char* JpegCodec::Library::look(const plugin::TileView& tile) const {
  if (decoder.image_width != tile.width || decoder.image_height != tile.rows) return "its size is not the tile's";
  if (decoder.num_components != static_cast<int>(tile.channels)) return "its channels are not the tile's";
  if (decoder.data_precision != 8) return "its samples have more than 8 bits";
  if (decoder.progressive_mode != FALSE || decoder.arith_code != FALSE) return "it is not a baseline JPEG";
  if (decoder.comps_in_scan != decoder.num_components) return "its channels come in several scans";
  if (tile.channels == 3 && decoder.jpeg_color_space != JCS_YCbCr) return "its colours are not YCbCr";
  for (int i = 0; i < decoder.num_components; ++i) {
    const jpeg_component_info& component = decoder.comp_info[i];
    if (component.h_samp_factor > 2 || component.v_samp_factor > 2) return "its sampling is not one that we make";
  }
  return nullptr;
}

bool JpegCodec::Library::decode(const plugin::TileView& tile, const JOCTET* in, std::size_t in_bytes, JSAMPLE* pixels) {
  source.next_input_byte = in;
  source.bytes_in_buffer = in_bytes;
  refused = nullptr;
  decoder_failure.manager.num_warnings = 0;
  if (setjmp(decoder_failure.back) != 0) {
    jpeg_abort_decompress(&decoder);
    return false;
  }
  jpeg_read_header(&decoder, TRUE);
  refused = look(tile);
  if (refused == nullptr) {
    decoder.out_color_space = tile.channels == 3 ? JCS_RGB : JCS_GRAYSCALE;
    jpeg_start_decompress(&decoder);
    const std::size_t stride = std::size_t{tile.width} * tile.channels;
    // Damage is a warning to libjpeg, which goes on with grey; to us it is the end.
    while (decoder.output_scanline < decoder.output_height && decoder_failure.manager.num_warnings == 0) {
      JSAMPROW row = pixels + decoder.output_scanline * stride;
      jpeg_read_scanlines(&decoder, &row, 1);
    }
    if (decoder_failure.manager.num_warnings == 0) jpeg_finish_decompress(&decoder);
    if (decoder_failure.manager.num_warnings != 0) refused = decoder_failure.text.data();
    if (refused == nullptr && source.bytes_in_buffer != 0) refused = "bytes follow its end";
  }
  jpeg_abort_decompress(&decoder);
  return refused == nullptr;
}

JpegCodec::JpegCodec(std::unique_ptr<Library> library) : library_(std::move(library)) {}
JpegCodec::~JpegCodec() = default;

Outcome<std::unique_ptr<plugin::Codec>> JpegCodec::create(int quality) {
  if (quality < kLowestJpegQuality || quality > kHighestJpegQuality) {
    return Error{Errc::bad_plugin, "jpeg: quality " + std::to_string(quality) + " is outside 1..100"};
  }
  auto library = std::make_unique<Library>();
  library->quality = quality;
  if (!library->start()) return Error{Errc::no_space, "jpeg: libjpeg does not start"};
  return std::unique_ptr<plugin::Codec>(new JpegCodec(std::move(library)));
}

bool JpegCodec::accepts(const plugin::TileView& tile) const {
  return tile.dtype == wire::DType::uint8 && (tile.channels == 1 || tile.channels == 3) &&
         tile.rows >= (tile.channels == 1 ? 2U : 1U) && tile.width > 0 && tile.width <= JPEG_MAX_DIMENSION &&
         tile.rows <= JPEG_MAX_DIMENSION;
}

Outcome<std::size_t> JpegCodec::encode(const plugin::TileView& tile, ByteView in, ByteSpan out) {
  // A band of one grey row is refused as a whole tensor only (it looks like plain bytes), not as the last of several.
  const bool last_row = tile.rows == 1 && tile.dtype == wire::DType::uint8 && tile.channels == 1;
  if ((!accepts(tile) && !last_row) || in.size() != tile.bytes() || in.empty()) {
    return Error{Errc::bad_input, "jpeg: cannot code " + std::to_string(in.size()) + " bytes as " +
                                      std::to_string(tile.rows) + " rows of " + std::to_string(tile.width) + " x " +
                                      std::to_string(tile.channels) + " " + std::string(wire::name_of(tile.dtype))};
  }
  if (!library_->encode(tile, reinterpret_cast<const JSAMPLE*>(in.data()), reinterpret_cast<JOCTET*>(out.data()),
                        out.size())) {
    return Error{Errc::internal, std::string("jpeg: ") + library_->encoder_failure.text.data()};
  }
  return out.size() - library_->target.manager.free_in_buffer;
}

Outcome<std::size_t> JpegCodec::decode(const plugin::TileView& tile, ByteView in, ByteSpan out) {
  if (out.size() < tile.bytes() || tile.bytes() == 0) {
    return Error{Errc::corrupt_data, "jpeg: no room for a tile of " + std::to_string(tile.bytes()) + " bytes"};
  }
  if (!library_->decode(tile, reinterpret_cast<const JOCTET*>(in.data()), in.size(),
                        reinterpret_cast<JSAMPLE*>(out.data()))) {
    const char* const why = library_->refused != nullptr ? library_->refused : library_->decoder_failure.text.data();
    return Error{Errc::corrupt_data, std::string("jpeg: ") + why};
  }
  return tile.bytes();
}

}  // namespace gearbox::codec
