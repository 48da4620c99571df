// Generators through the ring: parts in order, never ahead of what the node has room for, and always told their end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>
#include <cstring>
#include <map>

#include "worker_shim/test_node.hpp"

namespace gearbox::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ShimStreams : public ::testing::Test {
 protected:
  void SetUp() override {
    node_.start("streams");
    ASSERT_TRUE(node_.attach()) << node_.log();
  }
  std::uint64_t ask(const std::string& command, std::uint32_t rooms = 2) {
    return node_.stream({text_tensor("command", command)}, rooms);
  }
  /// Takes parts until the end, which is returned, giving each room back at once.
  std::optional<Answer> to_the_end(std::uint64_t request, std::vector<std::string>* texts = nullptr) {
    for (std::uint32_t next = 0;; ++next) {
      auto got = node_.answer();
      EXPECT_TRUE(got.has_value()) << node_.log();
      if (!got || !got->is_part) return got;
      EXPECT_EQ(got->request, request);
      EXPECT_EQ(got->part, next);
      if (texts != nullptr) texts->push_back(text_of(*got));
      node_.credit(request, next + 1);
    }
  }
  static std::string text_of(const Answer& part) { return part.find("text")->bytes.substr(4); }
  static std::int64_t number_of(const Answer& part) {
    std::int64_t number = 0;
    std::memcpy(&number, part.find("number")->bytes.data(), sizeof number);
    return number;
  }
  /// Waits until the model has said it; what it writes arrives without a bell.
  bool says(const std::string& words) {
    for (int i = 0; i < 2000 && node_.log().find(words) == std::string::npos; ++i) node_.answer(milliseconds(5));
    return node_.log().find(words) != std::string::npos;
  }
  TestNode node_;
};

TEST_F(ShimStreams, PartsComeInOrderThenTheirNumber) {
  const std::uint64_t request = ask("count 500 a");
  std::vector<std::string> texts;
  const auto end = to_the_end(request, &texts);
  ASSERT_TRUE(end && !end->failed) << node_.log();
  EXPECT_EQ(end->part, 500U);
  ASSERT_EQ(texts.size(), 500U);
  for (std::size_t i = 0; i < texts.size(); ++i) ASSERT_EQ(texts[i], "a " + std::to_string(i));
}

TEST_F(ShimStreams, TheGeneratorIsNeverAheadOfTheRooms) {
  const std::uint64_t request = ask("count 100 a", 3);
  for (std::uint32_t i = 0; i < 3; ++i) ASSERT_TRUE(node_.answer().has_value());
  EXPECT_FALSE(node_.answer(milliseconds(150)).has_value());
  EXPECT_THAT(node_.log(), HasSubstr("a makes 2 of"));
  EXPECT_THAT(node_.log(), Not(HasSubstr("a makes 3 of"))) << "there is no room for it";
  node_.credit(request, 1);
  const auto fourth = node_.answer();
  ASSERT_TRUE(fourth && fourth->is_part);
  EXPECT_EQ(number_of(*fourth), 3);
  EXPECT_FALSE(node_.answer(milliseconds(50)).has_value());
  EXPECT_THAT(node_.log(), Not(HasSubstr("a makes 4 of")));
}

TEST_F(ShimStreams, SeveralAreOpenAtOnceAndOneThatWaitsHoldsUpNoOther) {
  const std::uint64_t slow = ask("count 100 slow");
  ASSERT_TRUE(node_.answer() && node_.answer());  // its two rooms are full
  const std::uint64_t quick = ask("count 50 quick");
  std::vector<std::string> texts;
  const auto end = to_the_end(quick, &texts);
  ASSERT_TRUE(end && !end->failed);
  EXPECT_EQ(end->request, quick);
  EXPECT_EQ(texts.size(), 50U);
  EXPECT_THAT(node_.log(), HasSubstr("quick makes 0 of 2 open"));
  node_.credit(slow, 2);
  const auto next = node_.answer();
  ASSERT_TRUE(next && next->request == slow);
  EXPECT_EQ(next->part, 2U);
}

TEST_F(ShimStreams, NoMoreAreOpenThanTheRecordSays) {
  for (const char* name : {"count 5 a", "count 5 b", "count 5 c", "count 5 d"}) ask(name, 1);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(node_.answer().has_value());
  EXPECT_FALSE(node_.answer(milliseconds(100)).has_value()) << "the fourth is begun too";
  EXPECT_THAT(node_.log(), Not(HasSubstr("d makes 0")));
  node_.cancel(1);
  const auto first = node_.answer();
  ASSERT_TRUE(first && first->failed);
  EXPECT_EQ(first->code, Errc::cancelled);
  const auto next = node_.answer();
  ASSERT_TRUE(next && next->is_part) << node_.log();
  EXPECT_EQ(text_of(*next), "d 0");
}

