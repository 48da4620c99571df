// Against real members of etcd: they share one process of this program, since the cluster takes seconds to start.
#include "coordination/etcd_store.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "conformance/coordination_conformance.hpp"
#include "scheduler/lease.hpp"
#include "support/etcd_cluster.hpp"

namespace gearbox::coordination {
namespace {

using scheduler::LeaseKeeper;
using test::asked;
using test::soon;
using test::wish;

class EtcdStoreTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    cluster_ = std::make_unique<gearbox::testing::EtcdCluster>();
    if (!cluster_->missing().empty()) std::cout << "NOT RUN: " << cluster_->missing() << "\n";
  }
  static void TearDownTestSuite() { cluster_.reset(); }
  void SetUp() override {
    if (!cluster_->missing().empty()) GTEST_SKIP() << cluster_->missing();
  }
  /// `prefix` keeps the tests apart.
  static std::unique_ptr<EtcdStore> store(const std::string& prefix, std::size_t members = 3) {
    std::vector<sink::HttpUrl> urls;
    std::string rest = cluster_->endpoints();
    while (!rest.empty() && urls.size() < members) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      urls.push_back(sink::http_url(rest.substr(0, comma)).value());
      rest.erase(0, std::min(comma + 1, rest.size()));
    }
    return std::make_unique<EtcdStore>(EtcdMembers(std::move(urls), milliseconds{500}, {}), prefix);
  }

  static std::unique_ptr<gearbox::testing::EtcdCluster> cluster_;
};
std::unique_ptr<gearbox::testing::EtcdCluster> EtcdStoreTest::cluster_;

TEST_F(EtcdStoreTest, Conforms) {
  const auto one = store("conforms/"), other = store("conforms/");
  test::conforms(*one, *other);
}

TEST_F(EtcdStoreTest, OfManyThatComeAtOnceOneGetsIt) {
  constexpr int kAtOnce = 8;
  std::vector<plugin::LeaseAnswer> answers(kAtOnce);
  std::vector<std::thread> threads;
  for (int i = 0; i < kAtOnce; ++i) {
    threads.emplace_back([&answers, i] {
      const std::string holder = "holder-" + std::to_string(i);
      answers[static_cast<std::size_t>(i)] = asked(*store("race/"), wish("lead", holder));
    });
  }
  for (std::thread& thread : threads) thread.join();
  int granted = 0;
  for (const plugin::LeaseAnswer& answer : answers) granted += answer.granted ? 1 : 0;
  EXPECT_EQ(granted, 1);
}

