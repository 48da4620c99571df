#include "central/placement.hpp"

#include <gtest/gtest.h>

#include <algorithm>
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
    note_ = {};
    return placement_.place(registry_, task, user, now, note_);
  }
  Outcome<const NodeState*> place_steps(const std::vector<std::string>& models, bool may = true) {
    note_ = {};
    User user = maria();
    user.own_steps = may;
    return placement_.place_steps(registry_, models, user, kStart, note_);
  }
  /// A node with a ready worker of each "NAME@VERSION".
  static wire::NodeReport with_models(const std::string& name, const std::vector<std::string>& models,
                                      std::uint32_t queued = 0) {
    wire::NodeReport report = report_of(name, "read-text", 1, queued);
    report.models.clear();
    for (const std::string& model : models) {
      wire::ModelReport& one = report.models.emplace_back();
      one.name = model.substr(0, model.find('@'));
      one.version = model.substr(model.find('@') + 1);
      one.workers = 1;
    }
    return report;
  }
  Registry registry_{kSilent};
  std::map<std::string, NodeSession> sessions_;
  PlacementNote note_;
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

TEST_F(PlacementTest, ANodeThatTheDeviceDoesNotReachIsTakenOnlyWhenNoOtherCan) {
  add("near", report_of("near", "read-text", 1, 5));
  add("far", report_of("far", "read-text", 1, 0));
  EXPECT_EQ(placement_.place(registry_, "read-text", maria(), kStart, note_, {"far", "unknown"}).value()->name, "near");
  const auto far =
      std::find_if(note_.seen.begin(), note_.seen.end(), [](const auto& one) { return one.node == "far"; });
  ASSERT_NE(far, note_.seen.end());
  EXPECT_EQ(far->obstacle, "the device does not reach it");
  EXPECT_EQ(placement_.place(registry_, "read-text", maria(), kStart, note_, {"far", "near"}).value()->name, "far");
}

TEST_F(PlacementTest, TheHolderOfARequestIsNamedWhateverItsState) {
  wire::NodeReport draining = report_of("a", "read-text");
  draining.draining = true;
  add("a", draining);
  add("b", report_of("b", "read-text"));
  const wire::Locate asked{.task = "read-text", .node = "a"};
  ASSERT_TRUE(Placement::holder(registry_, asked, maria()));
  EXPECT_EQ(Placement::holder(registry_, asked, maria()).value()->name, "a");
  registry_.disconnected(sessions_["a"]);
  EXPECT_TRUE(Placement::holder(registry_, asked, maria())) << "only the device may reach it";
  EXPECT_EQ(Placement::holder(registry_, {.task = "read-text", .node = "c"}, maria()).error().code, Errc::no_node);
  EXPECT_EQ(Placement::holder(registry_, {.task = "", .models = {"reader"}, .node = "a"}, maria()).error().code,
            Errc::not_allowed);
  User other = maria();
  other.tasks = {"count"};
  EXPECT_EQ(Placement::holder(registry_, asked, other).error().code, Errc::not_allowed);
  EXPECT_EQ(Placement::holder(registry_, {.task = "../x", .node = "a"}, maria()).error().code, Errc::bad_name);
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
  EXPECT_EQ(fresh.place(registry_, "read-text", maria(), kStart + seconds{1}, note_).error().code, Errc::no_node);
  EXPECT_EQ(fresh.place(registry_, "read-text", maria(), kStart + seconds{4}, note_).error().code, Errc::unknown_task);
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

TEST_F(PlacementTest, OwnStepsGoToANodeThatHasAllTheirModelsReady) {
  add("one", with_models("one", {"cut@1.0"}));
  add("both", with_models("both", {"cut@1.0", "name@1.4"}, 9));
  add("newer", with_models("newer", {"cut@1.0", "name@2.0"}, 5));
  EXPECT_EQ(place_steps({"cut"}).value()->name, "one");
  EXPECT_EQ(place_steps({"cut", "name"}).value()->name, "newer");
  EXPECT_EQ(place_steps({"cut", "name@1.*"}).value()->name, "both");
  EXPECT_EQ(note_.seen.size(), 2U) << "of those that know the models";
  EXPECT_EQ(place_steps({"cut", "name@2.0"}).value()->name, "newer");
  const auto none = place_steps({"cut", "name@>=3"});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Errc::no_node);
  EXPECT_NE(none.error().detail.find("both: model 'name@>=3' has no ready worker"), std::string::npos)
      << none.error().detail;
}

TEST_F(PlacementTest, OwnStepsAreRefusedWithAReason) {
  add("one", with_models("one", {"cut@1"}));
  add("two", with_models("two", {"name@1"}));
  EXPECT_EQ(place_steps({"cut"}, false).error().code, Errc::not_allowed);
  EXPECT_EQ(place_steps({}).error().code, Errc::bad_input);
  EXPECT_EQ(place_steps({"../cut"}).error().code, Errc::bad_name);
  EXPECT_EQ(place_steps({"cut@>=1,2"}).error().code, Errc::bad_input);
  const auto unknown = place_steps({"cutt"});
  EXPECT_EQ(unknown.error().code, Errc::not_found);
  EXPECT_NE(unknown.error().detail.find("did you mean 'cut'"), std::string::npos) << unknown.error().detail;
  const auto apart = place_steps({"cut", "name"});
  EXPECT_EQ(apart.error().code, Errc::no_node);
  EXPECT_NE(apart.error().detail.find("no single node has all their models"), std::string::npos);
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
    note_ = {};
    const auto placed = placement.place(registry_, "read-text", maria(), kStart, note_);
    ASSERT_TRUE(placed);
    EXPECT_EQ(placed.value()->name, "free");
    EXPECT_EQ(placement.balancer_faults(), 1U);
    EXPECT_TRUE(note_.stood_in);
  }
}