TEST_F(ShimStreams, ACancelIsHeardByTheGeneratorAlthoughItWaits) {
  const std::uint64_t request = ask("count 100 a");
  ASSERT_TRUE(node_.answer() && node_.answer());
  node_.cancel(request);
  const auto end = node_.answer(milliseconds(5000));
  ASSERT_TRUE(end && end->failed) << node_.log();
  EXPECT_EQ(end->code, Errc::cancelled);
  EXPECT_EQ(end->part, 2U);
  EXPECT_TRUE(says("a was closed"));
}

TEST_F(ShimStreams, AGeneratorThatWillNotBeClosedEndsAllTheSame) {
  const std::uint64_t request = ask("stubborn a");
  ASSERT_TRUE(node_.answer() && node_.answer());
  node_.cancel(request);
  const auto end = node_.answer(milliseconds(5000));
  ASSERT_TRUE(end && end->failed) << node_.log();
  EXPECT_TRUE(says("stubborn heard it"));
  EXPECT_TRUE(says("ValueError: not now"));
  const auto next = to_the_end(ask("count 3 b"));
  ASSERT_TRUE(next && !next->failed);
}

TEST_F(ShimStreams, ItsNodesEndIsHeardByTheGenerator) {
  ask("count 100 a");
  ASSERT_TRUE(node_.answer() && node_.answer());
  node_.vanish();
  EXPECT_TRUE(says("a was closed")) << node_.log();
}

TEST_F(ShimStreams, ATermSignalIsHeardByTheGenerator) {
  ask("count 100 a");
  ASSERT_TRUE(node_.answer() && node_.answer());
  node_.signal(SIGTERM);
  const auto status = node_.ended();
  ASSERT_TRUE(status && WIFEXITED(*status)) << node_.log();
  EXPECT_EQ(WEXITSTATUS(*status), 0);
  EXPECT_THAT(node_.log(), HasSubstr("a was closed"));
}

TEST_F(ShimStreams, WhatTheModelDoesWrongEndsThatStreamAlone) {
  const std::map<std::string, std::pair<Errc, std::string>> wrong{
      {"raise_at_once", {Errc::model_failed, "ValueError: not even a generator"}},
      {"no_iterable", {Errc::model_failed, "TypeError: 'int' object is not iterable"}},
      {"raise_after 3 a", {Errc::model_failed, "ValueError: in the middle"}},
      {"wrong a", {Errc::bad_result, "output 'number': missing"}},
      {"large a", {Errc::result_too_large, "bytes does not fit: an answer has"}},
      {"exit a", {Errc::model_failed, "SystemExit: 3"}}};
  for (const auto& [command, expected] : wrong) {
    const auto end = to_the_end(ask(command));
    ASSERT_TRUE(end && end->failed) << command << node_.log();
    EXPECT_EQ(name_of(end->code), name_of(expected.first)) << command << ": " << end->text;
    EXPECT_THAT(end->text, HasSubstr(expected.second)) << command;
  }
  const auto good = to_the_end(ask("count 3 b"));
  ASSERT_TRUE(good && !good->failed);
  EXPECT_THAT(node_.log(), HasSubstr("b makes 0 of 1 open"));
}

TEST_F(ShimStreams, AnyIterableWillDo) {
  const auto list = to_the_end(ask("list"));
  ASSERT_TRUE(list && !list->failed) << list->text;
  EXPECT_EQ(list->part, 2U);
  const auto iterator = to_the_end(ask("iterator 9"));
  ASSERT_TRUE(iterator && !iterator->failed) << iterator->text;
  EXPECT_EQ(iterator->part, 9U);
  const std::uint64_t waits = ask("iterator 100");
  ASSERT_TRUE(node_.answer() && node_.answer());
  node_.cancel(waits);
  const auto end = node_.answer();
  EXPECT_TRUE(end && end->failed);
}

TEST_F(ShimStreams, BytesOfHalfACharacterPassUnchanged) {
  std::vector<std::string> texts;
  const auto end = to_the_end(ask("half a"), &texts);
  ASSERT_TRUE(end && !end->failed);
  EXPECT_EQ(texts, (std::vector<std::string>{"\xC3", "\xA9"}));
}

TEST_F(ShimStreams, AGeneratorThatHasNothingYetSendsNothingAndHoldsUpNoOther) {
  const std::uint64_t silent = ask("never a");
  ASSERT_TRUE(says("a begins"));
  std::vector<std::string> texts;
  const auto end = to_the_end(ask("count 300 b"), &texts);
  ASSERT_TRUE(end && !end->failed) << node_.log();
  EXPECT_EQ(texts.size(), 300U);
  EXPECT_FALSE(node_.answer(milliseconds(100)).has_value()) << "an empty part";
  node_.cancel(silent);
  const auto cancelled = node_.answer(milliseconds(5000));
  ASSERT_TRUE(cancelled && cancelled->failed);
  EXPECT_EQ(cancelled->request, silent);
  EXPECT_EQ(cancelled->part, 0U);
  EXPECT_TRUE(says("a was closed"));
}

