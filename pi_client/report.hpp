// report.hpp: all that is known about one request when it has ended; what output prints.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gearbox/base/bytes.hpp"
#include "gearbox/base/clock.hpp"
#include "gearbox/base/error.hpp"
#include "gearbox/base/ids.hpp"
#include "gearbox/wire/messages.hpp"

namespace gearbox::client {

/// How one input travelled.
struct InputNote {
  std::string name;
  std::vector<std::string> codecs;  // empty: stored
};

/// The device's side of the time; the node's is in wire::Timing.
struct DeviceTiming {
  microseconds prepare{0};  // read, checked, coded
  microseconds locate{0};   // central asked, answer there; zero when an earlier answer still held
  microseconds connect{0};  // node dialled, channel and login done; zero on an open connection
  microseconds upload{0};   // submit written → accepted (or the result, where no acceptance came before)
  microseconds reply{0};    // submit written → result whole, without the time that the node accounts for
  microseconds total{0};    // this file's turn → result whole
};

/// `sent` and `received` are this request's frames with all their overhead, over all attempts.
struct Traffic {
  std::uint64_t plain = 0;  // the inputs decoded
  std::uint64_t wire = 0;   // the inputs as uploaded
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
};

struct Report {
  std::string file;  // as given; several inputs: "color=c.ppm depth=d.npy"
  std::string task;
  RequestId request;
  std::string node;  // empty while none was reached
  std::vector<InputNote> inputs;
  std::optional<Error> error;
  wire::ResultMessage result;      // without an error
  Bytes payload;                   // the tensors' bytes, one after the other
  std::uint32_t parts = 0;         // of a streamed answer, handed on before this
  std::vector<std::string> paths;  // per tensor: the file it was written to, or empty
  DeviceTiming timing;
  Traffic traffic;
};

/// The bytes of result tensor `index`; empty when the payload does not reach that far.
inline ByteView bytes_of(const Report& report, std::size_t index) {
  std::uint64_t at = 0;
  for (std::size_t i = 0; i < index; ++i) at += report.result.tensors[i].bytes;
  const std::uint64_t size = report.result.tensors[index].bytes;
  if (at > report.payload.size() || size > report.payload.size() - at) return {};
  return ByteView(report.payload).subspan(at, size);
}

}  // namespace gearbox::client
