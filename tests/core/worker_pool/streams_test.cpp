// Answers in parts, between the pool and real processes: order, rooms, back-pressure, ends of all kinds.
#include <csignal>
#include <cstring>

#include "pool_fixture.hpp"

namespace gearbox::worker_pool {
namespace {

constexpr std::uint32_t kRooms = 4;

class PoolStreams : public PoolFixture {
 protected:
  PoolStreams() { record().stream = true; }

  struct Heard {
    std::vector<StreamPart> held;        // kept, so that their rooms are not free
    std::vector<std::uint32_t> numbers;  // as their bytes say
    std::optional<CallAnswer> end;
    bool keep = false;
  };
  Outcome<WorkerPool::CallId> ask(const std::string& words, Heard& heard) {
    CallSpec spec = spec_of(filled(words.size(), std::byte{0}), words.size());
    std::memcpy(spec.inputs[0].slab->bytes().data(), words.data(), words.size());
    spec.on_part = [&heard](StreamPart part) {
      EXPECT_EQ(part.number, heard.numbers.size());
      EXPECT_EQ(part.tensors.size(), 1U);
      heard.numbers.push_back(load_le<std::uint32_t>(part.tensors.at(0).bytes().data()));
      if (heard.keep) heard.held.push_back(std::move(part));
    };
    return pool_->call(first(), std::move(spec), [&heard](CallAnswer answer) { heard.end = std::move(answer); });
  }
  bool quiet_for(milliseconds time) {
    const Instant until_then = after(Clock::now(), time);
    return until([&] { return Clock::now() >= until_then; });
  }
  static std::vector<std::uint32_t> up_to(std::uint32_t count) {
    std::vector<std::uint32_t> all(count);
    for (std::uint32_t i = 0; i < count; ++i) all[i] = i;
    return all;
  }
};

TEST_F(PoolStreams, HandsOnManyPartsInOrderThenTheEnd) {
  ASSERT_TRUE(create(1, {"--do", "stream"}));
  ASSERT_TRUE(all_ready(1)) << pool_->workers()[0].reason;
  Heard heard;
  ASSERT_TRUE(ask("count=5000 size=100", heard));
  ASSERT_TRUE(until([&] { return heard.end.has_value(); }));
  ASSERT_TRUE(heard.end->outputs) << describe(heard.end->outputs.error());
  EXPECT_EQ(heard.numbers, up_to(5000));
  EXPECT_EQ(heard.end->parts, 5000U);
  EXPECT_TRUE(heard.end->outputs.value().empty());
  EXPECT_EQ(pool_->memory().output_used, 0U);
  EXPECT_EQ(pool_->memory().input_used, 0U);
}

TEST_F(PoolStreams, AStreamOfNothingEnds) {
  ASSERT_TRUE(create(1, {"--do", "stream"}));
  ASSERT_TRUE(all_ready(1));
  Heard heard;
  ASSERT_TRUE(ask("count=0", heard));
  ASSERT_TRUE(until([&] { return heard.end.has_value(); }));
  EXPECT_TRUE(heard.end->outputs);
  EXPECT_EQ(heard.end->parts, 0U);
}

TEST_F(PoolStreams, ThoseWhoHoldPartsStopTheWorkerAndLettingGoInOrderLetsItGoOn) {
  ASSERT_TRUE(create(1, {"--do", "stream"}));
  ASSERT_TRUE(all_ready(1));
  Heard heard;
  heard.keep = true;
  ASSERT_TRUE(ask("count=9 size=200", heard));
  ASSERT_TRUE(until([&] { return heard.numbers.size() == kRooms; }));
  ASSERT_TRUE(quiet_for(milliseconds(100)));
  EXPECT_EQ(heard.numbers.size(), kRooms) << "nobody has let go of a part";

  heard.held.erase(heard.held.begin() + 1);  // the second: the first is still there, so its room is not told
  ASSERT_TRUE(quiet_for(milliseconds(50)));
  EXPECT_EQ(heard.numbers.size(), kRooms);
  // What is held was not written over.
  EXPECT_EQ(load_le<std::uint32_t>(heard.held[0].tensors[0].bytes().data()), 0U);
  EXPECT_EQ(load_le<std::uint32_t>(heard.held[1].tensors[0].bytes().data()), 2U);

  heard.held.erase(heard.held.begin());  // now two rooms are free
  ASSERT_TRUE(until([&] { return heard.numbers.size() == kRooms + 2; }));
  ASSERT_TRUE(quiet_for(milliseconds(50)));
  EXPECT_EQ(heard.numbers.size(), kRooms + 2);

  heard.keep = false;
  heard.held.clear();
  ASSERT_TRUE(until([&] { return heard.end.has_value(); }));
  EXPECT_EQ(heard.numbers, up_to(9));
}

TEST_F(PoolStreams, AStreamThatStandsStillHoldsUpNoOther) {
  record().prefetch = 5;
  ASSERT_TRUE(create(1, {"--do", "stream"}));
  ASSERT_TRUE(all_ready(1));
  Heard slow;
  slow.keep = true;
  ASSERT_TRUE(ask("count=100", slow));
  ASSERT_TRUE(until([&] { return slow.numbers.size() == kRooms; }));
  for (int i = 0; i < 5; ++i) {
    Heard quick;
    ASSERT_TRUE(ask("count=200 size=50", quick));
    ASSERT_TRUE(until([&] { return quick.end.has_value(); })) << i;
    EXPECT_EQ(quick.numbers, up_to(200));
  }
  EXPECT_FALSE(slow.end);
  slow.keep = false;
  slow.held.clear();
  ASSERT_TRUE(until([&] { return slow.end.has_value(); }));
  EXPECT_EQ(slow.numbers, up_to(100));
}

TEST_F(PoolStreams, AWorkerWhoseStreamsWaitIsNotBusy) {
  record().call_timeout_ms = 100;
  ASSERT_TRUE(create(1, {"--do", "stream"}));
  ASSERT_TRUE(all_ready(1));
  const WorkerId same = first();
  Heard heard;
  heard.keep = true;
  ASSERT_TRUE(ask("count=20", heard));
  ASSERT_TRUE(until([&] { return heard.numbers.size() == kRooms; }));
  const Instant stop = after(Clock::now(), milliseconds(600));  // three times what a call may take before it is killed
  ASSERT_TRUE(until([&] {
    EXPECT_EQ(pool_->workers()[0].state, "ready");
    return Clock::now() >= stop;
  }));
  heard.keep = false;
  heard.held.clear();
  ASSERT_TRUE(until([&] { return heard.end.has_value(); }));
  EXPECT_EQ(heard.numbers, up_to(20));
  EXPECT_EQ(first(), same);
}

TEST_F(PoolStreams, ACancelledStreamIsClosedAlthoughItWaits) {
  ASSERT_TRUE(create(1, {"--do", "stream"}));
  ASSERT_TRUE(all_ready(1));
  Heard heard;
  heard.keep = true;
  const auto call = ask("count=100", heard);
  ASSERT_TRUE(call);
  ASSERT_TRUE(until([&] { return heard.numbers.size() == kRooms; }));
  pool_->cancel(call.value());
  ASSERT_TRUE(until([&] { return heard.end.has_value(); }));
  EXPECT_EQ(heard.end->outputs.error().code, Errc::cancelled);
  ASSERT_TRUE(until([&] { return pool_->workers()[0].running == 0; })) << "the worker did not end it";
  EXPECT_EQ(heard.numbers.size(), kRooms);
  heard.held.clear();
  EXPECT_EQ(pool_->memory().output_used, 0U);
}

TEST_F(PoolStreams, AFailureComesAfterTheParts) {
  ASSERT_TRUE(create(1, {"--do", "stream"}));
  ASSERT_TRUE(all_ready(1));
  Heard heard;
  heard.keep = true;
  ASSERT_TRUE(ask("count=100 fail=3", heard));
  ASSERT_TRUE(until([&] { return heard.end.has_value(); }));
  EXPECT_EQ(heard.numbers, up_to(3));
  EXPECT_EQ(heard.end->outputs.error().code, Errc::model_failed);
  EXPECT_EQ(heard.end->outputs.error().detail, "ValueError: in the middle");
  EXPECT_EQ(heard.end->parts, 3U);
  // Its block lies over none of the parts.
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(load_le<std::uint32_t>(heard.held[i].tensors[0].bytes().data()), i);
  }
}

TEST_F(PoolStreams, PartsOutliveTheWorkerThatMadeThem) {
  ASSERT_TRUE(create(1, {"--do", "stream"}));
  ASSERT_TRUE(all_ready(1));
  Heard heard;
  heard.keep = true;
  ASSERT_TRUE(ask("count=100 size=1000", heard));
  ASSERT_TRUE(until([&] { return heard.numbers.size() == kRooms; }));
  ::kill(pool_->workers()[0].pid, SIGKILL);
  ASSERT_TRUE(until([&] { return heard.end.has_value(); }));
  EXPECT_EQ(heard.end->outputs.error().code, Errc::worker_lost);
  ASSERT_TRUE(all_ready(1));
  Heard next;  // the new process writes elsewhere
  ASSERT_TRUE(ask("count=50 size=1000", next));
  ASSERT_TRUE(until([&] { return next.end.has_value(); }));
  for (std::uint32_t i = 0; i < kRooms; ++i) {
    const ByteView bytes = heard.held[i].tensors[0].bytes();
    EXPECT_EQ(load_le<std::uint32_t>(bytes.data()), i);
    EXPECT_EQ(bytes[999], static_cast<std::byte>(i));
  }
  heard.held.clear();
  EXPECT_EQ(pool_->memory().output_used, 0U);
}

TEST_F(PoolStreams, APartThatIsTooLargeFailsTheStream) {
  ASSERT_TRUE(create(1, {"--do", "stream"}));
  ASSERT_TRUE(all_ready(1));
  Heard heard;
  ASSERT_TRUE(ask("count=3 size=100000", heard));
  ASSERT_TRUE(until([&] { return heard.end.has_value(); }));
  EXPECT_EQ(heard.end->outputs.error().code, Errc::result_too_large);
  EXPECT_TRUE(heard.numbers.empty());
}

TEST_F(PoolStreams, RoomsFitIntoTheArenaForAllCallsThatAWorkerMayHold) {
  record().max_output_bytes = 700 << 10;  // of 4 MiB: with prefetch 2 one room for each of three calls
  ASSERT_TRUE(create(1, {"--do", "stream"}));
  ASSERT_TRUE(all_ready(1));
  std::vector<Heard> heard(3);
  for (Heard& one : heard) {
    one.keep = true;
    ASSERT_TRUE(ask("count=5 size=600000", one));
  }
  ASSERT_TRUE(until(
      [&] { return std::all_of(heard.begin(), heard.end(), [](const Heard& one) { return !one.numbers.empty(); }); }));
  for (Heard& one : heard) {
    EXPECT_EQ(one.numbers.size(), 1U);
    one.keep = false;
    one.held.clear();
  }
  ASSERT_TRUE(until(
      [&] { return std::all_of(heard.begin(), heard.end(), [](const Heard& one) { return one.end.has_value(); }); }));
  for (const Heard& one : heard) EXPECT_EQ(one.numbers, up_to(5));
}

class WildStreams : public PoolStreams, public ::testing::WithParamInterface<const char*> {};

TEST_P(WildStreams, EndTheWorkerAndTheCall) {
  record().stream = std::string_view(GetParam()) != "part_of_nothing";
  ASSERT_TRUE(create(1, {"--do", std::string("lie:") + GetParam()}));
  ASSERT_TRUE(all_ready(1)) << pool_->workers()[0].reason;
  const WorkerId wild = first();
  CallSpec spec = spec_with(64);
  std::vector<StreamPart> held;
  spec.on_part = [&](StreamPart part) { held.push_back(std::move(part)); };
  const CallAnswer answer = answer_to(wild, std::move(spec));
  ASSERT_FALSE(answer.outputs);
  EXPECT_EQ(answer.outputs.error().code, Errc::bad_result) << describe(answer.outputs.error());
  EXPECT_LE(held.size(), kRooms);
  ASSERT_TRUE(all_ready(1));
  EXPECT_NE(first(), wild);
  held.clear();
  EXPECT_EQ(pool_->memory().output_used, 0U);
}
INSTANTIATE_TEST_SUITE_P(Lies, WildStreams,
                         ::testing::Values("part_of_nothing", "part_number", "part_again", "part_room", "part_flood",
                                           "part_end"));

}  // namespace
}  // namespace gearbox::worker_pool
