#include "observer/samples.hpp"

#include <gtest/gtest.h>

namespace gearbox::observer {
namespace {

TEST(Samples, AreADistribution) {
  Samples samples;
  EXPECT_LT(samples.mean(), 0) << "nothing is known yet";
  EXPECT_LT(samples.burstiness(), 0);
  samples.add(0.2);
  EXPECT_LT(samples.burstiness(), 0) << "one sample is no distribution";
  samples.add(0.6);
  EXPECT_DOUBLE_EQ(samples.mean(), 0.4);
  EXPECT_DOUBLE_EQ(samples.peak(), 0.6);
  EXPECT_DOUBLE_EQ(samples.burstiness(), 0.5);
}

TEST(Samples, ForgetWhatIsOld) {
  Samples samples;
  samples.add(100);
  for (std::size_t i = 0; i < kSamples; ++i) samples.add(1);
  EXPECT_EQ(samples.count(), kSamples);
  EXPECT_DOUBLE_EQ(samples.peak(), 1);
  EXPECT_DOUBLE_EQ(samples.burstiness(), 0);
}

TEST(Samples, OfAnIdleGroupAreEven) {
  Samples samples;
  samples.add(0);
  samples.add(0);
  EXPECT_DOUBLE_EQ(samples.burstiness(), 0);
}

}  // namespace
}  // namespace gearbox::observer
