// Coded tiles from outside into each codec, and anything through each lossless one and back.
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "codec/image_delta.hpp"
#include "codec/jpeg_codec.hpp"
#include "codec/zstd_codec.hpp"
#include "fuzz.hpp"
#include "gearbox/link/codec_chain.hpp"

namespace gearbox::fuzz {
namespace {

wire::TensorSpec picture(Input& input) {
  wire::TensorSpec spec;
  spec.name = "x";
  const bool deep = input.take<std::uint8_t>() % 4 == 0;
  spec.dtype = deep ? wire::DType::uint16 : wire::DType::uint8;
  const std::int64_t height = 1 + input.take<std::uint8_t>();
  const std::int64_t width = 1 + input.take<std::uint8_t>();
  spec.shape = {height, width};
  if (!deep) spec.shape.push_back(1 + input.take<std::uint8_t>() % 4);
  spec.bytes = wire::element_bytes(spec.dtype);
  for (const std::int64_t side : spec.shape) spec.bytes *= static_cast<std::uint64_t>(side);
  return spec;
}

std::vector<link::NamedCodec> chain(std::uint8_t kind) {
  const auto named = [](const char* name, auto made) {
    require(made.has_value(), "the codec can be made");
    return link::NamedCodec{name, std::shared_ptr<plugin::Codec>(std::move(made).value())};
  };
  const auto delta = named("image_delta", codec::ImageDelta::create());
  const auto zstd = named("zstd", codec::ZstdCodec::create({}));
  const auto jpeg = named("jpeg", codec::JpegCodec::create(80));
  switch (kind % 4) {
    case 0:
      return {zstd};
    case 1:
      return {delta};
    case 2:
      return {delta, zstd};
    default:
      return {jpeg};
  }
}

}  // namespace
}  // namespace gearbox::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gearbox;
  fuzz::Input input(data, size);
  const auto kind = input.take<std::uint8_t>();
  const bool back = input.take<std::uint8_t>() % 2 == 0;
  const wire::TensorSpec spec = fuzz::picture(input);
  auto made = link::CodecChain::create(spec, fuzz::chain(kind));
  if (!made) return 0;
  link::CodecChain chain = std::move(made).value();
  Bytes plain(spec.bytes);
  if (!back) {
    for (std::size_t i = 0; i < chain.layout().count(); ++i) (void)chain.decode(i, input.rest(), plain);
    return 0;
  }
  for (std::size_t i = 0; i < plain.size() && !input.rest().empty(); ++i)
    plain[i] = input.rest()[i % input.rest().size()];
  Bytes coded(chain.coded_bound());
  Bytes decoded(spec.bytes);
  for (std::size_t i = 0; i < chain.layout().count(); ++i) {
    const auto used = chain.encode(i, plain, coded);
    fuzz::require(used && used.value() <= coded.size(), "a tile can be coded");
    fuzz::require(chain.decode(i, ByteView(coded).first(used.value()), decoded).has_value(), "and decoded");
  }
  fuzz::require(!chain.lossless() || decoded == plain, "a lossless codec gives back every bit");
  return 0;
}
