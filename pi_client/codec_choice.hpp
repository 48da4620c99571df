// codec_choice.hpp: how one tensor travels, found out by coding a sample of it.
#pragma once

#include <optional>

#include "gearbox/link/upload.hpp"
#include "gearbox/wire/messages.hpp"

namespace gearbox::client {

struct CodedInput {
  wire::InputSpec spec;
  link::UploadSender::Input upload;
};

/// Sent as it is.
CodedInput store_input(wire::TensorSpec spec, Bytes bytes);

/// Tries image_delta + zstd, then zstd, on one tile from the middle, takes the better one when it saves at least a
/// twentieth, and codes the whole; else stored, also when the whole comes out no smaller. `lossy`: JPEG of that quality
/// first, where the tensor is 8-bit grey or colour. Errors: bad_input when spec and bytes do not fit; what a codec
/// says.
Outcome<CodedInput> code_input(wire::TensorSpec spec, Bytes bytes, std::optional<int> lossy);

}  // namespace gearbox::client
