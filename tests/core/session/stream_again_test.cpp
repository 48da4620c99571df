// Streams that are run again: on another worker after a death, where the model is repeatable, and elsewhere when a
// model has enough for now.
#include <set>

#include "core/session/streaming_fixture.hpp"

namespace gearbox::session {
namespace {

class StreamAgain : public Streaming {
 protected:
  StreamAgain() { config_.models.back().repeatable = true; }
  /// Asks, takes all parts, and expects as many.
  void whole(const DevicePtr& device, const std::string& words, RequestId id, std::uint32_t parts) {
    ask_for(device, words, id);
    take(device, id, 0, parts);
    const wire::Frame end = next_final(device);
    ASSERT_EQ(end.header.type, FrameType::result) << end.json;
    EXPECT_EQ(wire::parse<wire::ResultMessage>(end.json).value().parts, parts);
  }
  Error broken(const DevicePtr& device, const std::string& words, RequestId id, std::uint32_t parts) {
    ask_for(device, words, id);
    take(device, id, 0, parts);
    return error_of(next_final(device));
  }
};

TEST_F(StreamAgain, OfARepeatableModelGoesOnBehindItsPartsWhenTheWorkerDies) {
  start({"stream"});
  whole(log_in(), "count=200 size=30 die=57 deaths=1", id_of(1), 200);
  EXPECT_EQ(dispatcher_->retries(), 1U);
  ASSERT_TRUE(until([&] { return pool_->memory().output_used == 0; })) << "what was left out keeps its room";
}

TEST_F(StreamAgain, WhatADeviceThatTakesNoPartsGetsIsWholeAndHasEachPartOnce) {
  start({"stream"});
  const DevicePtr device = log_in();
  ask_for(device, "count=90 size=8 die=41 deaths=1", id_of(1), 0, false);
  const wire::Frame end = next_final(device);
  ASSERT_EQ(end.header.type, FrameType::result) << end.json;
  ASSERT_EQ(end.payload.size(), 90U * 8);
  for (std::uint32_t i = 0; i < 90; ++i) ASSERT_EQ(load_le<std::uint32_t>(end.payload.data() + i * 8), i);
}

TEST_F(StreamAgain, HasTheSeedOfItsRequestEachTime) {
  start({"stream"});
  const DevicePtr device = log_in();
  std::set<std::uint64_t> seeds;
  for (unsigned char i = 1; i <= 3; ++i) {
    // One that has changed when it is run again would break it.
    ask_for(device, "count=30 size=12 seed=1 die=20 deaths=1", id_of(i));
    for (std::uint32_t next = 0; next < 30; ++next) {
      const wire::Frame frame = next_final(device);
      ASSERT_EQ(frame.header.type, FrameType::result_part) << frame.json;
      seeds.insert(load_le<std::uint64_t>(frame.payload.data() + 4));
      acknowledge(device, id_of(i), next + 1);
    }
    ASSERT_EQ(next_final(device).header.type, FrameType::result);
    EXPECT_EQ(seeds.size(), i) << "one for each request";
  }
  EXPECT_FALSE(seeds.contains(0));
}

TEST_F(StreamAgain, SeveralOfOneWorkerAllGoOn) {
  start({"stream"});
  const DevicePtr device = log_in();
  for (unsigned char i = 1; i <= 4; ++i) {
    ask_for(device, i == 4 ? "count=80 die=30 deaths=1" : "count=80", id_of(i));
  }
  std::map<RequestId, std::uint32_t> parts;
  for (std::size_t ends = 0; ends < 4;) {
    const wire::Frame frame = next_final(device);
    const RequestId id = frame.header.request;
    if (frame.header.type == FrameType::result_part) {
      ASSERT_EQ(frame.header.part, parts[id]);
      acknowledge(device, id, ++parts[id]);
    } else {
      ASSERT_EQ(frame.header.type, FrameType::result) << frame.json;
      EXPECT_EQ(parts[id], 80U);
      ++ends;
    }
  }
}

TEST_F(StreamAgain, IsQuarantinedWhenTheNextWorkerDiesOfItAsWell) {
  start({"stream"});
  const Error error = broken(log_in(), "count=200 die=20", id_of(1), 20);
  EXPECT_EQ(error.code, Errc::quarantined) << error.detail;
}

TEST_F(StreamAgain, IsBrokenWhenWhatComesTheSecondTimeIsAnother) {
  start({"stream"});
  const DevicePtr device = log_in();
  const Error other = broken(device, "count=100 size=30 die=20 deaths=1 differs=11", id_of(1), 20);
  EXPECT_EQ(other.code, Errc::stream_broken) << other.detail;
  EXPECT_NE(other.detail.find("those came out different"), std::string::npos) << other.detail;
  const Error fewer = broken(device, "count=100 die=20 deaths=1 later=12", id_of(2), 20);
  EXPECT_EQ(fewer.code, Errc::stream_broken) << fewer.detail;
  EXPECT_NE(fewer.detail.find("had 12 only"), std::string::npos) << fewer.detail;
  whole(device, "count=100 size=30 die=20 deaths=1 differs=20", id_of(3), 100);  // nobody had seen that one
  ASSERT_TRUE(until([&] { return pool_->memory().output_used == 0; }));
}

TEST_F(StreamAgain, IsBrokenWhenAnotherVersionHasTakenOver) {
  start({"stream"});
  const DevicePtr device = log_in();
  ask_for(device, "count=300 die=20 deaths=1", id_of(1));
  take(device, id_of(1), 0, 5);
  config_.models.back().version = "2";
  config_.models.back().folder = folder_.path() / "stream@2";
  config_.models.back().repeatable = true;
  reload();
  ASSERT_TRUE(until([&] {
    return std::ranges::any_of(pool_->workers(),
                               [](const auto& worker) { return worker.version == "2" && worker.state == "ready"; });
  }));
  take(device, id_of(1), 5, 20);
  const Error error = error_of(next_final(device));
  EXPECT_EQ(error.code, Errc::stream_broken) << error.detail;
}

TEST_F(StreamAgain, AWorkerThatHasEnoughIsNoFaultAndAnotherOneIsAsked) {
  start({"stream", "stream"});
  const DevicePtr device = log_in();
  for (unsigned char i = 1; i <= 6; ++i) whole(device, "count=10 full=40 slot=1", id_of(i), 10);
  EXPECT_EQ(dispatcher_->retries(), 0U);
  std::uint64_t calls = 0;
  for (const auto& worker : pool_->workers()) {
    EXPECT_EQ(worker.failures, 0U);
    calls += worker.calls;
  }
  EXPECT_EQ(calls, 12U) << "the first one is asked each time";
}

TEST_F(StreamAgain, OneThatWaitsForAnotherWorkerHoldsUpNobodyBehindIt) {
  config_.models.back().streams = 1;
  config_.models.back().prefetch = 0;
  start({"stream", "stream"});
  const DevicePtr device = log_in();
  ask_for(device, "count=1000 full=40 slot=1", id_of(1));
  take(device, id_of(1), 0, 3);  // it holds the other worker: nobody takes more of its parts
  const std::uint64_t before = calls();
  ask_for(device, "count=10 full=30000 slot=1", id_of(2));  // only slot 1 is free, and does not want it
  ASSERT_TRUE(until([&] { return calls() == before + 1; }));
  const DevicePtr next = log_in();
  whole(next, "count=10", id_of(3), 10);
  EXPECT_EQ(dispatcher_->retries(), 0U);
}

TEST_F(StreamAgain, WhenAllHaveEnoughTheDeviceIsToldWhenToComeAgain) {
  start({"stream", "stream"});
  const DevicePtr device = log_in();
  ask_for(device, "count=10 full=1234", id_of(1));
  const wire::Frame end = next_final(device);
  const Error error = error_of(end);
  EXPECT_EQ(error.code, Errc::overloaded) << error.detail;
  EXPECT_NE(error.detail.find("has enough; again after 1234 ms"), std::string::npos) << error.detail;
  EXPECT_EQ(wire::parse<wire::ErrorMessage>(end.json).value().retry_after_ms, 1234U);
  EXPECT_EQ(calls(), 2U) << "both were asked";
}

}  // namespace
}  // namespace gearbox::session
