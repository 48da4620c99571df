#include "observer/process_figures.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

namespace gearbox::observer {
namespace {

TEST(ProcessFigures, ReadsBehindANameWithParentheses) {
  const auto figures = read_stat(
      "71 (python (rank) 1) S 1 71 71 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 4 0 9000 1000000 512 18446744073709551615 "
      "1 "
      "1 0 0\n",
      100, 4096);
  ASSERT_TRUE(figures);
  EXPECT_EQ(figures->cpu, std::chrono::seconds(3));
  EXPECT_EQ(figures->started, 9000U);
  EXPECT_EQ(figures->resident_bytes, 512 * 4096);
}

TEST(ProcessFigures, OfACutLineAreNone) {
  EXPECT_FALSE(read_stat("71 (python) S 1 71", 100, 4096));
  EXPECT_FALSE(read_stat("", 100, 4096));
  EXPECT_FALSE(figures_of(0));
  EXPECT_FALSE(figures_of(-5));
}

TEST(ProcessFigures, OfThisProcessAreThere) {
  const auto figures = figures_of(::getpid());
  ASSERT_TRUE(figures);
  EXPECT_GT(figures->resident_bytes, 4096);
  EXPECT_GT(figures->started, 0U);
}

}  // namespace
}  // namespace gearbox::observer
