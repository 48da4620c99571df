#include "codec/jpeg_codec.hpp"

namespace {
namespace plugin = gearbox::plugin;

constexpr plugin::OptionSpec kOptions[] = {{.key = "quality",
                                            .type = plugin::OptionType::integer,
                                            .fallback = "90",
                                            .unit = "",
                                            .help = "1 (smallest) to 100 (best); lossy at any value",
                                            .lowest = gearbox::codec::kLowestJpegQuality,
                                            .highest = gearbox::codec::kHighestJpegQuality}};

gearbox::Outcome<std::unique_ptr<plugin::Codec>> make(const plugin::Options& options) {
  BOOST_OUTCOME_TRY(const std::int64_t quality, options.integer("quality"));
  return gearbox::codec::JpegCodec::create(static_cast<int>(quality));
}
}  // namespace

GEARBOX_PLUGIN(codec, "jpeg", "1.0", "baseline JPEG, lossy, for tasks that allow it", kOptions, make)
