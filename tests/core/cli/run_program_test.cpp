#include "cli/run_program.hpp"

#include <gtest/gtest.h>

namespace gearbox::cli {
namespace {

TEST(RunProgram, KeepsExitCodeAndTheEndOfTheOutput) {
  const auto end =
      run_program({"/bin/sh", "-c", "yes | head -c 20000; echo; echo last >&2; exit 7"}, milliseconds(10000));
  ASSERT_TRUE(end);
  EXPECT_EQ(end.value().exit_code, 7);
  EXPECT_LE(end.value().output.size(), 4096U);
  EXPECT_TRUE(end.value().output.ends_with("last\n"));
}

TEST(RunProgram, KillsWhatTakesTooLongWithItsChildren) {
  const Instant began = Clock::now();
  const auto end = run_program({"/bin/sh", "-c", "sleep 300 & sleep 300"}, milliseconds(100));
  ASSERT_TRUE(end);
  EXPECT_TRUE(end.value().timed_out);
  EXPECT_EQ(end.value().exit_code, -1);
  EXPECT_LT(Clock::now() - began, seconds(60));
}

TEST(RunProgram, SaysWhatCannotBeStarted) {
  const auto end = run_program({"/no/such/python"}, milliseconds(1000));
  ASSERT_FALSE(end);
  EXPECT_NE(end.error().detail.find("/no/such/python"), std::string::npos);
}

}  // namespace
}  // namespace gearbox::cli