TEST_F(PlacementTest, NotesWhatItKnewOfEachNodeAndWhomItChose) {
  wire::NodeReport draining = report_of("draining", "read-text");
  draining.draining = true;
  add("busy", report_of("busy", "read-text", 1, 5));
  add("draining", std::move(draining));
  add("free", report_of("free", "read-text", 2, 1));
  add("other", report_of("other", "count", 1, 0));
  placement_.use(std::make_shared<FewestBalancer>(),
                 std::make_shared<const explain::Chooser>(explain::Chooser{"fewest", "1.2", "abcdef0123456789"}));
  ASSERT_TRUE(place("read-text", kStart + milliseconds{200}));
  ASSERT_TRUE(place("read-text", kStart + milliseconds{300}));
  EXPECT_EQ(note_.chosen, "free");
  EXPECT_FALSE(note_.stood_in);
  ASSERT_TRUE(note_.chooser);
  EXPECT_EQ(note_.chooser->version, "1.2");
  ASSERT_EQ(note_.seen.size(), 3U) << "a node that does not know the task has no part in it";
  std::map<std::string, NodeSeen> seen;
  for (const NodeSeen& one : note_.seen) seen[one.node] = one;
  EXPECT_EQ(seen.at("busy").queued, 5U);
  EXPECT_EQ(seen.at("busy").obstacle, "");
  EXPECT_EQ(seen.at("draining").obstacle, "is being drained");
  EXPECT_EQ(seen.at("free").queued, 1U);
  EXPECT_EQ(seen.at("free").offered, 1U) << "the first of the two devices";
  EXPECT_EQ(seen.at("free").capacity, 2U);
  EXPECT_EQ(seen.at("free").report_age_ms, 300U);
}

TEST_F(PlacementTest, OfManyNodesTheNoteKeepsTheChosenOne) {
  for (int i = 0; i < 40; ++i) add("busy-" + std::to_string(i), report_of("busy", "read-text", 1, 5));
  for (int i = 0; i < 10; ++i) add("silent-" + std::to_string(i), report_of("s", "read-text"), kStart - seconds{50});
  add("free", report_of("free", "read-text", 1, 0));
  ASSERT_TRUE(place("read-text"));
  EXPECT_EQ(note_.seen.size(), PlacementNote::kNodes);
  EXPECT_EQ(note_.left_out, 51 - PlacementNote::kNodes);
  EXPECT_EQ(note_.chosen, "free");
  EXPECT_TRUE(std::any_of(note_.seen.begin(), note_.seen.end(), [](const auto& one) { return one.node == "free"; }));
}

TEST(PlacementNote, KeepsCandidatesBeforeOthersAndTheChosenOneBeforeAll) {
  PlacementNote note;
  const auto seen = [](const std::string& name, const std::string& obstacle) {
    NodeSeen node;
    node.node = name;
    node.obstacle = obstacle;
    return node;
  };
  const auto candidates = [&] {
    return std::count_if(note.seen.begin(), note.seen.end(), [](const auto& one) { return one.obstacle.empty(); });
  };
  for (std::size_t i = 0; i < PlacementNote::kNodes; ++i) note.see(seen("silent-" + std::to_string(i), "silent"));
  for (int i = 0; i < 5; ++i) note.see(seen("ready-" + std::to_string(i), ""));
  EXPECT_EQ(note.seen.size(), PlacementNote::kNodes);
  EXPECT_EQ(candidates(), 5);
  for (int i = 5; i < 40; ++i) note.see(seen("ready-" + std::to_string(i), ""));
  EXPECT_EQ(candidates(), static_cast<std::ptrdiff_t>(PlacementNote::kNodes));
  EXPECT_EQ(note.left_out, 40U);
  note.choose(seen("ready-39", ""));
  EXPECT_TRUE(std::any_of(note.seen.begin(), note.seen.end(), [](const auto& one) { return one.node == "ready-39"; }));
  EXPECT_EQ(note.chosen, "ready-39");
}

TEST(PlacementBook, GivesEachPlacementANumberAndRemembersTheLast) {
  PlacementBook book(1000);
  const auto note_for = [](const std::string& user) {
    PlacementNote note;
    note.user = user;
    note.chosen = "node-1";
    return note;
  };
  const std::uint64_t first = book.add(note_for("first"));
  EXPECT_NE(first, 0U);
  EXPECT_EQ(book.facts(first).value().at("user").as_string(), "first");
  std::uint64_t last = first;
  for (std::size_t i = 1; i < PlacementBook::kMost; ++i) last = book.add(note_for("later"));
  EXPECT_TRUE(book.facts(first)) << "as many as it keeps";
  last = book.add(note_for("last"));
  EXPECT_EQ(book.facts(first).error().code, Errc::not_found);
  EXPECT_EQ(book.facts(last).value().at("user").as_string(), "last");
  EXPECT_EQ(book.facts(last + 1).error().code, Errc::not_found);
  EXPECT_EQ(book.facts(0).error().code, Errc::not_found);
  EXPECT_EQ(PlacementBook(2000).facts(last).error().code, Errc::not_found) << "another life of central";
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
