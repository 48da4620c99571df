// payload.hpp: from files to an announced upload: read, looked at, coded where that saves bytes. Blocking; runs on the
// pool.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gearbox/base/outcome.hpp"
#include "gearbox/link/upload.hpp"
#include "gearbox/wire/messages.hpp"

namespace gearbox::client {

struct InputFile {
  std::string tensor;
  std::string file;
};

/// What makes up one request.
struct RequestFiles {
  std::string label;  // for people and JSON: the file, or all NAME=FILE
  std::vector<InputFile> inputs;
};

struct PayloadLimits {
  std::optional<int> lossy;  // JPEG quality for raw 8-bit frames
};

/// Largest file that is read at all.
inline constexpr std::uint64_t kMaxFileBytes = 512ULL * 1024 * 1024;

struct Payload {
  wire::Submit submit;  // without the task
  std::shared_ptr<link::UploadSender> sender;
  bool stored = false;  // no input is coded
};

/// Reads and checks all files of one request and codes what gains by it.
/// Errors, each with the file's name: io_error (cannot be read); bad_picture (empty, cut, of no known type, of absurd
/// size); too_large (over kMaxFileBytes); bad_input (the same tensor twice).
Outcome<Payload> prepare(const RequestFiles& files, const PayloadLimits& limits);

/// The same of one input whose file has been read already; its name only says what it should be. Errors: as above.
Outcome<Payload> prepare(const InputFile& named_as, Bytes bytes, const PayloadLimits& limits);

}  // namespace gearbox::client
