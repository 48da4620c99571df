// streaming_fixture.hpp: a node with a model that answers in parts, and a device that takes them.
#pragma once

#include "core/session/node_fixture.hpp"

namespace gearbox::session {

using wire::FrameType;

class Streaming : public NodeFixture {
 protected:
  Streaming() {
    add_model("stream");
    config_.models.back().stream = true;
    config_.models.back().prefetch = 5;
    config_.models.back().max_output_bytes = 64 << 10;
    add_task("stream", {{"tell", "stream"}});
  }

  static std::string announcement(const std::string& words, bool parts) {
    wire::Submit submit = wire::parse<wire::Submit>(submit_of("stream", view_of(words))).value();
    submit.stream = parts;
    return wire::to_json(submit);
  }
  /// `from`: parts that the device has already.
  void ask_for(const DevicePtr& device, const std::string& words, RequestId id, std::uint32_t from = 0,
               bool parts = true) {
    wire::FrameHeader header;
    header.type = FrameType::submit;
    header.request = id;
    header.flags = wire::kInlinePayload;
    header.part = from;
    const ByteView bytes = view_of(words);
    asio::co_spawn(io_, write(device, header, announcement(words, parts), Bytes(bytes.begin(), bytes.end())),
                   asio::detached);
  }
  void acknowledge(const DevicePtr& device, RequestId id, std::uint32_t parts) {
    wire::FrameHeader header;
    header.type = FrameType::part_ack;
    header.request = id;
    header.part = parts;
    asio::co_spawn(io_, write(device, header, {}, {}), asio::detached);
  }
  /// The next part, which must be whole in one frame; its number, which header and bytes agree on.
  std::uint32_t part(const DevicePtr& device) {
    const wire::Frame frame = next_final(device);
    EXPECT_EQ(frame.header.type, FrameType::result_part) << frame.json;
    if (frame.header.type != FrameType::result_part) return ~0U;
    EXPECT_EQ(frame.header.flags & wire::kLastPart, wire::kLastPart);
    const auto message = wire::parse<wire::PartMessage>(frame.json);
    EXPECT_TRUE(message && message.value().tensors.size() == 1 && message.value().tensors[0].name == "y") << frame.json;
    EXPECT_EQ(load_le<std::uint32_t>(frame.payload.data()), frame.header.part);
    return frame.header.part;
  }
  /// Takes and acknowledges parts `from` to `to`, the latter not included.
  void take(const DevicePtr& device, RequestId id, std::uint32_t from, std::uint32_t to) {
    for (std::uint32_t i = from; i < to; ++i) {
      ASSERT_EQ(part(device), i);
      acknowledge(device, id, i + 1);
    }
  }
  /// Parts that the worker has made of a request, as far as the node knows.
  std::uint32_t made(RequestId id) {
    const auto trace = book_.find(to_text(id));
    if (!trace) return 0;
    const explain::Trace now = requests_->as_of_now(*trace.value());
    if (now.steps.empty() || now.steps[0].still_open.empty()) return 0;
    return now.steps[0].still_open[0].parts;
  }
  bool quiet_for(milliseconds time) {
    const Instant until_then = after(Clock::now(), time);
    return until([&] { return Clock::now() >= until_then; });
  }
};

}  // namespace gearbox::session
