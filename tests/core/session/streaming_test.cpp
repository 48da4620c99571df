// Streamed answers between a device and a node around real workers: order, back-pressure, resuming, ends of all kinds.
#include <csignal>

#include "core/session/streaming_fixture.hpp"

namespace gearbox::session {
namespace {

constexpr std::uint32_t kRooms = 4;

TEST_F(Streaming, SendsPartsInOrderThenTheResultWithTheirNumber) {
  start({"stream"});
  const DevicePtr device = log_in();
  ask_for(device, "count=2000 size=20", id_of(1));
  take(device, id_of(1), 0, 2000);
  const wire::Frame end = next_final(device);
  ASSERT_EQ(end.header.type, FrameType::result) << end.json;
  const auto result = wire::parse<wire::ResultMessage>(end.json);
  ASSERT_TRUE(result);
  EXPECT_EQ(result.value().parts, 2000U);
  EXPECT_TRUE(result.value().tensors.empty());
  EXPECT_EQ(result.value().timing.steps.at(0).model, "stream");
  send(device, FrameType::result_ack, id_of(1), {});
  ASSERT_TRUE(until([&] { return pool_->memory().output_used == 0 && pool_->memory().input_used == 0; }));
}

TEST_F(Streaming, ADeviceThatAcknowledgesNothingStopsTheModelAtTheWindow) {
  start({"stream"});
  const DevicePtr device = log_in();
  ask_for(device, "count=5000 size=100", id_of(1));
  for (std::uint32_t i = 0; i < StreamOut::kWindowParts; ++i) ASSERT_EQ(part(device), i);
  ASSERT_TRUE(until([&] { return made(id_of(1)) == StreamOut::kWindowParts + kRooms; })) << made(id_of(1));
  ASSERT_TRUE(quiet_for(milliseconds(150)));
  EXPECT_EQ(made(id_of(1)), StreamOut::kWindowParts + kRooms);
  EXPECT_TRUE(device->inbox.empty());
  EXPECT_EQ(pool_->workers()[0].state, "ready");
  // Another request of the same device, at the same worker and over the same connection, is not held up.
  ask_for(device, "count=300", id_of(2));
  take(device, id_of(2), 0, 300);
  ASSERT_EQ(next_final(device).header.type, FrameType::result);

  acknowledge(device, id_of(1), StreamOut::kWindowParts);
  take(device, id_of(1), StreamOut::kWindowParts, 5000);
  EXPECT_EQ(next_final(device).header.type, FrameType::result);
}

TEST_F(Streaming, TheWindowIsBoundedInBytesToo) {
  start({"stream"});
  const DevicePtr device = log_in();
  ask_for(device, "count=100 size=60000", id_of(1));
  const std::uint32_t fit = StreamOut::kWindowBytes / 60000;
  for (std::uint32_t i = 0; i < fit; ++i) ASSERT_EQ(part(device), i);
  ASSERT_TRUE(until([&] { return made(id_of(1)) == fit + kRooms; }));
  ASSERT_TRUE(quiet_for(milliseconds(100)));
  EXPECT_TRUE(device->inbox.empty());
  acknowledge(device, id_of(1), fit);
  take(device, id_of(1), fit, 100);
  EXPECT_EQ(next_final(device).header.type, FrameType::result);
}

TEST_F(Streaming, ADeviceThatComesBackGetsEachPartOnce) {
  start({"stream"});
  RequestId id = id_of(1);
  DevicePtr device = log_in(true);
  ask_for(device, "count=1000 size=50", id);
  take(device, id, 0, 100);
  ASSERT_EQ(part(device), 100U);  // this one it has, but its acknowledgement was lost
  device->stream->close();
  ASSERT_TRUE(until([&] { return device->ended; }));

  device = log_in();
  ask_for(device, "count=1000 size=50", id, 101);
  take(device, id, 101, 400);
  // The next connection does not even know what the last one got: from what was acknowledged on.
  ASSERT_EQ(part(device), 400U);
  ASSERT_EQ(part(device), 401U);
  // While the old one is still open.
  const DevicePtr third = log_in();
  ask_for(third, "count=1000 size=50", id, 400);
  take(third, id, 400, 1000);
  const wire::Frame end = next_final(third);
  ASSERT_EQ(end.header.type, FrameType::result) << end.json;
  EXPECT_EQ(wire::parse<wire::ResultMessage>(end.json).value().parts, 1000U);
  EXPECT_EQ(calls(), 1U) << "it ran once";
  // Once more after the end, as if the result had been lost.
  const DevicePtr fourth = log_in();
  ask_for(fourth, "count=1000 size=50", id, 1000);
  EXPECT_EQ(next_final(fourth).header.type, FrameType::result);
}

TEST_F(Streaming, WhatADeviceHasNotTakenIsThereWhenItComesBackAfterTheEnd) {
  start({"stream"});
  const DevicePtr device = log_in(true);
  ask_for(device, "count=60", id_of(1));
  ASSERT_EQ(part(device), 0U);
  device->stream->close();
  ASSERT_TRUE(until([&] { return requests_->counters().answered == 1; }));
  ASSERT_TRUE(until([&] { return pool_->memory().output_used == 0; })) << "the answer waits outside of the arena";
  const DevicePtr again = log_in();
  ask_for(again, "count=60", id_of(1), 1);
  take(again, id_of(1), 1, 60);
  EXPECT_EQ(next_final(again).header.type, FrameType::result);
}

TEST_F(Streaming, ACancelReachesTheModel) {
  start({"stream"});
  const DevicePtr device = log_in();
  ask_for(device, "count=100000", id_of(1));
  take(device, id_of(1), 0, 10);
  send(device, FrameType::cancel, id_of(1), {});
  ASSERT_TRUE(until([&] { return requests_->open() == 0; }));
  ASSERT_TRUE(until([&] { return pool_->workers()[0].running == 0; })) << "the worker goes on with it";
  for (;;) {
    const wire::Frame frame = next_final(device);
    if (frame.header.type == FrameType::result_part) continue;  // on its way when it was cancelled
    EXPECT_EQ(error_of(frame).code, Errc::cancelled);
    break;
  }
  EXPECT_EQ(pool_->memory().output_used, 0U);
}

TEST_F(Streaming, ADeadlineEndsAStreamThatNobodyTakes) {
  start({"stream"});
  const DevicePtr device = log_in();
  const std::string words = "count=100000";
  send(device, FrameType::submit, id_of(1), announcement(words, true), view_of(words), 0, wire::kInlinePayload, 300);
  for (std::uint32_t i = 0; i < StreamOut::kWindowParts; ++i) ASSERT_EQ(part(device), i);
  EXPECT_EQ(error_of(next_final(device)).code, Errc::deadline_exceeded);
  ASSERT_TRUE(until([&] { return pool_->workers()[0].running == 0; }));
}

TEST_F(Streaming, AFailureComesAfterTheParts) {
  start({"stream"});
  const DevicePtr device = log_in();
  ask_for(device, "count=200 fail=150", id_of(1));
  take(device, id_of(1), 0, 150);
  const Error error = error_of(next_final(device));
  EXPECT_EQ(error.code, Errc::model_failed);
  EXPECT_NE(error.detail.find("ValueError: in the middle"), std::string::npos) << error.detail;
}

TEST_F(Streaming, AWorkerThatDiesInTheMiddleBreaksTheStream) {
  start({"stream"});
  const DevicePtr device = log_in();
  ask_for(device, "count=200 die=5", id_of(1));
  take(device, id_of(1), 0, 5);
  const Error error = error_of(next_final(device));
  EXPECT_EQ(error.code, Errc::stream_broken) << error.detail;
  EXPECT_NE(error.detail.find("after 5 parts"), std::string::npos) << error.detail;
  EXPECT_EQ(dispatcher_->retries(), 0U);
  // The next one is served by the next process.
  ask_for(device, "count=2", id_of(2));
  take(device, id_of(2), 0, 2);
  EXPECT_EQ(next_final(device).header.type, FrameType::result);
}

TEST_F(Streaming, AWorkerThatDiesBeforeTheFirstPartIsReplacedAndAllPartsCome) {
  start({"stream"});
  const DevicePtr device = log_in();
  const int pid = pool_->workers()[0].pid;
  ::kill(pid, SIGSTOP);
  ask_for(device, "count=100", id_of(1));
  ASSERT_TRUE(until([&] { return pool_->workers()[0].running == 1; }));
  ::kill(pid, SIGKILL);
  take(device, id_of(1), 0, 100);
  EXPECT_EQ(next_final(device).header.type, FrameType::result);
  EXPECT_EQ(dispatcher_->retries(), 1U);
}

TEST_F(Streaming, ADeviceThatTakesNoPartsGetsThemTogether) {
  start({"stream"});
  const DevicePtr device = log_in();
  ask_for(device, "count=3000 size=8", id_of(1), 0, false);
  const wire::Frame end = next_final(device);
  ASSERT_EQ(end.header.type, FrameType::result) << end.json;
  const auto result = wire::parse<wire::ResultMessage>(end.json).value();
  EXPECT_EQ(result.parts, 0U);
  ASSERT_EQ(result.tensors.size(), 1U);
  EXPECT_EQ(result.tensors[0].name, "y");
  EXPECT_EQ(result.tensors[0].shape, (std::vector<std::int64_t>{3000, 8}));
  ASSERT_EQ(end.payload.size(), 24000U);
  for (std::uint32_t i = 0; i < 3000; ++i) ASSERT_EQ(load_le<std::uint32_t>(end.payload.data() + i * 8), i);
}

TEST_F(Streaming, PartsThatAreTooMuchTogetherAreRefusedInWords) {
  start({"stream"});
  const DevicePtr device = log_in();
  ask_for(device, "count=400 size=60000", id_of(1), 0, false);
  const Error error = error_of(next_final(device));
  EXPECT_EQ(error.code, Errc::result_too_large);
  ASSERT_TRUE(until([&] { return pool_->workers()[0].running == 0; }));
}

TEST_F(Streaming, APartMayBeLargerThanAFrame) {
  config_.models.back().max_output_bytes = 1500 << 10;
  config_.models.back().prefetch = 1;
  start({"stream"});
  const DevicePtr device = log_in();
  ask_for(device, "count=3 size=1400000", id_of(1));
  for (std::uint32_t i = 0; i < 3; ++i) {
    const wire::Frame first = next_final(device);
    ASSERT_EQ(first.header.type, FrameType::result_part) << first.json;
    EXPECT_EQ(first.header.flags & wire::kLastPart, 0);
    EXPECT_EQ(first.payload.size(), wire::kMaxPayloadBytes);
    const wire::Frame rest = next_final(device);
    EXPECT_EQ(rest.header.part, i);
    EXPECT_EQ(rest.header.offset, wire::kMaxPayloadBytes);
    EXPECT_EQ(rest.header.flags & wire::kLastPart, wire::kLastPart);
    EXPECT_EQ(first.payload.size() + rest.payload.size(), 1'400'000U);
    EXPECT_EQ(rest.payload.back(), static_cast<std::byte>(i));
    acknowledge(device, id_of(1), i + 1);
  }
  EXPECT_EQ(next_final(device).header.type, FrameType::result);
}

TEST_F(Streaming, ARequestOfWhichPartsWereDeliveredIsNotBegunAnewElsewhere) {
  start({"stream"});
  const DevicePtr device = log_in();
  ask_for(device, "count=10", id_of(1), 5);
  const Error error = error_of(next_final(device));
  EXPECT_EQ(error.code, Errc::stream_broken);
  EXPECT_EQ(calls(), 0U);
}

TEST_F(Streaming, AnAcknowledgementOfWhatWasNotSentIsNotBelieved) {
  start({"stream"});
  const DevicePtr device = log_in();
  ask_for(device, "count=500", id_of(1));
  ASSERT_EQ(part(device), 0U);
  acknowledge(device, id_of(1), 400);
  acknowledge(device, id_of(1), 0xFFFFFFFF);
  for (std::uint32_t i = 1; i < StreamOut::kWindowParts; ++i) ASSERT_EQ(part(device), i);
  ASSERT_TRUE(quiet_for(milliseconds(50)));
  EXPECT_TRUE(device->inbox.empty());
  // Of another device's request nothing at all.
  acknowledge(device, id_of(2), 1);
  acknowledge(device, id_of(1), StreamOut::kWindowParts);
  take(device, id_of(1), StreamOut::kWindowParts, 500);
  EXPECT_EQ(next_final(device).header.type, FrameType::result);
}

}  // namespace
}  // namespace gearbox::session
