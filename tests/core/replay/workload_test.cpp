#include "replay/workload.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace gearbox::replay {
namespace {

std::vector<Arrival> all_of(const std::string& text, std::uint64_t seed) {
  const auto workload = read_workload(text);
  EXPECT_TRUE(workload) << (workload ? "" : workload.error().detail);
  const auto source = source_of(workload.value(), seed);
  std::vector<Arrival> all;
  Nanos now = 0;
  while ((now = source->next_at(now)) != kNever) {
    all.push_back(source->take());
    if (workload.value().kind == "reference") source->ended(now += kSecond / 100);
  }
  return all;
}

TEST(Workload, ASteadyRateIsThatRateAndTheMixIsTheMix) {
  const std::vector<Arrival> all = all_of("make:steady,rate=100,duration=1000", 1);
  EXPECT_NEAR(static_cast<double>(all.size()), 100'000, 1'500);
  double input = 0;
  double output = 0;
  double longs = 0;
  for (const Arrival& arrival : all) {
    input += arrival.input_tokens / static_cast<double>(all.size());
    output += arrival.output_tokens / static_cast<double>(all.size());
    longs += (arrival.input_tokens > 3000) / static_cast<double>(all.size());
  }
  EXPECT_NEAR(input, kReferencePrompt, 0.02 * kReferencePrompt);
  EXPECT_NEAR(output, kReferenceOutput, 0.02 * kReferenceOutput);
  EXPECT_NEAR(longs, 0.1, 0.005);
}

TEST(Workload, ADaySwingsFromLowToThePeak) {
  std::vector<int> hours(24);
  for (const Arrival& arrival : all_of("make:day,rate=50,duration=2400,low=0.2", 1))
    ++hours[static_cast<std::size_t>(arrival.at / (100 * kSecond))];
  EXPECT_NEAR(hours[12], 5000, 400);
  EXPECT_NEAR(hours[0], 1000, 250);
}

TEST(Workload, BurstsAreFollowedByANightOfDocuments) {
  double night = 0;
  double documents = 0;
  for (const Arrival& arrival : all_of("make:bursts,rate=50,duration=1000", 1)) {
    const double at = in_seconds(arrival.at);
    if (at < 600 || at > 850) continue;
    ++night;
    documents += arrival.input_tokens > 6000;
  }
  EXPECT_NEAR(documents / night, 0.8, 0.04);
}

TEST(Workload, UsersOfAClosedOneWaitForTheirAnswers) {
  const auto workload = read_workload("make:reference,concurrent=10,duration=100,low=1");
  const auto source = source_of(workload.value(), 1);
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(source->next_at(0), 0);
    source->take();
  }
  EXPECT_EQ(source->next_at(0), kNever);
  source->ended(5 * kSecond);
  EXPECT_EQ(source->next_at(5 * kSecond), 5 * kSecond);
}

TEST(Workload, AnotherSeedOfARecordingDealsWithinItsMinutes) {
  Trace trace;
  for (std::uint32_t i = 0; i < 200; ++i) {
    Arrival arrival;
    arrival.at = i * kSecond;
    arrival.input_tokens = i;
    arrival.output_tokens = 1;
    trace.arrivals.push_back(arrival);
  }
  const auto read = [&](std::uint64_t seed) {
    const auto source = source_of(trace, 1, seed);
    std::vector<Arrival> all;
    for (Nanos at = source->next_at(0); at != kNever; at = source->next_at(at)) all.push_back(source->take());
    return all;
  };
  const auto same = read(0);
  const auto other = read(7);
  ASSERT_EQ(same.size(), other.size());
  std::size_t moved = 0;
  for (std::size_t i = 0; i < same.size(); ++i) {
    EXPECT_EQ(same[i].input_tokens, i);
    EXPECT_EQ(other[i].at, same[i].at);
    EXPECT_EQ(other[i].input_tokens / 60, i / 60);
    moved += other[i].input_tokens != i;
  }
  EXPECT_GT(moved, 100U);
}

TEST(Workload, CopiesAreMoreLoadAtTheSamePace) {
  Trace trace;
  for (std::uint32_t i = 0; i < 200; ++i) {
    Arrival arrival;
    arrival.at = i * kSecond;
    arrival.input_tokens = 1 + i / 60;
    arrival.output_tokens = 1;
    trace.arrivals.push_back(arrival);
  }
  const auto source = source_of(trace, 1, 0, 10);
  std::vector<std::size_t> minutes(4);
  Nanos last = 0;
  for (Nanos at = source->next_at(0); at != kNever; at = source->next_at(at)) {
    EXPECT_GE(at, last);
    last = at;
    ++minutes[static_cast<std::size_t>(source->take().at / (60 * kSecond))];
  }
  EXPECT_NEAR(static_cast<double>(minutes[0]), 600, 40);
  EXPECT_NEAR(static_cast<double>(minutes[1]), 600, 40);
  EXPECT_LE(last, 205 * kSecond);
}

TEST(Workload, WhatIsWrongIsTold) {
  for (const char* text : {"make:dya,rate=1", "make:day", "make:day,rate=1,load=1", "make:day,rate=x",
                           "make:day,speed=1", "make:day,rate=-1", "make:day,rate=1,duration=0",
                           "make:day,rate=1,low=2", "make:", "make:reference,concurrent=0", "make:day,rate"})
    EXPECT_FALSE(read_workload(text)) << text;
}

}  // namespace
}  // namespace gearbox::replay
