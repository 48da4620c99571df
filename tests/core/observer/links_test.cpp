#include "observer/links.hpp"

#include <gtest/gtest.h>

namespace gearbox::observer {
namespace {

LinkMeasure fast(double bytes_per_s) {
  return {false, microseconds(200), bytes_per_s};
}

const Instant kNow = Instant() + seconds(100);
const LinkMeasure kFailed{true, {}, 0};
const LinkMeasure kSmall{false, microseconds(150), 0};

TEST(LinkBook, OfOneHostIsHealthy) {
  const LinkBook book;
  EXPECT_FALSE(book.any());
  EXPECT_EQ(book.health(), 1);
  EXPECT_EQ(book.slowdown(), 1);
}

TEST(LinkBook, EachLinkIsHeldAgainstWhatIsUsualForIt) {
  LinkBook book;
  book.add("b", fast(1e9), kNow);
  EXPECT_EQ(book.health(), 1);
  book.add("b", fast(2.5e8), kNow);
  EXPECT_NEAR(book.health(), 0.25, 0.01);
  EXPECT_NEAR(book.slowdown(), 4, 0.1);
  book.add("b", kFailed, kNow);
  EXPECT_TRUE(book.failed());
  EXPECT_EQ(book.health(), 0);
  EXPECT_EQ(book.slowdown(), 1000) << "bounded";
  book.add("b", fast(1e9), kNow);
  EXPECT_FALSE(book.failed());
  EXPECT_EQ(book.health(), 1) << "it healed";
  book.add("b", fast(5e9), kNow);
  book.add("b", fast(9e8), kNow);
  EXPECT_NEAR(book.health(), 0.75, 0.01) << "one lucky burst moves what is usual, but not to where it was";
  book.add("b", fast(1e12), kNow);
  book.add("b", fast(9e8), kNow);
  EXPECT_GT(book.health(), 0.6) << "nor does one that cannot be true";
}

TEST(LinkBook, OneBadPeerOfSeveralIsThePeersFault) {
  LinkBook book;
  for (const char* peer : {"b", "c", "d"}) book.add(peer, fast(1e9), kNow);
  book.add("d", fast(1e7), kNow);
  EXPECT_EQ(book.health(), 1);
  book.add("d", kFailed, kNow);
  EXPECT_EQ(book.health(), 1);
  EXPECT_FALSE(book.failed());
  book.add("c", fast(1e8), kNow);
  EXPECT_NEAR(book.health(), 0.1, 0.01) << "two of three: it is this host";
  book.keep_only({"b"});
  EXPECT_EQ(book.health(), 1);
  book.add("c", fast(1e7), kNow);
  EXPECT_EQ(book.health(), 1) << "of two the better one";
}

TEST(LinkBook, ASmallMessageSaysNothingNewOfASlowLink) {
  LinkBook book;
  book.add("b", fast(1e9), kNow);
  EXPECT_EQ(book.samples(), 1U);
  book.add("b", kSmall, kNow);
  EXPECT_EQ(book.samples(), 2U) << "as ever, and it is there";
  book.add("b", fast(1e8), kNow);
  EXPECT_EQ(book.samples(), 3U);
  book.add("b", kSmall, kNow);
  EXPECT_EQ(book.samples(), 3U) << "nobody knows whether it is still slow";
  EXPECT_NEAR(book.health(), 0.1, 0.01);
  book.add("b", kFailed, kNow);
  EXPECT_EQ(book.samples(), 4U);
}

TEST(LinkBook, FactsSayHowOldTheyAre) {
  LinkBook book;
  book.add("b", kSmall, kNow);
  EXPECT_EQ(book.facts(kNow)[0].bandwidth_age_ms, -1) << "not measured yet";
  book.add("b", fast(1e9), kNow);
  book.add("b", kSmall, kNow + seconds(4));
  const auto facts = book.facts(kNow + seconds(5));
  ASSERT_EQ(facts.size(), 1U);
  EXPECT_EQ(facts[0].peer, "b");
  EXPECT_EQ(facts[0].latency_us, 150);
  EXPECT_EQ(facts[0].bytes_per_s, 1e9);
  EXPECT_EQ(facts[0].age_ms, 1000);
  EXPECT_EQ(facts[0].bandwidth_age_ms, 5000);
}

TEST(LinkBook, ASlowHourDoesNotBecomeUsual) {
  LinkBook book;
  book.add("b", fast(1e9), kNow);
  for (int probe = 0; probe < 60; ++probe) book.add("b", fast(1e8), kNow);
  EXPECT_LT(book.health(), 0.12);
}

}  // namespace
}  // namespace gearbox::observer
