#include "replay/calibration.hpp"

#include <cmath>
#include <cstdint>

#include "replay/replica.hpp"

namespace gearbox::replay {

namespace {

gears::ModelShape seven_billion() {
  gears::ModelShape shape;
  shape.layers = 32;
  shape.width = 4096;
  shape.heads = shape.kv_heads = 32;
  shape.head_width = 128;
  shape.parameters = 6'740'000'000;
  return shape;
}

class OneA100 {
 public:
  OneA100() {
    setting_.model = &shape_;
    setting_.card = gears::card_named("a100-80g");
  }

  /// From token to token of `rows` sequences that decode together, over some tokens around a context.
  double decode_ms(std::uint32_t rows, std::uint32_t context) const {
    constexpr std::uint32_t kTokens = 64;
    Replica replica(setting_);
    Requests requests;
    for (std::uint32_t i = 0; i < rows; ++i) {
      Arrival arrival;
      arrival.input_tokens = context - kTokens / 2;
      arrival.output_tokens = kTokens + 1;
      const RequestIndex index = requests.add(arrival, i);
      requests[index].prefilled = requests[index].to_prefill;
      requests[index].generated = 1;
      replica.join(index, requests[index]);
    }
    return 1e3 * in_seconds(replica.begin(0, requests)) / kTokens;
  }

  /// Of a prompt that comes alone.
  double first_token_ms(std::uint32_t prompt) const {
    Replica replica(setting_);
    Requests requests;
    Arrival arrival;
    arrival.input_tokens = prompt;
    arrival.output_tokens = 1;
    const RequestIndex index = requests.add(arrival, 0);
    replica.join(index, requests[index]);
    std::vector<RequestIndex> done;
    Nanos now = 0;
    while (done.empty()) {
      now = replica.begin(now, requests);
      replica.end(now, requests, done);
    }
    return 1e3 * in_seconds(now);
  }

 private:
  gears::ModelShape shape_ = seven_billion();
  ReplicaSetting setting_;
};

}  // namespace

std::vector<CalibrationPoint> calibration() {
  const OneA100 card;
  return {{"ms a token, batch 1, contexts of 192", 10.0, card.decode_ms(1, 192)},
          {"ms a token, batch 16, contexts of 192", 11.0, card.decode_ms(16, 192)},
          {"ms a token, batch 32, contexts of 2112", 31.0, card.decode_ms(32, 2112)},
          {"ms a token, batch 64, contexts of 192", 14.0, card.decode_ms(64, 192)},
          {"first token of a prompt of 2048, ms", 139.0, card.first_token_ms(2048)}};
}

double calibration_error(const std::vector<CalibrationPoint>& points) {
  double sum = 0;
  for (const CalibrationPoint& point : points) sum += std::abs(point.error());
  return points.empty() ? 0 : sum / static_cast<double>(points.size());
}

}  // namespace gearbox::replay
