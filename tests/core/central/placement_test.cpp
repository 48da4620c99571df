#include "central/placement.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

#include "central/rate_limiter.hpp"
#include "central/registry.hpp"
#include "support.hpp"

namespace gearbox::central::test {
namespace {

const Instant kStart{std::chrono::hours(10)};
constexpr milliseconds kSilent{3000};

User maria() {
  User user;
  user.name = "maria";
  return user;
}

class PlacementTest : public ::testing::Test {
 protected:
  PublicKey add(const std::string& name, wire::NodeReport report, Instant now = kStart) {
    const PublicKey key = link::make_signing_keys().public_key;
    const NodeSession session = registry_.connected(key, name);
    EXPECT_TRUE(registry_.reported(session, std::move(report), now));
    sessions_[name] = session;
    return key;
  }
  Outcome<const NodeState*> place(std::string_view task, Instant now = kStart, const User& user = maria()) {
    return placement_.place(registry_, task, user, now);
  }
  Registry registry_{kSilent};
  std::map<std::string, NodeSession> sessions_;
  Placement placement_{std::make_shared<FewestBalancer>(), {"configured"}, kStart - seconds{60}, kSilent};
};

TEST_F(PlacementTest, OffersTheLeastLoadedNodeThatCanDoTheTask) {
  add("busy", report_of("busy", "read-text", 1, 5));
  add("free", report_of("free", "read-text", 1, 0));
  add("other", report_of("other", "count", 1, 0));
  ASSERT_TRUE(place("read-text"));
  EXPECT_EQ(place("read-text").value()->name, "free");
}

TEST_F(PlacementTest, SpreadsDevicesThatComeBetweenTwoReports) {
  add("a", report_of("a", "read-text"));
  add("b", report_of("b", "read-text"));
  std::map<std::string, int> count;
  for (int i = 0; i < 10; ++i) ++count[place("read-text").value()->name];
  EXPECT_EQ(count["a"], 5);
  EXPECT_EQ(count["b"], 5);
}

TEST_F(PlacementTest, ASilentNodeIsNotOfferedAndASpeakingOneIsAgain) {
  add("a", report_of("a", "read-text"));
  EXPECT_TRUE(place("read-text", kStart + milliseconds{2999}));
  const auto silent = place("read-text", kStart + milliseconds{3000});
  ASSERT_FALSE(silent);
  EXPECT_EQ(silent.error().code, Errc::no_node);
  EXPECT_NE(silent.error().detail.find("a: silent for 3000 ms"), std::string::npos) << silent.error().detail;
  registry_.reported(sessions_["a"], report_of("a", "read-text"), kStart + seconds{60});
  EXPECT_TRUE(place("read-text", kStart + seconds{61}));
}

TEST_F(PlacementTest, ADrainingOrDisconnectedNodeIsNotOffered) {
  auto draining = report_of("a", "read-text");
  draining.draining = true;
  add("a", draining);
  EXPECT_NE(place("read-text").error().detail.find("drained"), std::string::npos);
  registry_.disconnected(sessions_["a"]);
  EXPECT_NE(place("read-text").error().detail.find("not connected"), std::string::npos);
}

TEST_F(PlacementTest, SaysWhichModelHasNoReadyWorkerAndWhere) {
  add("a", report_of("a", "read-text", 0));
  const auto refused = place("read-text");
  EXPECT_EQ(refused.error().code, Errc::no_node);
  EXPECT_NE(refused.error().detail.find("a: model 'reader@4' has no ready worker"), std::string::npos)
      << refused.error().detail;
  EXPECT_EQ(place("configured").error().code, Errc::no_node);
}

TEST_F(PlacementTest, SuggestsTheNearestTaskThatTheAccountMayUse) {
  add("a", report_of("a", "read-text"));
  const auto refused = place("read-txt");
  EXPECT_EQ(refused.error().code, Errc::unknown_task);
  EXPECT_NE(refused.error().detail.find("did you mean 'read-text'"), std::string::npos) << refused.error().detail;
  User limited = maria();
  limited.tasks = {"count"};
  EXPECT_EQ(place("read-txt", kStart, limited).error().detail.find("read-text"), std::string::npos);
  EXPECT_EQ(place("read-text", kStart, limited).error().code, Errc::not_allowed);
  EXPECT_EQ(place("../read-text").error().code, Errc::bad_name);
}

TEST_F(PlacementTest, ATaskThatNobodyHasReportedYetIsNoUnknownTaskRightAfterTheStart) {
  Placement fresh(std::make_shared<FewestBalancer>(), {}, kStart, kSilent);
  EXPECT_EQ(fresh.place(registry_, "read-text", maria(), kStart + seconds{1}).error().code, Errc::no_node);
  EXPECT_EQ(fresh.place(registry_, "read-text", maria(), kStart + seconds{4}).error().code, Errc::unknown_task);
}

TEST_F(PlacementTest, ALaterLoginDisplacesAnEarlierOneOfTheSameNode) {
  const PublicKey key = add("a", report_of("a", "read-text"));
  const NodeSession first = sessions_["a"];
  const NodeSession second = registry_.connected(key, "a");
  EXPECT_FALSE(registry_.reported(first, report_of("a", "read-text"), kStart));
  registry_.disconnected(first);  // the old connection's end must not take the new one off the list
  EXPECT_TRUE(registry_.reported(second, report_of("a", "read-text"), kStart));
  EXPECT_TRUE(place("read-text"));
}

class BadBalancer : public plugin::Balancer {
 public:
  explicit BadBalancer(bool throws) : throws_(throws) {}
  Outcome<plugin::CandidateId> pick(const plugin::RequestView&, std::span<const plugin::CandidateView>,
                                    Instant) override {
    if (throws_) throw std::runtime_error("oops");
    return plugin::CandidateId{4711};
  }

