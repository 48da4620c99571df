// All codecs of ours through the suite of their kind.
#include "conformance/codec_conformance.hpp"

#include "codec/image_delta.hpp"
#include "codec/jpeg_codec.hpp"
#include "codec/zstd_codec.hpp"

namespace gearbox::test {

INSTANTIATE_TEST_SUITE_P(Zstd, CodecConformance,
                         ::testing::Values(CodecCase{"usual", [] { return codec::ZstdCodec::create({}); }},
                                           CodecCase{"fastest",
                                                     [] {
                                                       return codec::ZstdCodec::create({-50, -50});
                                                     }},
                                           CodecCase{"nineteen",
                                                     [] {
                                                       return codec::ZstdCodec::create({19, 19});
                                                     }}),
                         case_name);

INSTANTIATE_TEST_SUITE_P(ImageDelta, CodecConformance,
                         ::testing::Values(CodecCase{"usual", [] { return codec::ImageDelta::create(); }}), case_name);

INSTANTIATE_TEST_SUITE_P(Jpeg, CodecConformance,
                         ::testing::Values(CodecCase{"ninety", [] { return codec::JpegCodec::create(90); }, 60},
                                           CodecCase{"best", [] { return codec::JpegCodec::create(100); }, 40}),
                         case_name);

}  // namespace gearbox::test
