// Which calls the model gets together: only those that are alike, the oldest first, no more than max_batch, and no
// later than the record allows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sched.h>

#include <csignal>
#include <map>

#include "gearbox/base/clock.hpp"
#include "worker_shim/test_node.hpp"

namespace gearbox::test {
namespace {

using ::testing::HasSubstr;

std::vector<Tensor> data(const std::string& bytes) {
  return {uint8_tensor("data", bytes)};
}
std::vector<Tensor> command(const std::string& name) {
  return {text_tensor("command", name), uint8_tensor("data", "abc")};
}

/// All that are owed, in the order of their arrival; each comes long before the max_delay_ms of `joins` is over.
std::vector<Answer> answers(TestNode& node, std::size_t count) {
  std::vector<Answer> got;
  while (got.size() < count) {
    auto one = node.answer(6s);
    if (!one) break;
    got.push_back(std::move(*one));
  }
  return got;
}

TEST(Batches, HoldOnlyCallsOfOneShapeAndTheOldestGoesFirst) {
  TestNode node;
  node.start("joins");
  ASSERT_TRUE(node.attach()) << node.log();
  // Four of one byte and four of two, in turn: two full batches, neither of which waits.
  const auto sent =
      node.calls({data("a"), data("bb"), data("c"), data("dd"), data("e"), data("ff"), data("g"), data("hh")});
  const std::vector<Answer> got = answers(node, sent.size());
  ASSERT_EQ(got.size(), sent.size()) << node.log();
  std::vector<std::uint64_t> order;
  for (const Answer& answer : got) {
    ASSERT_FALSE(answer.failed) << answer.text;
    EXPECT_EQ(answer.batch, 4U);
    order.push_back(answer.request);
  }
  EXPECT_THAT(order, ::testing::ElementsAre(sent[0], sent[2], sent[4], sent[6], sent[1], sent[3], sent[5], sent[7]));
  EXPECT_EQ(got[1].find("data")->bytes, "c");
  EXPECT_EQ(got[7].find("data")->bytes, "hh");
  EXPECT_EQ(node.log(), "");
}

TEST(Batches, TellTheNodeWhichCallsOnlyWait) {
  TestNode node;
  node.start("joins");
  ASSERT_TRUE(node.attach()) << node.log();
  const auto sent = node.calls({data("a"), data("bb"), data("c"), data("e"), data("g")});
  ASSERT_EQ(answers(node, 4).size(), 4U) << node.log();
  EXPECT_TRUE(node.is_aside(sent[1]));
  for (const std::size_t begun : {0U, 2U, 3U, 4U}) EXPECT_FALSE(node.is_aside(sent[begun])) << begun;
  // Three more of its kind, and it need not wait any longer.
  node.calls({data("dd"), data("ff"), data("hh")});
  EXPECT_EQ(answers(node, 4).size(), 4U) << node.log();
  EXPECT_FALSE(node.is_aside(sent[1]));
}

TEST(Batches, DoNotWaitForMoreThanTheNodeMayHandOver) {
  TestNode node;
  node.start("joins");
  ASSERT_TRUE(node.attach()) << node.log();
  // Eight calls, max_batch + prefetch, of eight shapes: nothing can join the oldest.
  std::vector<std::vector<Tensor>> all;
  for (std::size_t i = 1; i <= 8; ++i) all.push_back(data(std::string(i, 'x')));
  const auto sent = node.calls(all);
  const auto first = node.answer(6s);
  ASSERT_TRUE(first.has_value()) << node.log();
  EXPECT_EQ(first->request, sent[0]);
  EXPECT_EQ(first->batch, 1U);
}

TEST(Batches, ACancelledCallTakesNoPlace) {
  TestNode node;
  node.start("joins");
  ASSERT_TRUE(node.attach()) << node.log();
  node.signal(SIGSTOP);
  const auto lost = node.call(data("z"));
  node.cancel_last();
  const auto sent = node.calls({data("a"), data("b"), data("c"), data("d")});
  node.signal(SIGCONT);
  std::map<std::uint64_t, Answer> got;
  for (Answer& answer : answers(node, 5)) got.emplace(answer.request, std::move(answer));
  ASSERT_EQ(got.size(), 5U) << node.log();
  EXPECT_EQ(got.at(lost).code, Errc::cancelled);
  for (const std::uint64_t request : sent) EXPECT_EQ(got.at(request).batch, 4U);
}

TEST(Batches, EndWithTheWorkerWhenItIsToldToStopWhileACallWaits) {
  TestNode node;
  node.start("joins");
  ASSERT_TRUE(node.attach()) << node.log();
  const auto waits = node.call(data("a"));
  for (const Instant limit = Clock::now() + seconds(20); !node.is_aside(waits) && Clock::now() < limit;)
    ::sched_yield();
  ASSERT_TRUE(node.is_aside(waits));
  node.signal(SIGTERM);
  const auto status = node.ended();
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(*status, 0) << node.log();
}

TEST(Batches, AreRunOneByOneWhenTheModelGivesAnotherNumberOfResults) {
  TestNode node;
  node.start("commands");
  ASSERT_TRUE(node.attach()) << node.log();
  node.calls({command("one_more_of_several"), command("echo"), command("wrong_dtype")});
  const std::vector<Answer> got = answers(node, 3);
  ASSERT_EQ(got.size(), 3U) << node.log();
  EXPECT_FALSE(got[0].failed) << got[0].text;
  EXPECT_FALSE(got[1].failed) << got[1].text;
  EXPECT_EQ(got[2].code, Errc::bad_result);
  for (const Answer& answer : got) EXPECT_EQ(answer.batch, 1U);
  EXPECT_THAT(node.log(), HasSubstr("infer() gave a list of 4 for a batch of 3"));
}

TEST(Batches, AWrongOutputFailsItsOwnCallAlone) {
  TestNode node;
  node.start("commands");
  ASSERT_TRUE(node.attach()) << node.log();
  node.calls({command("echo"), command("wrong_dtype"), command("echo")});
  const std::vector<Answer> got = answers(node, 3);
  ASSERT_EQ(got.size(), 3U) << node.log();
  EXPECT_FALSE(got[0].failed);
  EXPECT_EQ(got[1].code, Errc::bad_result);
  EXPECT_FALSE(got[2].failed);
  for (const Answer& answer : got) EXPECT_EQ(answer.batch, 3U);
}

}  // namespace
}  // namespace gearbox::test