 private:
  bool throws_;
};

TEST_F(PlacementTest, ABalancerThatThrowsOrAnswersNonsenseIsCountedAndTheDeviceServed) {
  add("busy", report_of("busy", "read-text", 1, 5));
  add("free", report_of("free", "read-text", 1, 0));
  for (const bool throws : {true, false}) {
    Placement placement(std::make_shared<BadBalancer>(throws), {}, kStart, kSilent);
    const auto placed = placement.place(registry_, "read-text", maria(), kStart);
    ASSERT_TRUE(placed);
    EXPECT_EQ(placed.value()->name, "free");
    EXPECT_EQ(placement.balancer_faults(), 1U);
  }
}

TEST(RateLimiter, LetsThroughTheTriesOfAMinuteThenSaysHowLongToWait) {
  RateLimiter limiter(10);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(limiter.wait("10.0.0.1", kStart).count(), 0);
    limiter.failed("10.0.0.1", kStart);
  }
  EXPECT_EQ(limiter.wait("10.0.0.1", kStart), milliseconds{6000});
  EXPECT_EQ(limiter.wait("10.0.0.2", kStart).count(), 0);
  EXPECT_GT(limiter.wait("10.0.0.1", kStart + milliseconds{5999}).count(), 0);
  EXPECT_EQ(limiter.wait("10.0.0.1", kStart + milliseconds{6000}).count(), 0);
}

TEST(RateLimiter, TriesThatWereUnderWayTogetherAreWaitedOff) {
  RateLimiter limiter(10);
  for (int i = 0; i < 20; ++i) limiter.failed("10.0.0.1", kStart);
  EXPECT_EQ(limiter.wait("10.0.0.1", kStart), milliseconds{66'000});
}

TEST(RateLimiter, ItsTableIsBoundedAndAFloodOfAddressesFreesNobody) {
  RateLimiter limiter(1, 100);
  for (int i = 0; i < 100; ++i) limiter.failed("group " + std::to_string(i), kStart);
  limiter.failed("one more", kStart);
  EXPECT_EQ(limiter.groups(), 100U);
  EXPECT_GT(limiter.wait("group 0", kStart).count(), 0);
  EXPECT_GT(limiter.wait("yet another", kStart).count(), 0);
  limiter.failed("later", kStart + seconds{61});  // the old ones have paid: there is room again
  EXPECT_EQ(limiter.groups(), 1U);
}

TEST(RateLimiter, AClockThatStandsStillOrGoesBackGivesNoTries) {
  RateLimiter limiter(1);
  limiter.failed("a", kStart);
  EXPECT_EQ(limiter.wait("a", kStart - seconds{3600}), milliseconds{60'000});
}

}  // namespace
}  // namespace gearbox::central::test
