#include "sinks/outbox.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <iterator>

#include "scripted_sink.hpp"

namespace gearbox::sinks {
namespace {

using ::testing::HasSubstr;

std::string text_of_file(const std::filesystem::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

class SinkOutbox : public ::testing::Test {
 protected:
  std::unique_ptr<Outbox> open(std::vector<SinkSetup> sinks) {
    auto opened = Outbox::open(in(folder_.path(), std::move(sinks)));
    EXPECT_TRUE(opened) << describe(opened.error());
    return std::move(opened).value();
  }
  std::string dead(const std::string& sink) const {
    return text_of_file(folder_.path() / "sinks" / sink / "dead.ndjson");
  }
  gearbox::testing::TempDir folder_;
};

TEST_F(SinkOutbox, DeliversAllInOrderAndForgetsThem) {
  const auto sink = good_sink();
  const auto outbox = open({setup_of("one", sink)});
  for (std::uint8_t i = 0; i < 200; ++i) outbox->put(event_of(i));
  EXPECT_EQ(sink->wait_for(200), names(0, 200));
  EXPECT_TRUE(comes_true([&] { return outbox->facts().sinks.at(0).queued == 0; }));
  EXPECT_EQ(outbox->facts().sinks.at(0).lane.delivered, 200U);
  EXPECT_EQ(sink->folder(), (folder_.path() / "sinks/one").string());
}

TEST_F(SinkOutbox, WhatIsPutOffComesAgainWholeAfterAPause) {
  int calls = 0;
  const auto sink = std::make_shared<ScriptedSink>([&](const auto&) {
    return ++calls <= 2 ? plugin::Verdict{plugin::Fate::later, "not now", milliseconds{1}} : plugin::Verdict{};
  });
  const auto outbox = open({setup_of("one", sink)});
  outbox->put(event_of(1));
  EXPECT_EQ(sink->wait_for(1), names(1, 2));
  EXPECT_TRUE(comes_true([&] { return outbox->facts().sinks.at(0).lane.delivered == 1; }));
  EXPECT_EQ(outbox->facts().sinks.at(0).lane.retried, 2U);
  EXPECT_EQ(outbox->facts().sinks.at(0).lane.last_error, "");
  EXPECT_EQ(outbox->facts().sinks.at(0).dead_letters, 0U);
}

TEST_F(SinkOutbox, FindsTheOneEventThatCanNeverBeDelivered) {
  Latch latch;  // so that all of them are in one batch
  const auto sink = std::make_shared<ScriptedSink>([&](const std::vector<std::string>& requests) {
    latch.pass();
    const bool bad = std::find(requests.begin(), requests.end(), name_of(3)) != requests.end();
    return bad ? plugin::Verdict{plugin::Fate::never, "no such column", milliseconds{0}} : plugin::Verdict{};
  });
  const auto outbox = open({setup_of("one", sink)});
  for (std::uint8_t i = 0; i < 6; ++i) outbox->put(event_of(i));
  latch.open();
  EXPECT_EQ(sink->wait_for(5).size(), 5U);
  EXPECT_TRUE(comes_true([&] { return outbox->facts().sinks.at(0).queued == 0; }));
  EXPECT_EQ(outbox->facts().sinks.at(0).dead_letters, 1U);
  EXPECT_THAT(dead("one"), HasSubstr(name_of(3)));
  EXPECT_THAT(dead("one"), HasSubstr("no such column"));
  EXPECT_EQ(std::ranges::count(dead("one"), '\n'), 1);
}

TEST_F(SinkOutbox, AnEventThatIsPutOffEachTimeHoldsUpNoOther) {
  Latch latch;  // so that all of them are in one batch
  std::atomic<bool> mended{false};
  const auto sink = std::make_shared<ScriptedSink>([&](const std::vector<std::string>& requests) {
    latch.pass();
    const bool bad = std::find(requests.begin(), requests.end(), name_of(2)) != requests.end();
    return bad && !mended ? plugin::Verdict{plugin::Fate::later, "broken off", milliseconds{0}} : plugin::Verdict{};
  });
  SinkSetup setup = setup_of("one", sink);
  setup.config.retry_max = milliseconds{5};
  const auto outbox = open({setup});
  for (std::uint8_t i = 0; i < 6; ++i) outbox->put(event_of(i));
  latch.open();
  std::vector<std::string> others = names(0, 6);
  others.erase(others.begin() + 2);
  EXPECT_THAT(sink->wait_for(5), ::testing::UnorderedElementsAreArray(others));
  EXPECT_TRUE(comes_true([&] { return outbox->facts().sinks.at(0).queued == 1; }));
  EXPECT_EQ(outbox->facts().sinks.at(0).lane.held, 1U);
  for (std::uint8_t i = 10; i < 200; ++i) outbox->put(event_of(i));
  EXPECT_EQ(sink->wait_for(195).size(), 195U) << "nor any that comes later";
  const std::uint64_t tries = outbox->facts().sinks.at(0).lane.retried;
  EXPECT_TRUE(comes_true([&] { return outbox->facts().sinks.at(0).lane.retried > tries + 3; }))
      << "it is not forgotten";
  EXPECT_EQ(outbox->facts().sinks.at(0).dead_letters, 0U);
  mended = true;
  EXPECT_EQ(sink->wait_for(196).back(), name_of(2));
  EXPECT_TRUE(comes_true([&] { return outbox->facts().sinks.at(0).queued == 0; }));
  EXPECT_EQ(outbox->facts().sinks.at(0).lane.held, 0U);
}

TEST_F(SinkOutbox, OneThatCameAloneIsComparedWithThoseThatComeLater) {
  const auto sink = std::make_shared<ScriptedSink>([&](const std::vector<std::string>& requests) {
    const bool bad = std::find(requests.begin(), requests.end(), name_of(0)) != requests.end();
    return bad ? plugin::Verdict{plugin::Fate::later, "broken off", milliseconds{0}} : plugin::Verdict{};
  });
  SinkSetup setup = setup_of("one", sink);
  setup.config.retry_max = milliseconds{5};
  {
    const auto outbox = open({setup});
    outbox->put(event_of(0));
    ASSERT_TRUE(sink->wait_for_calls(6));
    outbox->put(event_of(1));
    outbox->put(event_of(2));
    EXPECT_THAT(sink->wait_for(2), ::testing::UnorderedElementsAreArray(names(1, 3)));
  }
  const auto better = good_sink();
  const auto next = open({setup_of("one", better)});
  EXPECT_EQ(better->wait_for(1), names(0, 1)) << "what was held lies in the queue";
}

TEST_F(SinkOutbox, AFullQueueMakesDeadLettersAndHoldsNobody) {
  SinkSetup setup = setup_of("one", absent_sink());
  setup.config.max_events = 4;
  const auto outbox = open({setup});
  for (std::uint8_t i = 0; i < 10; ++i) outbox->put(event_of(i));
  EXPECT_TRUE(comes_true([&] { return outbox->facts().handed_over == 0; }));
  EXPECT_EQ(outbox->facts().sinks.at(0).queued, 4U);
  EXPECT_EQ(outbox->facts().sinks.at(0).dead_letters, 6U);
  EXPECT_EQ(outbox->facts().dropped, 0U);
  EXPECT_EQ(std::ranges::count(dead("one"), '\n'), 6);
  EXPECT_THAT(dead("one"), HasSubstr("the queue of this sink was full"));
}

TEST_F(SinkOutbox, ItsBytesAreBoundedToo) {
  SinkSetup setup = setup_of("one", absent_sink());
  setup.config.max_bytes = 2000;
  const auto outbox = open({setup});
  for (std::uint8_t i = 0; i < 20; ++i) outbox->put(event_of(i));
  EXPECT_TRUE(comes_true([&] { return outbox->facts().handed_over == 0; }));
  const SinkFacts facts = outbox->facts().sinks.at(0);
  EXPECT_LE(facts.queued_bytes, 2000U);
  EXPECT_GT(facts.queued, 0U);
  EXPECT_EQ(facts.queued + facts.dead_letters, 20U);
}

TEST_F(SinkOutbox, ASinkThatHangsHoldsNoOther) {
  Latch latch;
  const auto slow = std::make_shared<ScriptedSink>([&](const auto&) {
    latch.pass();
    return plugin::Verdict{};
  });
  const auto quick = good_sink();
  const auto outbox = open({setup_of("slow", slow), setup_of("quick", quick)});
  for (std::uint8_t i = 0; i < 50; ++i) outbox->put(event_of(i));
  EXPECT_EQ(quick->wait_for(50), names(0, 50));
  latch.open();
  EXPECT_EQ(slow->wait_for(50), names(0, 50));
}

TEST_F(SinkOutbox, GivesASinkItsTasksOnly) {
  const auto sink = good_sink();
  SinkSetup setup = setup_of("one", sink);
  setup.config.tasks = {"read-text"};
  const auto outbox = open({setup});
  EXPECT_TRUE(outbox->wants("read-text"));
  EXPECT_FALSE(outbox->wants("echo"));
  outbox->put(event_of(1, "echo"));
  outbox->put(event_of(2, "read-text"));
  EXPECT_EQ(sink->wait_for(1), names(2, 3));
}

TEST_F(SinkOutbox, ANewBuildTakesOverInTheMiddleOfAPause) {
  const auto before = std::make_shared<ScriptedSink>([](const auto&) {
    return plugin::Verdict{plugin::Fate::later, "away", std::chrono::hours(1)};
  });
  SinkSetup setup = setup_of("one", before);
  setup.config.retry_max = std::chrono::hours(1);
  const auto outbox = open({setup});
  outbox->put(event_of(1));
  ASSERT_TRUE(before->wait_for_calls(1));
  const auto after = good_sink();
  outbox->use({setup_of("one", after)});
  EXPECT_EQ(after->wait_for(1), names(1, 2));
}

TEST_F(SinkOutbox, EventsWaitForASinkThatIsNotThere) {
  SinkSetup setup = setup_of("one", nullptr);
  setup.missing = "it is barred";
  const auto outbox = open({setup});
  outbox->put(event_of(1));
  EXPECT_TRUE(comes_true([&] { return outbox->facts().sinks.at(0).lane.last_error == "it is barred"; }));
  const auto sink = good_sink();
  outbox->use({setup_of("one", sink)});
  EXPECT_EQ(sink->wait_for(1), names(1, 2));
}

TEST_F(SinkOutbox, StopsAlthoughASinkDoesNotComeBack) {
  auto latch = std::make_shared<Latch>();
  const auto sink = std::make_shared<ScriptedSink>([latch](const auto&) {
    latch->pass();
    return plugin::Verdict{};
  });
  auto outbox = open({setup_of("one", sink)});
  outbox->put(event_of(1));
  EXPECT_TRUE(comes_true([&] { return outbox->facts().sinks.at(0).lane.state == "delivering"; }));
  const Instant begun = Clock::now();
  outbox.reset();
  EXPECT_LT(Clock::now() - begun, std::chrono::seconds(10));
  latch->open();
  sink->wait_for(1);
  const auto next = good_sink();
  const auto again = open({setup_of("one", next)});
  EXPECT_EQ(next->wait_for(1), names(1, 2)) << "nobody noted that it was delivered";
}

}  // namespace
}  // namespace gearbox::sinks
