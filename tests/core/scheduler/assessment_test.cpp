#include "scheduler/assessment.hpp"

#include <gtest/gtest.h>

#include <array>

namespace gearbox::scheduler {
namespace {

class AssessmentTest : public ::testing::Test {
 protected:
  AssessmentTest() {
    pool_.model = {
        .layers = 32, .width = 4096, .heads = 32, .kv_heads = 32, .head_width = 128, .parameters = 6'740'000'000};
    group_.card = *gears::card_named("a100-80g");
    group_.gear = 3;
    group_.gears = gears_;
  }
  Assessment assess() { return scheduler::assess(group_, std::span(&pool_, 1)); }

  std::array<plugin::GearView, 2> gears_ = {plugin::GearView{1, {8, 1, 1, 1}, true, true},
                                            plugin::GearView{3, {2, 4, 1, 1}, true, true}};
  plugin::PoolView pool_;
  plugin::GroupView group_;
};

TEST_F(AssessmentTest, SharesAddUpToOne) {
  group_.running = 64;
  group_.cached_tokens = 64'000;
  const Assessment found = assess();
  EXPECT_NEAR(found.compute + found.memory + found.communication + found.rest, 1, 1e-9);
}

TEST_F(AssessmentTest, AFewLongSequencesAreBoundByMemory) {
  group_.running = 16;
  group_.cached_tokens = 16 * 4000;
  EXPECT_GT(assess().memory, 0.5);
}

TEST_F(AssessmentTest, PromptsAreBoundByComputing) {
  group_.gear = 1;
  group_.running = 64;
  pool_.fast = {10, 4000, 16};
  EXPECT_GT(assess().compute, 0.5);
}

TEST_F(AssessmentTest, SlowLinksAreSeen) {
  group_.running = 16;
  group_.link_slowdown = 50;
  EXPECT_GT(assess().communication, 0.5);
  group_.gear = 1;
  EXPECT_EQ(assess().communication, 0);
}

TEST_F(AssessmentTest, WithoutAModelNothingIsSaid) {
  pool_.model = {};
  EXPECT_TRUE(assess().figures.empty());
  group_.pool = plugin::PoolId{9};
  EXPECT_TRUE(assess().figures.empty());
}

}  // namespace
}  // namespace gearbox::scheduler
