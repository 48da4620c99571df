#include "observer/links.hpp"

#include <gtest/gtest.h>

namespace gearbox::observer {
namespace {

LinkMeasure fast(double bytes_per_s) {
  return {false, microseconds(200), bytes_per_s};
}

TEST(LinkBook, OfOneHostIsHealthy) {
  const LinkBook book;
  EXPECT_FALSE(book.any());
  EXPECT_EQ(book.health(), 1);
  EXPECT_EQ(book.slowdown(), 1);
}

TEST(LinkBook, TheWorstLinkCounts) {
  LinkBook book;
  book.add("b", fast(1e9));
  book.add("c", fast(1e8));
  EXPECT_EQ(book.health(), 1) << "each against what is usual for it";
  book.add("b", fast(2.5e8));
  EXPECT_NEAR(book.health(), 0.25, 0.01);
  EXPECT_NEAR(book.slowdown(), 4, 0.1);
  book.add("c", {true, {}, 0});
  EXPECT_TRUE(book.failed());
  EXPECT_EQ(book.health(), 0);
  EXPECT_EQ(book.slowdown(), 1000) << "bounded";
  book.keep_only({"b"});
  EXPECT_FALSE(book.failed());
  book.add("b", fast(1e9));
  EXPECT_EQ(book.health(), 1) << "it healed";
}

TEST(LinkBook, ASlowHourDoesNotBecomeUsual) {
  LinkBook book;
  book.add("b", fast(1e9));
  for (int probe = 0; probe < 60; ++probe) book.add("b", fast(1e8));
  EXPECT_LT(book.health(), 0.12);
}

}  // namespace
}  // namespace gearbox::observer