TEST_F(EtcdStoreTest, WhatSomebodyElseWroteThereIsNotTakenForALease) {
  const auto ours = store("foreign/");
  EtcdMembers plain({sink::http_url(cluster_->endpoints().substr(0, cluster_->endpoints().find(','))).value()},
                    milliseconds{1'000}, {});
  const boost::json::object put{{"key", base64("foreign/lead/holder")}, {"value", base64("mine")}};
  ASSERT_TRUE(plain.ask("/v3/kv/put", put, soon()));
  const auto answer = ours->ask(wish("lead", "a"), soon());
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Errc::not_allowed);
}

TEST_F(EtcdStoreTest, ALeaseThatWasRemovedIsNotRenewed) {
  const auto ours = store("removed/");
  const plugin::LeaseAnswer held = asked(*ours, wish("lead", "a"));
  ASSERT_TRUE(held.granted);
  EtcdMembers plain({sink::http_url(cluster_->endpoints().substr(0, cluster_->endpoints().find(','))).value()},
                    milliseconds{1'000}, {});
  ASSERT_TRUE(plain.ask("/v3/kv/deleterange", {{"key", base64("removed/lead/holder")}}, soon()));
  const plugin::LeaseAnswer taken = asked(*store("removed/"), wish("lead", "b"));
  ASSERT_TRUE(taken.granted);
  EXPECT_GT(taken.term, held.term);
  EXPECT_FALSE(asked(*ours, wish("lead", "a", held.term)).granted);
}

/// Two that want to lead, each as the scheduler does it, and somebody who looks whether both believe that they do.
class Rivals {
 public:
  struct Holding {
    std::uint64_t term = 0;
    Instant from, until;
  };
  Rivals(std::unique_ptr<EtcdStore> one, std::unique_ptr<EtcdStore> two) : stores_{std::move(one), std::move(two)} {
    for (int i = 0; i < 2; ++i) threads_.emplace_back([this, i] { run(i); });
  }
  ~Rivals() {
    stopping_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  /// Who leads now; -1: nobody. Both at once are remembered.
  int leader() {
    const std::lock_guard held(mutex_);
    const Instant now = Clock::now();
    const bool zero = keepers_[0].holds(now), one = keepers_[1].holds(now);
    both_ = both_ || (zero && one);
    return zero ? 0 : one ? 1 : -1;
  }
  std::uint64_t term(int who) {
    const std::lock_guard held(mutex_);
    return keepers_[who].term().value_or(0);
  }
  std::string problem(int who) {
    const std::lock_guard held(mutex_);
    return keepers_[who].problem();
  }
  void pause(int who, bool paused) { paused_[who] = paused; }
  bool both() const { return both_; }
  /// Who leads when it is first as `wanted` says; nothing after `within`.
  std::optional<int> wait(const std::function<bool(int)>& wanted, milliseconds within) {
    const Instant deadline = after(Clock::now(), within);
    for (;;) {
      const int who = leader();
      if (wanted(who)) return who;
      if (Clock::now() >= deadline) return std::nullopt;
      std::unique_lock held(mutex_);
      wake_.wait_for(held, milliseconds{2});  // a lease also ends without anybody saying so
    }
  }

 private:
  void run(int who) {
    const std::string holder = "rival-" + std::to_string(who);
    while (!stopping_) {
      const Instant begun = Clock::now();
      if (!paused_[who]) {
        plugin::LeaseWish asks = wish("lead", holder, term(who));
        asks.ttl = kTtl;
        const auto answer = stores_[who]->ask(asks, after(begun, kTtl * 3 / 10));
        const std::lock_guard held(mutex_);
        keepers_[who].answered(answer, begun);
        wake_.notify_all();
      }
      std::unique_lock held(mutex_);
      wake_.wait_until(held, after(begun, kTtl / 3), [this] { return stopping_.load(); });
    }
  }

  static constexpr milliseconds kTtl{1'500};
  std::unique_ptr<EtcdStore> stores_[2];
  std::mutex mutex_;
  std::condition_variable wake_;
  LeaseKeeper keepers_[2]{LeaseKeeper(kTtl), LeaseKeeper(kTtl)};
  std::atomic<bool> stopping_{false}, paused_[2]{false, false}, both_{false};
  std::vector<std::thread> threads_;
};

// One after the other, since each of them harms the cluster, and mends it.
TEST_F(EtcdStoreTest, OneLeadsWhateverBecomesOfMembersAndOfLeaders) {
  Rivals rivals(store("rivals/"), store("rivals/"));
  const auto somebody = [](int who) { return who >= 0; };
  const auto nobody = [](int who) { return who < 0; };
  const auto first = rivals.wait(somebody, milliseconds{10'000});
  ASSERT_TRUE(first);
  const std::uint64_t term = rivals.term(*first);

  // The member that leads the others is killed: whoever holds our lease goes on, or is replaced soon.
  const int member = cluster_->leader();
  ASSERT_EQ(cluster_->tell("kill " + std::to_string(member)), "done");
  ASSERT_NE(cluster_->leader(), member);
  auto leader = rivals.wait(somebody, milliseconds{15'000});
  ASSERT_TRUE(leader);
  EXPECT_GE(rivals.term(*leader), term);
  EXPECT_TRUE(*leader == *first || rivals.term(*leader) > term);

  // The holder stands still: it knows by its own clock that it leads no more, and the other one takes over.
  const std::uint64_t before = rivals.term(*leader);
  rivals.pause(*leader, true);
  const int other = 1 - *leader;
  ASSERT_TRUE(rivals.wait([&](int who) { return who == other; }, milliseconds{15'000}));
  EXPECT_GT(rivals.term(other), before);
  rivals.pause(*leader, false);

  // Without a majority nobody leads, and it is said.
  const int second = (member + 1) % 3;
  ASSERT_EQ(cluster_->tell("kill " + std::to_string(second)), "done");
  ASSERT_TRUE(rivals.wait(nobody, milliseconds{10'000}));
  EXPECT_NE(rivals.problem(other).find("no member of etcd answers"), std::string::npos) << rivals.problem(other);
  const std::uint64_t last = std::max(rivals.term(0), rivals.term(1));
  ASSERT_EQ(cluster_->tell("start " + std::to_string(second)), "done");
  ASSERT_EQ(cluster_->tell("start " + std::to_string(member)), "done");
  leader = rivals.wait(somebody, milliseconds{20'000});
  ASSERT_TRUE(leader);
  EXPECT_GE(rivals.term(*leader), last);
  EXPECT_FALSE(rivals.both()) << "two led at once";
}

}  // namespace
}  // namespace gearbox::coordination
