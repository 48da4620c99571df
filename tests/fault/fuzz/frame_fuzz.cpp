// A connection's bytes as they travel: headers, JSON and payload of frame after frame.
#include "gearbox/wire/frame.hpp"
#include "messages.hpp"

namespace gearbox::fuzz {
namespace {

void read_json(wire::FrameType type, std::string_view json) {
  switch (type) {
    case wire::FrameType::hello:
      return read_message<wire::Hello>(json);
    case wire::FrameType::hello_ok:
      return read_message<wire::HelloOk>(json);
    case wire::FrameType::enrol:
      return read_message<wire::Enrol>(json);
    case wire::FrameType::locate:
      return read_message<wire::Locate>(json);
    case wire::FrameType::located:
      return read_message<wire::Located>(json);
    case wire::FrameType::submit:
      return read_message<wire::Submit>(json);
    case wire::FrameType::result:
      return read_message<wire::ResultMessage>(json);
    case wire::FrameType::result_part:
      return read_message<wire::PartMessage>(json);
    case wire::FrameType::node_report:
      return read_message<wire::NodeReport>(json);
    case wire::FrameType::report_ok:
      return read_message<wire::ReportOk>(json);
    default:
      return read_message<wire::ErrorMessage>(json);
  }
}

}  // namespace
}  // namespace gearbox::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gearbox;
  ByteView bytes(reinterpret_cast<const std::byte*>(data), size);
  while (bytes.size() >= wire::kHeaderBytes) {
    const auto header = wire::parse_header(bytes.first(wire::kHeaderBytes));
    if (!header) return 0;  // the connection ends
    fuzz::require(header.value().json_bytes <= wire::kMaxJsonBytes, "JSON within its limit");
    fuzz::require(header.value().payload_bytes <= wire::kMaxPayloadBytes, "payload within its limit");
    const wire::HeaderBytes again = wire::encode(header.value());
    const auto same = wire::parse_header(again);
    fuzz::require(same && wire::encode(same.value()) == again, "a header that was read can be written");
    bytes = bytes.subspan(wire::kHeaderBytes);
    const std::size_t json = std::min<std::size_t>(header.value().json_bytes, bytes.size());
    fuzz::read_json(header.value().type, {reinterpret_cast<const char*>(bytes.data()), json});
    bytes = bytes.subspan(json);
    bytes = bytes.subspan(std::min<std::size_t>(header.value().payload_bytes, bytes.size()));
  }
  fuzz::require(bytes.empty() || !wire::parse_header(bytes), "a short header is refused");
  return 0;
}