TEST_F(ShimStreams, AGeneratorThatHadNothingIsAskedAgainWhenItsModelWakesTheWorker) {
  const Instant began = Clock::now();
  const std::uint64_t request = ask("later 1 300 a");
  const auto part = node_.answer(milliseconds(5000));
  ASSERT_TRUE(part && part->is_part) << node_.log();
  // Every 10 ms, and at once when it was woken up: not as often as it could be.
  EXPECT_LE(number_of(*part), (Clock::now() - began) / milliseconds(10) + 2);
  EXPECT_GE(number_of(*part), 1);
  const auto end = to_the_end(request);
  ASSERT_TRUE(end && !end->failed);
}

TEST_F(ShimStreams, AGeneratorThatHadNothingIsAskedAgainThoughNobodyWakesTheWorker) {
  const auto end = to_the_end(ask("later 2 nobody a"));
  ASSERT_TRUE(end && !end->failed) << node_.log();
  EXPECT_EQ(end->part, 2U);
}

TEST_F(ShimStreams, AModelThatHasEnoughToDoSaysSoAndWhenToComeAgain) {
  ask("full 250");
  const auto refused = node_.answer();
  ASSERT_TRUE(refused && refused->failed) << node_.log();
  EXPECT_EQ(name_of(refused->code), name_of(Errc::overloaded)) << refused->text;
  EXPECT_EQ(refused->again_ms, 250U);
  EXPECT_THAT(refused->text, HasSubstr("no room for it"));
  const auto midway = to_the_end(ask("fills a"));
  ASSERT_TRUE(midway && midway->failed);
  EXPECT_EQ(midway->code, Errc::overloaded);
  EXPECT_EQ(midway->again_ms, 1000U);
  const auto failed = to_the_end(ask("raise_at_once"));
  ASSERT_TRUE(failed && failed->failed);
  EXPECT_EQ(failed->again_ms, 0U);
}

TEST_F(ShimStreams, TheModelIsToldTheRequestsSeed) {
  node_.seed(41);
  const std::uint64_t request = ask("seed a");
  node_.seed(42);
  ASSERT_EQ(ask("seed b"), request + 1);  // each part is asked for with its own
  std::map<std::uint64_t, std::vector<std::int64_t>> seeds;
  for (int i = 0; i < 4; ++i) {
    auto part = node_.answer();
    while (part && !part->is_part) part = node_.answer();
    ASSERT_TRUE(part.has_value()) << node_.log();
    seeds[part->request].push_back(number_of(*part));
  }
  EXPECT_EQ(seeds[request], (std::vector<std::int64_t>{41, 41}));
  EXPECT_EQ(seeds[request + 1], (std::vector<std::int64_t>{42, 42}));
}

TEST(ShimManyStreams, SixtyFourAreOpenAtOnceAndNoMore) {
  TestNode node;
  node.start("many_streams");
  ASSERT_TRUE(node.attach()) << node.log();
  constexpr std::uint32_t kOpen = 64, kAll = 80;
  std::vector<std::uint64_t> requests;
  for (std::uint32_t i = 0; i < kAll; ++i) {
    requests.push_back(node.stream({text_tensor("command", std::to_string(i))}, 1));
  }
  std::map<std::uint64_t, std::uint32_t> parts;
  std::uint32_t ends = 0;
  for (std::uint32_t i = 0; i < kOpen; ++i) {  // nobody lets go of a part yet
    const auto first = node.answer();
    ASSERT_TRUE(first && first->is_part) << i << node.log();
    ASSERT_EQ(++parts[first->request], 1U);
  }
  EXPECT_EQ(parts.size(), kOpen);
  EXPECT_FALSE(node.answer(milliseconds(100)).has_value()) << "a 65th one is begun";
  for (const auto& [request, count] : parts) node.credit(request, count);
  while (ends < kAll) {
    const auto got = node.answer();
    ASSERT_TRUE(got && !got->failed) << ends << node.log();
    if (got->is_part) {
      node.credit(got->request, ++parts[got->request]);
    } else {
      EXPECT_EQ(got->part, 3U);
      ++ends;
    }
  }
  EXPECT_EQ(parts.size(), kAll);
}

TEST(ShimStreamsProbe, WaitsForPartsThatComeLater) {
  TestNode node;
  node.start("streams", {}, {"STREAMS_PROBED=later 2 50 a"});
  ASSERT_TRUE(node.attach()) << node.log();
  node.probe();
  const auto got = node.answer();
  ASSERT_TRUE(got && !got->failed) << (got ? got->text : node.log());
}

TEST_F(ShimStreams, TheProbeTriesSomePartsAndClosesTheGenerator) {
  const std::uint64_t probe = node_.probe();
  const auto got = node_.answer();
  ASSERT_TRUE(got && !got->failed && !got->is_part) << (got ? got->text : node_.log());
  EXPECT_EQ(got->request, probe);
  EXPECT_THAT(node_.log(), HasSubstr("100 makes 7"));
  EXPECT_THAT(node_.log(), Not(HasSubstr("100 makes 8")));
  EXPECT_THAT(node_.log(), HasSubstr("100 was closed"));
}

}  // namespace
}  // namespace gearbox::test
