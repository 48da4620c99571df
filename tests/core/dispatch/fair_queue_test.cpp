#include "dispatch/fair_queue.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace gearbox::dispatch {
namespace {

using Item = FairQueue::Item;

/// Calls of several tenants: the number of a call tells whose it is.
class Fair : public ::testing::Test {
 protected:
  static Item item(std::uint32_t tenant, std::uint32_t number) { return (std::uint64_t{tenant} << 32) | number; }
  static std::uint32_t tenant_of(Item item) { return static_cast<std::uint32_t>(item >> 32); }
  static std::uint32_t number_of(Item item) { return static_cast<std::uint32_t>(item); }

  void push(std::uint32_t tenant, std::uint32_t weight, std::uint32_t count, std::uint8_t priority = 0) {
    for (std::uint32_t i = 0; i < count; ++i) {
      queue_.push(item(tenant, ++numbers_[tenant]), {.tenant = tenant, .weight = weight, .priority = priority});
    }
  }
  Item take() {
    const Item next = queue_.front();
    charged_ = queue_.pop();
    return next;
  }
  /// How many of the next `count` are whose.
  std::map<std::uint32_t, std::uint32_t> shares(std::uint32_t count) {
    std::map<std::uint32_t, std::uint32_t> of;
    for (std::uint32_t i = 0; i < count; ++i) ++of[tenant_of(take())];
    return of;
  }

