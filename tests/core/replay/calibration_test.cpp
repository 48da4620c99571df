// The simulator, whole, against published figures of a 7B model on one A100 (docs/gears.md).
#include <cmath>

#include "replay/replica.hpp"
#include "scene.hpp"

namespace gearbox::replay {
namespace {

constexpr double kTolerance = 0.15;

Cluster one_a100() {
  return cluster_of("[[nodes]]\nname = 'n'\ncard = 'a100-80g'\ncards = 1\n");
}

/// ms from token to token of `rows` sequences that decode together, over 64 tokens around a context.
double decode_ms(std::uint32_t rows, std::uint32_t context) {
  constexpr std::uint32_t kTokens = 64;
  const Model model = seven_billion();
  ReplicaSetting setting;
  setting.model = &model.shape;
  setting.card = gears::card_named("a100-80g");
  Replica replica(setting);
  Requests requests;
  for (std::uint32_t i = 0; i < rows; ++i) {
    Arrival arrival;
    arrival.input_tokens = context - kTokens / 2;
    arrival.output_tokens = kTokens + 1;
    const RequestIndex index = requests.add(arrival, i);
    requests[index].prefilled = requests[index].to_prefill;
    requests[index].generated = 1;
    EXPECT_TRUE(replica.fits(requests[index]));
    replica.join(index, requests[index]);
  }
  return 1e3 * in_seconds(replica.begin(0, requests)) / kTokens;
}

TEST(Calibration, DecodeAndFirstTokenAreAsPublished) {
  struct Point {
    std::uint32_t rows, context;
    double published_ms;
  };
  double error = 0;
  for (const Point& point : {Point{1, 192, 10.0}, {16, 192, 11.0}, {32, 2112, 31.0}, {64, 192, 14.0}}) {
    const double told = decode_ms(point.rows, point.context);
    EXPECT_NEAR(told, point.published_ms, kTolerance * point.published_ms) << point.rows << " rows";
    error += std::abs(told / point.published_ms - 1) / 5;
  }
  Trace trace;
  Arrival arrival;
  arrival.input_tokens = 2048;
  arrival.output_tokens = 1;
  trace.arrivals = {arrival};
  const Cluster cluster = one_a100();
  const Model model = seven_billion();
  const double first_ms = 1e3 * run(Scenario(), cluster, model, *source_of(trace, 1, 0)).first_token.mean();
  EXPECT_NEAR(first_ms, 139, kTolerance * 139);
  error += std::abs(first_ms / 139 - 1) / 5;
  EXPECT_LE(error, 0.10);
}

}  // namespace
}  // namespace gearbox::replay
