#include "codec/zstd_codec.hpp"

namespace {
using gearbox::Outcome;
namespace plugin = gearbox::plugin;

constexpr plugin::OptionSpec kOptions[] = {
    {.key = "level",
     .type = plugin::OptionType::integer,
     .fallback = "1",
     .unit = "",
     .help = "zstd level for all but 8-bit pictures: higher is smaller and slower, negative is fastest",
     .lowest = gearbox::codec::kLowestZstdLevel,
     .highest = gearbox::codec::kHighestZstdLevel},
    {.key = "picture_level",
     .type = plugin::OptionType::integer,
     .fallback = "-50",
     .unit = "",
     .help = "zstd level for 8-bit pictures; image_delta before it leaves little but Huffman coding to do",
     .lowest = gearbox::codec::kLowestZstdLevel,
     .highest = gearbox::codec::kHighestZstdLevel}};

Outcome<std::unique_ptr<plugin::Codec>> make(const plugin::Options& options) {
  gearbox::codec::ZstdSettings settings;
  BOOST_OUTCOME_TRY(const std::int64_t level, options.integer("level"));
  BOOST_OUTCOME_TRY(const std::int64_t picture_level, options.integer("picture_level"));
  settings.level = static_cast<int>(level);
  settings.picture_level = static_cast<int>(picture_level);
  return gearbox::codec::ZstdCodec::create(settings);
}
}  // namespace

GEARBOX_PLUGIN(codec, "zstd", "1.0", "Zstandard, one frame for each tile", kOptions, make)
