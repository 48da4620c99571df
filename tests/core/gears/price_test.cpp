#include "gearbox/gears/price.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "seven_billion.hpp"

namespace gearbox::gears {
namespace {

constexpr double kTolerance = 0.15;  // of the A100 points of docs/gears.md

const Card& a100() {
  return *card_named("a100-80g");
}

Step decode(double rows, double context) {
  Step step;
  step.decode_rows = rows;
  step.decode_context = rows * context;
  return step;
}

/// A prompt taken in in chunks, alone.
double first_token_s(double tokens, const Card& card, const Layout& layout) {
  double total = 0;
  for (double done = 0; done < tokens; done += card.prefill_chunk) {
    Step step;
    step.prefill_tokens = std::min<double>(card.prefill_chunk, tokens - done);
    step.prefill_pairs = step.prefill_tokens * (done + step.prefill_tokens / 2);
    total += price_of(step, seven_billion(), card, layout).total();
  }
  return total;
}

struct Point {
  double rows, context, published_ms;
};

TEST(Price, DecodeOnOneA100IsAsPublished) {
  double error = 0;
  const Point points[] = {{1, 192, 10.0}, {16, 192, 11.0}, {32, 2112, 31.0}, {64, 192, 14.0}};
  for (const Point& point : points) {
    const double told = 1e3 * price_of(decode(point.rows, point.context), seven_billion(), a100(), Layout()).total();
    EXPECT_NEAR(told, point.published_ms, kTolerance * point.published_ms) << point.rows << " rows";
    error += std::abs(told / point.published_ms - 1) / std::size(points);
  }
  EXPECT_LE(error, 0.10);
}

TEST(Price, ALongPromptsFirstTokenIsAsPublished) {
  EXPECT_NEAR(1e3 * first_token_s(2048, a100(), Layout()), 139, kTolerance * 139);
}

TEST(Price, MoreWorkNeverCostsLess) {
  for (const Layout layout : {Layout{8, 1, 1, 1}, Layout{4, 2, 1, 1}, Layout{2, 4, 1, 1}, Layout{1, 4, 2, 1},
                              Layout{2, 1, 1, 4}, Layout{1, 2, 2, 2}}) {
    double last = 0;
    for (double rows = 1; rows <= 512; rows *= 2) {
      const double now = price_of(decode(rows, 500), seven_billion(), a100(), layout).total();
      EXPECT_GT(now, last);
      last = now;
    }
    EXPECT_GT(price_of(decode(8, 900), seven_billion(), a100(), layout).total(),
              price_of(decode(8, 300), seven_billion(), a100(), layout).total());
  }
}

TEST(Price, BetterHardwareNeverCostsMore) {
  const Layout layout{2, 4, 1, 1};
  const double before = price_of(decode(32, 800), seven_billion(), a100(), layout).total();
  for (double Card::*figure : {&Card::flops, &Card::memory_bandwidth, &Card::bus_bandwidth}) {
    Card better = a100();
    better.*figure *= 2;
    EXPECT_LT(price_of(decode(32, 800), seven_billion(), better, layout).total(), before);
  }
}

TEST(Price, TensorParallelHalvesWhatOneTokenWaitsForOnAFastBusOnly) {
  const auto token = [](const char* name, const Layout& layout) {
    return price_of(decode(1, 300), seven_billion(), *card_named(name), layout).total();
  };
  EXPECT_LT(token("a100-80g", {2, 4, 1, 1}), 0.65 * token("a100-80g", {8, 1, 1, 1}));
  // A prompt's rows are large messages: a narrow bus is where they wait.
  const double narrow = first_token_s(2048, *card_named("rtx3090"), {2, 4, 1, 1});
  EXPECT_GT(narrow, 0.5 * first_token_s(2048, *card_named("rtx3090"), {8, 1, 1, 1}));
}

TEST(Price, ASlowLinkIsFeltOnlyWhereThereAreLinks) {
  const auto slowed = [](const Layout& layout, double times) {
    return price_of(decode(16, 300), seven_billion(), a100(), layout, times).total();
  };
  EXPECT_EQ(slowed({8, 1, 1, 1}, 20), slowed({8, 1, 1, 1}, 1));
  EXPECT_GT(slowed({2, 4, 1, 1}, 20), 2 * slowed({2, 4, 1, 1}, 1));
  EXPECT_EQ(slowed({2, 4, 1, 1}, 0.1), slowed({2, 4, 1, 1}, 1)) << "a link is never better than told";
}

TEST(Price, CacheIsWhatWeightsLeave) {
  const ModelShape model = seven_billion();
  const Card& small = *card_named("rtx3090");
  const double one = cache_tokens_of(model, small, Layout());
  EXPECT_GT(one, 0);
  EXPECT_GT(cache_tokens_of(model, small, {1, 2, 1, 1}), 2 * one) << "two cards hold the weights once";
  ModelShape large = model;
  large.parameters *= 3;
  EXPECT_EQ(cache_tokens_of(large, small, Layout()), 0);
  EXPECT_GT(cache_tokens_of(large, small, {1, 4, 1, 1}), 0);
}

TEST(Price, NothingCostsNothing) {
  EXPECT_EQ(price_of(Step(), seven_billion(), a100(), {2, 4, 1, 1}).total(), 0);
}

}  // namespace
}  // namespace gearbox::gears
