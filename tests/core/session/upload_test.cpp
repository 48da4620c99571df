#include "core/session/node_fixture.hpp"
#include "gearbox/link/codec_chain.hpp"

namespace gearbox::session {
namespace {

using wire::FrameType;

class Upload : public NodeFixture {
 protected:
  /// Announces and returns where the node wants the bytes from.
  std::uint64_t announce(const DevicePtr& device, const std::string& json, RequestId id) {
    send(device, FrameType::submit, id, json);
    const wire::Frame answer = next(device);
    EXPECT_EQ(answer.header.type, FrameType::upload_at) << answer.json;
    return answer.header.offset;
  }
  void chunk(const DevicePtr& device, RequestId id, ByteView bytes, std::uint64_t offset, std::uint64_t count) {
    send(device, FrameType::upload_data, id, {}, bytes.subspan(offset, count), offset);
  }
  /// All frames up to the result's last; returns the result's bytes.
  Bytes result(const DevicePtr& device) {
    Bytes all;
    for (;;) {
      const wire::Frame frame = next(device);
      if (frame.header.type == FrameType::upload_at || frame.header.type == FrameType::accepted) continue;
      EXPECT_TRUE(frame.header.type == FrameType::result || frame.header.type == FrameType::result_data) << frame.json;
      if (frame.header.type != FrameType::result && frame.header.type != FrameType::result_data) return all;
      EXPECT_EQ(frame.header.offset, all.size());
      all.insert(all.end(), frame.payload.begin(), frame.payload.end());
      if ((frame.header.flags & wire::kLastPart) != 0) return all;
    }
  }
};

TEST_F(Upload, InChunksComesBackWholeInSeveralFrames) {
  start({"echo"});
  const DevicePtr device = log_in();
  const Bytes bytes = some_bytes(1'900'000);  // more than one frame each way
  ASSERT_EQ(announce(device, submit_of("echo", bytes), id_of(1)), 0U);
  for (std::uint64_t at = 0; at < bytes.size(); at += 300'000) {
    chunk(device, id_of(1), bytes, at, std::min<std::uint64_t>(300'000, bytes.size() - at));
  }
  EXPECT_EQ(result(device), bytes);
}

TEST_F(Upload, GoesOnWhereACutConnectionLeftIt) {
  start({"echo"});
  const Bytes bytes = some_bytes(400'000);
  const DevicePtr first = log_in(true);
  ASSERT_EQ(announce(first, submit_of("echo", bytes), id_of(1)), 0U);
  chunk(first, id_of(1), bytes, 0, 150'000);
  ASSERT_TRUE(until([&] { return requests_->counters().wire_bytes == 150'000; }));
  first->stream->close();

  const DevicePtr second = log_in();
  ASSERT_EQ(announce(second, submit_of("echo", bytes), id_of(1)), 150'000U);
  chunk(second, id_of(1), bytes, 150'000, 250'000);
  EXPECT_EQ(result(second), bytes);
  EXPECT_EQ(requests_->counters().wire_bytes, bytes.size());
}

TEST_F(Upload, TellsASenderThatIsOutOfStepWhereItIs) {
  start({"echo"});
  const DevicePtr device = log_in();
  const Bytes bytes = some_bytes(3000);
  ASSERT_EQ(announce(device, submit_of("echo", bytes), id_of(1)), 0U);
  chunk(device, id_of(1), bytes, 1000, 1000);  // a hole
  wire::Frame answer = next(device);
  EXPECT_EQ(answer.header.type, FrameType::upload_at);
  EXPECT_EQ(answer.header.offset, 0U);
  chunk(device, id_of(1), bytes, 0, 1000);
  chunk(device, id_of(1), bytes, 0, 1000);  // a repeat
  answer = next(device);
  EXPECT_EQ(answer.header.offset, 1000U);
  chunk(device, id_of(1), bytes, 1000, 2000);
  EXPECT_EQ(result(device), bytes);
}

TEST_F(Upload, BytesThatChangedOnTheWayFailThatRequestOnly) {
  start({"echo"});
  const DevicePtr device = log_in();
  Bytes bytes = some_bytes(5000);
  const std::string announced = submit_of("echo", bytes);
  ASSERT_EQ(announce(device, announced, id_of(1)), 0U);
  bytes[2500] ^= std::byte{1};
  chunk(device, id_of(1), bytes, 0, bytes.size());
  EXPECT_EQ(error_of(next(device)).code, Errc::digest_mismatch);
  EXPECT_EQ(ask(device, "echo", bytes, id_of(2)).header.type, FrameType::result);
}

TEST_F(Upload, FromTwoConnectionsCannotSpoilEachOther) {
  start({"echo"});
  const Bytes bytes = some_bytes(200'000);
  const DevicePtr first = log_in();
  ASSERT_EQ(announce(first, submit_of("echo", bytes), id_of(1)), 0U);
  const DevicePtr second = log_in();
  ASSERT_EQ(announce(second, submit_of("echo", bytes), id_of(1)), 0U);
  // The first one does not know that it was taken over; what it sends is skipped.
  const Bytes rubbish(100'000, std::byte{0xEE});
  chunk(first, id_of(1), rubbish, 0, rubbish.size());
  chunk(second, id_of(1), bytes, 0, bytes.size());
  EXPECT_EQ(result(second), bytes);
}

TEST_F(Upload, WaitsForMemoryThatAnotherHolds) {
  config_.node.limits.max_uploads_at_once = 1;
  start({"echo"});
  const DevicePtr device = log_in();
  const Bytes bytes = some_bytes(10'000);
  ASSERT_EQ(announce(device, submit_of("echo", bytes), id_of(1)), 0U);
  send(device, FrameType::submit, id_of(2), submit_of("echo", bytes));
  send(device, FrameType::ping, {}, {});
  EXPECT_EQ(next(device).header.type, FrameType::pong) << "the second one was admitted although the place is taken";
  chunk(device, id_of(1), bytes, 0, bytes.size());
  bool admitted = false;
  ASSERT_TRUE(until([&] {
    for (const wire::Frame& frame : device->inbox) {
      admitted = admitted || (frame.header.type == FrameType::upload_at && frame.header.request == id_of(2));
    }
    return admitted;
  }));
}

TEST_F(Upload, OfOneDeviceLeavesRoomForOthersAndForCalls) {
  config_.node.limits.max_upload_bytes = 8 << 20;
  start({"echo"});
  const DevicePtr device = log_in();
  const Bytes bytes = some_bytes(3 << 20);  // of an arena of 8 MiB
  ASSERT_EQ(announce(device, submit_of("echo", bytes), id_of(1)), 0U);
  send(device, FrameType::submit, id_of(2), submit_of("echo", bytes));
  send(device, FrameType::ping, {}, {});
  EXPECT_EQ(next(device).header.type, FrameType::pong) << "one device took more than half of the arena";
  EXPECT_EQ(ask(device, "echo", some_bytes(100), id_of(3)).header.type, FrameType::result);
}

TEST_F(Upload, PlacesAreSharedAmongDevices) {
  config_.node.limits.max_uploads_at_once = 16;  // 2 for each device
  start({"echo"});
  const DevicePtr device = log_in();
  const Bytes bytes = some_bytes(1000);
  for (unsigned char i = 1; i <= 2; ++i) ASSERT_EQ(announce(device, submit_of("echo", bytes), id_of(i)), 0U);
  send(device, FrameType::submit, id_of(3), submit_of("echo", bytes));
  send(device, FrameType::ping, {}, {});
  EXPECT_EQ(next(device).header.type, FrameType::pong) << "a third place for one device";
  chunk(device, id_of(1), bytes, 0, bytes.size());
  bool admitted = false;
  EXPECT_TRUE(until([&] {
    for (const wire::Frame& frame : device->inbox) {
      admitted = admitted || (frame.header.type == FrameType::upload_at && frame.header.request == id_of(3));
    }
    return admitted;
  }));
}

TEST_F(Upload, OfACutPictureIsRefusedWithoutAskingTheModel) {
  start({"echo"});
  const DevicePtr device = log_in();
  const std::string png("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x8\2\0\0\0", 29);
  const Error error = error_of(ask(device, "echo", view_of(png), id_of(1)));
  EXPECT_EQ(error.code, Errc::bad_picture);
  EXPECT_NE(error.detail.find("input 'x'"), std::string::npos) << error.detail;
  EXPECT_EQ(calls(), 0U);
}

class CodedUpload : public Upload {
 protected:
  struct Coded {
    std::string json;
    Bytes wire;
    std::vector<std::size_t> tiles;
  };
  Coded code(ByteView bytes) {
    const wire::TensorSpec spec{"x", wire::DType::uint8, {static_cast<std::int64_t>(bytes.size())}, bytes.size()};
    std::vector<link::NamedCodec> codecs = {{"zstd", service_.codec("zstd").value()}};
    auto chain = link::CodecChain::create(spec, std::move(codecs)).value();
    Coded coded;
    Bytes tile(chain.coded_bound());
    for (std::size_t i = 0; i < chain.layout().count(); ++i) {
      const std::size_t used = chain.encode(i, bytes, tile).value();
      coded.wire.insert(coded.wire.end(), tile.begin(), tile.begin() + static_cast<std::ptrdiff_t>(used));
      coded.tiles.push_back(used);
    }
    wire::Submit submit;
    submit.task = "echo";
    submit.inputs = {{spec, coded.wire.size(), {"zstd"}}};
    submit.wire_bytes = coded.wire.size();
    link::Digest digest;
    digest.update(coded.wire);
    submit.digest = digest.hex();
    coded.json = wire::to_json(submit);
    return coded;
  }
  void send_tiles(const DevicePtr& device, RequestId id, const Coded& coded) {
    std::uint64_t at = 0;
    for (const std::size_t tile : coded.tiles) {
      chunk(device, id, coded.wire, at, tile);
      at += tile;
    }
  }
};

TEST_F(CodedUpload, IsDecodedIntoPlace) {
  start({"echo"});
  const DevicePtr device = log_in();
  const Bytes bytes = some_bytes(900'000);
  const Coded coded = code(bytes);
  ASSERT_GT(coded.tiles.size(), 1U);
  ASSERT_LT(coded.wire.size(), bytes.size());
  ASSERT_EQ(announce(device, coded.json, id_of(1)), 0U);
  send_tiles(device, id_of(1), coded);
  EXPECT_EQ(result(device), bytes);
}

TEST_F(CodedUpload, OfRubbishFailsThatRequestOnly) {
  start({"echo"});
  const DevicePtr device = log_in();
  Coded coded = code(some_bytes(900'000));
  ASSERT_EQ(announce(device, coded.json, id_of(1)), 0U);
  std::fill(coded.wire.begin(), coded.wire.begin() + 50, std::byte{0x55});
  send_tiles(device, id_of(1), coded);
  EXPECT_EQ(error_of(next(device)).code, Errc::corrupt_data);
  EXPECT_EQ(ask(device, "echo", some_bytes(10), id_of(2)).header.type, FrameType::result);
}

TEST_F(CodedUpload, WithACodecThatTheNodeDoesNotHaveIsRefused) {
  start({"echo"});
  const DevicePtr device = log_in();
  std::string json = code(some_bytes(1000)).json;
  json.replace(json.find("zstd"), 4, "none");
  send(device, FrameType::submit, id_of(1), json);
  EXPECT_EQ(error_of(next(device)).code, Errc::not_found);
}

}  // namespace
}  // namespace gearbox::session
