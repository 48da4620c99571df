#include "central/leases.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>

#include "kinds.hpp"
#include "support/temp_dir.hpp"

namespace gearbox::central {
namespace {

constexpr milliseconds kTtl{6'000};

class LeasesTest : public ::testing::TestWithParam<test::Kind> {
 protected:
  void SetUp() override {
    std::string missing;
    place_ = test::empty_place(GetParam(), folder_.path(), missing);
    if (!missing.empty()) GTEST_SKIP() << missing;
    open();
  }
  void open() {
    leases_.reset();
    auto opened = Leases::open(place_, now_);
    ASSERT_TRUE(opened) << opened.error().detail;
    leases_.emplace(std::move(opened).value());
  }
  LeaseAnswer ask(const char* holder, std::optional<std::uint64_t> term = {}) {
    auto answer = leases_->ask("scheduler", holder, kTtl, term, now_);
    EXPECT_TRUE(answer);
    return answer ? answer.value() : LeaseAnswer{};
  }

  const gearbox::testing::TempDir folder_;
  AccountsPlace place_;
  Instant now_ = Instant() + seconds(1000);
  std::optional<Leases> leases_;
};

TEST_P(LeasesTest, OneHolderAtATime) {
  const LeaseAnswer first = ask("a");
  EXPECT_TRUE(first.granted);
  EXPECT_EQ(first.term, 1U);
  now_ += seconds(2);
  const LeaseAnswer second = ask("b");
  EXPECT_FALSE(second.granted);
  EXPECT_EQ(second.holder, "a");
  EXPECT_EQ(second.left, milliseconds(4'000));
}

TEST_P(LeasesTest, ItIsRenewedUnderItsTerm) {
  ask("a");
  for (int i = 0; i < 5; ++i) {
    now_ += seconds(4);
    const LeaseAnswer renewed = ask("a", 1);
    EXPECT_TRUE(renewed.granted);
    EXPECT_EQ(renewed.term, 1U);
  }
  EXPECT_FALSE(ask("b").granted);
}

TEST_P(LeasesTest, ANewHolderHasAHigherTermAndTheOldOneIsRefused) {
  ask("a");
  now_ += kTtl;
  const LeaseAnswer taken = ask("b");
  EXPECT_TRUE(taken.granted);
  EXPECT_EQ(taken.term, 2U);
  const LeaseAnswer late = ask("a", 1);
  EXPECT_FALSE(late.granted);
  EXPECT_EQ(late.holder, "b");
}

TEST_P(LeasesTest, ALateRenewalStandsWhenNobodyElseCame) {
  ask("a");
  now_ += 10 * kTtl;
  const LeaseAnswer late = ask("a", 1);
  EXPECT_TRUE(late.granted);
  EXPECT_EQ(late.term, 1U);
}

TEST_P(LeasesTest, ANewLifeOfTheHolderNeedNotWaitAndReplacesTheOld) {
  ask("a");
  const LeaseAnswer next = ask("a");
  EXPECT_TRUE(next.granted);
  EXPECT_EQ(next.term, 2U);
  EXPECT_FALSE(ask("a", 1).granted) << "the life before it";
}

TEST_P(LeasesTest, AfterARestartTheHolderGoesOnAndOthersWaitOnce) {
  ask("a");
  now_ += seconds(5);
  open();
  now_ += seconds(5);
  EXPECT_FALSE(ask("b").granted) << "nobody knows when it was renewed last";
  EXPECT_TRUE(ask("a", 1).granted);
  open();
  now_ += kTtl;
  const LeaseAnswer taken = ask("b");
  EXPECT_TRUE(taken.granted);
  EXPECT_EQ(taken.term, 2U);
  open();
  EXPECT_EQ(ask("a").term, 2U) << "the term is on disk";
}

TEST_P(LeasesTest, WhatIsGivenBackMayBeTakenAtOnce) {
  ask("a");
  leases_->release("scheduler", "a", 7, now_);
  EXPECT_FALSE(ask("b").granted) << "of another term";
  leases_->release("scheduler", "a", 1, now_);
  EXPECT_EQ(ask("b").term, 2U);
}

TEST_P(LeasesTest, ANewTermIsAboveWhatWasObeyedBeforeTheFileWasLost) {
  auto granted = leases_->ask("scheduler", "a", kTtl, {}, now_, 41);
  ASSERT_TRUE(granted);
  EXPECT_EQ(granted.value().term, 42U);
  EXPECT_FALSE(leases_->ask("scheduler", "a", kTtl, {}, now_, std::numeric_limits<std::uint64_t>::max()));
}

TEST_P(LeasesTest, TheCommandIsChecked) {
  const auto command = [&](boost::json::object request) { return lease_command(*leases_, request, now_); };
  const auto granted = command({{"holder", "a"}, {"ttl_ms", 6000}});
  ASSERT_TRUE(granted);
  EXPECT_TRUE(granted.value().at("granted").as_bool());
  EXPECT_EQ(granted.value().at("left_ms").to_number<int>(), 6000);
  EXPECT_FALSE(command({{"holder", "a b"}, {"ttl_ms", 6000}}));
  EXPECT_FALSE(command({{"holder", "a"}, {"ttl_ms", 0}}));
  EXPECT_FALSE(command({{"holder", "a"}, {"ttl_ms", 99999999}}));
  EXPECT_FALSE(command({{"holder", "a"}, {"ttl_ms", 6000}, {"term", "1"}}));
  for (std::size_t i = 1; i < Leases::kMost; ++i)
    ASSERT_TRUE(command({{"name", "lease-" + std::to_string(i)}, {"holder", "a"}, {"ttl_ms", 6000}}));
  EXPECT_FALSE(command({{"name", "one-more"}, {"holder", "a"}, {"ttl_ms", 6000}}));
}

INSTANTIATE_TEST_SUITE_P(On, LeasesTest, ::testing::Values(test::Kind::sqlite, test::Kind::postgres), test::name_of);

}  // namespace
}  // namespace gearbox::central
