#include "codec/image_delta.hpp"

namespace {
namespace plugin = gearbox::plugin;

gearbox::Outcome<std::unique_ptr<plugin::Codec>> make(const plugin::Options&) {
  return gearbox::codec::ImageDelta::create();
}
}  // namespace

GEARBOX_PLUGIN(codec, "image_delta", "1.0", "lossless colour and gradient prediction in front of an entropy coder",
               nullptr, make)
