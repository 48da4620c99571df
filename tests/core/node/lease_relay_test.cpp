#include "node/lease_relay.hpp"

#include <gtest/gtest.h>

namespace gearbox::node {
namespace {

namespace json = boost::json;

class LeaseRelayTest : public ::testing::Test {
 protected:
  json::object question(std::uint64_t number) { return {{"command", "lease"}, {"number", number}, {"ttl_ms", 6000}}; }
  bool pending(std::uint64_t number) {
    const auto answer = relay_.ask(question(number), now_);
    return answer && answer.value().contains("pending");
  }
  LeaseRelay relay_;
  Instant now_ = Instant() + seconds(100);
};

TEST_F(LeaseRelayTest, AQuestionIsSentOnceAndItsAnswerIsThereForWhoAsksAgain) {
  EXPECT_TRUE(pending(7));
  const auto sent = relay_.to_send(now_);
  ASSERT_TRUE(sent);
  EXPECT_EQ(*sent, R"({"ttl_ms":6000})") << "what is between the two of us stays here";
  EXPECT_FALSE(relay_.to_send(now_));
  EXPECT_TRUE(pending(7));
  relay_.told(R"({"granted": true, "term": 3})", now_);
  const auto answer = relay_.ask(question(7), now_);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer.value().at("term").to_number<int>(), 3);
}

TEST_F(LeaseRelayTest, AnAnswerIsNotTakenForThatOfAnotherQuestion) {
  EXPECT_TRUE(pending(7));
  ASSERT_TRUE(relay_.to_send(now_));
  EXPECT_TRUE(pending(8));
  relay_.told(R"({"granted": true, "term": 3})", now_);
  EXPECT_TRUE(pending(8)) << "that was for the one before";
  ASSERT_TRUE(relay_.to_send(now_));
  relay_.told(R"({"granted": false, "term": 4})", now_);
  EXPECT_FALSE(relay_.ask(question(8), now_).value().at("granted").as_bool());
}

TEST_F(LeaseRelayTest, WhatIsOldIsNeitherSentNorBelieved) {
  EXPECT_TRUE(pending(7));
  now_ += seconds(4);
  EXPECT_FALSE(relay_.to_send(now_)) << "whoever asked has given up";
  EXPECT_TRUE(pending(8));
  ASSERT_TRUE(relay_.to_send(now_));
  relay_.told(R"({"granted": true, "term": 3})", now_);
  now_ += seconds(4);
  EXPECT_FALSE(relay_.ask(question(8), now_));
}

TEST_F(LeaseRelayTest, ARefusalAndALostConnectionAreAnswers) {
  EXPECT_TRUE(pending(7));
  ASSERT_TRUE(relay_.to_send(now_));
  relay_.told(R"({"code": 13, "detail": "there are 64 leases already"})", now_);
  EXPECT_EQ(relay_.ask(question(7), now_).error().detail, "there are 64 leases already");
  EXPECT_TRUE(pending(8));
  relay_.not_told(Error{Errc::closed, "gone"});
  EXPECT_TRUE(pending(8)) << "it was not sent yet: the next connection takes it";
  ASSERT_TRUE(relay_.to_send(now_));
  relay_.not_told(Error{Errc::closed, "gone"});
  EXPECT_EQ(relay_.ask(question(8), now_).error().code, Errc::closed);
  EXPECT_TRUE(pending(9));
  ASSERT_TRUE(relay_.to_send(now_));
  relay_.told("no JSON", now_);
  EXPECT_FALSE(relay_.ask(question(9), now_));
  EXPECT_FALSE(relay_.ask({{"command", "lease"}}, now_)) << "without a number";
}

}  // namespace
}  // namespace gearbox::node