  FairQueue queue_;
  std::map<std::uint32_t, std::uint32_t> numbers_;
  double charged_ = 0;  // for the last one taken
};

TEST_F(Fair, BackloggedTenantsShareByWeight) {
  push(1, 1, 3000);
  push(2, 3, 3000);
  push(3, 6, 3000);
  const auto of = shares(4000);
  EXPECT_NEAR(of.at(1), 400, 4);
  EXPECT_NEAR(of.at(2), 1200, 12);
  EXPECT_NEAR(of.at(3), 2400, 24);
}

TEST_F(Fair, TenThousandOfManyTenantsShareByWeight) {
  std::mt19937 random(7);
  std::map<std::uint32_t, std::uint32_t> weights;
  std::uint32_t all_weights = 0;
  for (std::uint32_t tenant = 1; tenant <= 20; ++tenant) {
    all_weights += weights[tenant] = static_cast<std::uint32_t>(1 + random() % 10);
    push(tenant, weights[tenant], 500);
  }
  ASSERT_EQ(queue_.size(), 10'000U);
  const std::uint32_t taken = all_weights * 40;  // fewer than the heaviest has
  auto of = shares(taken);
  for (const auto& [tenant, weight] : weights) EXPECT_NEAR(of[tenant], weight * 40, 3) << "weight " << weight;
}

TEST_F(Fair, KeepsTheOrderWithinATenant) {
  push(1, 2, 50);
  push(2, 1, 50);
  std::map<std::uint32_t, std::uint32_t> last;
  while (!queue_.empty()) {
    const Item next = take();
    EXPECT_EQ(number_of(next), ++last[tenant_of(next)]);
  }
  EXPECT_EQ(last[1], 50U);
  EXPECT_EQ(last[2], 50U);
}

TEST_F(Fair, HigherPrioritiesGoFirstWhateverTheWeights) {
  push(1, 100, 5, 0);
  push(2, 1, 5, 7);
  push(3, 1, 5, 200);
  for (const std::uint32_t tenant : {3U, 2U, 1U}) {
    for (int i = 0; i < 5; ++i) EXPECT_EQ(tenant_of(take()), tenant);
  }
}

TEST_F(Fair, ANewcomerIsServedAtOnceButGetsNothingForTheTimeItWasAway) {
  push(1, 1, 2000);
  shares(1000);
  push(2, 1, 500);
  // Its first call waits for one of the other's at most; then they take turns, as if it had never been away.
  EXPECT_GE(shares(2)[2], 1U);
  EXPECT_NEAR(shares(400)[2], 200, 1);
}

TEST_F(Fair, ATenantThatComesBackHasNoCreditEither) {
  push(1, 1, 2000);
  push(2, 1, 10);
  shares(20);
  shares(500);  // all of tenant 1
  push(2, 1, 500);
  EXPECT_NEAR(shares(200)[2], 100, 1);
}

TEST_F(Fair, WhatWasPutBackGoesFirstAndIsPaidOnce) {
  push(1, 1, 100);
  push(2, 1, 100);
  const Item back = take();
  const double charged = charged_;
  const std::uint32_t tenant = tenant_of(back);
  shares(20);
  queue_.put_back(back, {.tenant = tenant, .weight = 1, .priority = 0}, charged);
  EXPECT_EQ(take(), back);
  // 22 have gone, one of them twice: both have had the same up to one call.
  EXPECT_NEAR(shares(100)[tenant], 50, 1);
}

TEST_F(Fair, SharesTheWorkersTimeNotTheNumberOfCalls) {
  push(1, 1, 3000);
  push(2, 1, 3000);
  std::map<std::uint32_t, double> time;
  for (int i = 0; i < 2000; ++i) {
    const std::uint32_t tenant = tenant_of(take());
    const double took = tenant == 1 ? 40'000 : 10'000;
    time[tenant] += took;
    queue_.ran({.tenant = tenant, .weight = 1, .priority = 0}, charged_, took);
  }
  EXPECT_NEAR(time[1] / time[2], 1, 0.03);
}

TEST_F(Fair, CountsTheTimeOfATenantThatHasOneCallAtATime) {
  // Its queue is empty while its long call runs: what it has had is remembered nevertheless.
  push(1, 1, 5000);
  std::map<std::uint32_t, double> time;
  push(2, 1, 1);
  for (int i = 0; i < 2000; ++i) {
    const std::uint32_t tenant = tenant_of(take());
    const double took = tenant == 2 ? 100'000 : 1'000;
    time[tenant] += took;
    queue_.ran({.tenant = tenant, .weight = 1, .priority = 0}, charged_, took);
    if (tenant == 2) push(2, 1, 1);
  }
  EXPECT_NEAR(time[1] / time[2], 1, 0.1);
}

TEST_F(Fair, RemovesFromAnywhereAndForgetsWhoHasNothing) {
  push(1, 1, 4);
  push(2, 1, 4, 3);
  EXPECT_TRUE(queue_.remove(item(1, 2)));
  EXPECT_FALSE(queue_.remove(item(1, 2)));
  EXPECT_TRUE(queue_.remove(item(2, 1)));
  EXPECT_EQ(queue_.items(),
            (std::vector<Item>{item(2, 2), item(2, 3), item(2, 4), item(1, 1), item(1, 3), item(1, 4)}));
  std::vector<Item> taken;
  while (!queue_.empty()) taken.push_back(take());
  EXPECT_EQ(taken, (std::vector<Item>{item(2, 2), item(2, 3), item(2, 4), item(1, 1), item(1, 3), item(1, 4)}));
  push(1, 1, 1);
  EXPECT_TRUE(queue_.remove(item(1, 5)));
  EXPECT_TRUE(queue_.empty());
}

/// Against a list that does the same the slow way.
TEST_F(Fair, AgreesWithAPlainListUnderRandomUse) {
  std::mt19937 random(11);
  std::map<std::uint32_t, std::vector<Item>> waiting;  // by tenant
  std::size_t count = 0;
  for (int step = 0; step < 20'000; ++step) {
    const auto tenant = static_cast<std::uint32_t>(1 + random() % 8);
    const auto what = random() % 10;
    if (what < 5) {
      push(tenant, tenant, 1);
      waiting[tenant].push_back(item(tenant, numbers_[tenant]));
      ++count;
    } else if (what < 7 && !waiting[tenant].empty()) {
      const auto at = waiting[tenant].begin() + static_cast<std::ptrdiff_t>(random() % waiting[tenant].size());
      ASSERT_TRUE(queue_.remove(*at));
      waiting[tenant].erase(at);
      --count;
    } else if (count > 0) {
      const Item next = take();
      std::vector<Item>& own = waiting[tenant_of(next)];
      ASSERT_FALSE(own.empty());
      ASSERT_EQ(own.front(), next) << "the oldest of its tenant";
      if (what == 9) {
        queue_.put_back(next, {.tenant = tenant_of(next), .weight = tenant_of(next), .priority = 0}, charged_);
      } else {
        own.erase(own.begin());
        --count;
        queue_.ran({.tenant = tenant_of(next), .weight = tenant_of(next), .priority = 0}, charged_,
                   static_cast<double>(1 + random() % 1000));
      }
    }
    ASSERT_EQ(queue_.size(), count);
  }
}

}  // namespace
}  // namespace gearbox::dispatch
