#include "codec_choice.hpp"

#include "codec/image_delta.hpp"
#include "codec/jpeg_codec.hpp"
#include "codec/zstd_codec.hpp"
#include "gearbox/link/codec_chain.hpp"

namespace gearbox::client {

namespace {

constexpr double kWorthIt = 0.95;       // of the plain bytes; less gain does not pay for the node's decoding
constexpr double kWorthAFilter = 0.97;  // of what zstd alone leaves: the pixel filter has to earn its pass

Outcome<link::NamedCodec> shared(const char* name, Outcome<std::unique_ptr<plugin::Codec>> made) {
  if (!made) return std::move(made).error();
  return link::NamedCodec{name, std::shared_ptr<plugin::Codec>(std::move(made).value())};
}

Outcome<link::CodecChain> zstd_chain(const wire::TensorSpec& spec, bool filtered) {
  std::vector<link::NamedCodec> codecs;
  if (filtered) {
    BOOST_OUTCOME_TRY(link::NamedCodec delta, shared("image_delta", codec::ImageDelta::create()));
    codecs.push_back(std::move(delta));
  }
  BOOST_OUTCOME_TRY(link::NamedCodec zstd, shared("zstd", codec::ZstdCodec::create(codec::ZstdSettings{})));
  codecs.push_back(std::move(zstd));
  return link::CodecChain::create(spec, std::move(codecs));
}

Outcome<link::CodecChain> jpeg_chain(const wire::TensorSpec& spec, int quality) {
  BOOST_OUTCOME_TRY(link::NamedCodec jpeg, shared("jpeg", codec::JpegCodec::create(quality)));
  std::vector<link::NamedCodec> codecs;
  codecs.push_back(std::move(jpeg));
  return link::CodecChain::create(spec, std::move(codecs));
}

struct Choice {
  link::CodecChain chain;
  std::vector<std::string> names;
};

/// The chain to take, or none. A chain that does not take this tensor is no error: another may, and storing always
/// works.
Outcome<std::optional<Choice>> choose(const wire::TensorSpec& spec, ByteView bytes, std::optional<int> lossy) {
  std::optional<Choice> chosen;
  if (lossy) {
    Outcome<link::CodecChain> jpeg = jpeg_chain(spec, *lossy);
    if (jpeg) {
      BOOST_OUTCOME_TRY(const double ratio, jpeg.value().try_ratio(bytes));
      if (ratio < kWorthIt) {
        chosen.emplace(Choice{std::move(jpeg).value(), {"jpeg"}});
        return chosen;
      }
    }
  }
  double plain_ratio = 1.0;
  Outcome<link::CodecChain> plain = zstd_chain(spec, false);
  if (plain) {
    BOOST_OUTCOME_TRY(plain_ratio, plain.value().try_ratio(bytes));
  }
  Outcome<link::CodecChain> filtered = zstd_chain(spec, true);
  if (filtered) {
    BOOST_OUTCOME_TRY(const double ratio, filtered.value().try_ratio(bytes));
    if (ratio < kWorthIt && ratio < plain_ratio * kWorthAFilter) {
      chosen.emplace(Choice{std::move(filtered).value(), {"image_delta", "zstd"}});
      return chosen;
    }
  }
  if (plain && plain_ratio < kWorthIt) chosen.emplace(Choice{std::move(plain).value(), {"zstd"}});
  return chosen;
}

}  // namespace

CodedInput store_input(wire::TensorSpec spec, Bytes bytes) {
  CodedInput input;
  input.spec.tensor = std::move(spec);
  input.spec.wire_bytes = bytes.size();
  input.upload.wire = std::move(bytes);
  return input;
}

Outcome<CodedInput> code_input(wire::TensorSpec spec, Bytes bytes, std::optional<int> lossy) {
  BOOST_OUTCOME_TRY(wire::check(spec));
  BOOST_OUTCOME_TRY(std::optional<Choice> choice, choose(spec, bytes, lossy));
  if (!choice) return store_input(std::move(spec), std::move(bytes));
  CodedInput input;
  Bytes tile(choice->chain.coded_bound());
  const std::size_t tiles = choice->chain.layout().count();
  for (std::size_t i = 0; i < tiles; ++i) {
    BOOST_OUTCOME_TRY(const std::size_t used, choice->chain.encode(i, bytes, tile));
    input.upload.wire.insert(input.upload.wire.end(), tile.begin(), tile.begin() + static_cast<std::ptrdiff_t>(used));
    input.upload.tile_bytes.push_back(static_cast<std::uint32_t>(used));
  }
  if (input.upload.wire.size() >= bytes.size()) return store_input(std::move(spec), std::move(bytes));
  input.spec.tensor = std::move(spec);
  input.spec.wire_bytes = input.upload.wire.size();
  input.spec.codecs = std::move(choice->names);
  return input;
}

}  // namespace gearbox::client
