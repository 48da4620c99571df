#include "gearbox/gears/price.hpp"

#include <algorithm>
#include <cmath>

namespace gearbox::gears {

namespace {

constexpr double kPasses = 14;                // over an activation row, of a layer, by what is no matrix product
constexpr double kOfEachSequence = 4.5e-6;    // seconds of the host
constexpr double kOfSeveralWorkers = 0.6e-3;  // seconds of the host, when a step goes to more than one card
constexpr double kOfALargeMessage = 40e-6;    // seconds more than its bytes tell
constexpr double kLargeMessage = 1 << 20;     // bytes
constexpr double kOfAHop = 15e-6;             // seconds before the first byte from card to card
constexpr double kSteadyBubble = 1.08;        // micro-batches of unequal length
constexpr double kReserved = 1.75e9;          // bytes of a card that neither weights nor cache get

double reduce_start(const Card& card, std::uint32_t cards) {
  if (cards <= 2) return card.reduce_start_s[0];
  return cards <= 4 ? card.reduce_start_s[1] : card.reduce_start_s[2];
}

double reduce(double bytes, std::uint32_t cards, const Card& card) {
  if (cards < 2) return 0;
  const double share = 2.0 * (cards - 1) / cards;
  return reduce_start(card, cards) + share * bytes / card.bus_bandwidth +
         (bytes > kLargeMessage ? kOfALargeMessage : 0.0);
}

double hop(double bytes, const Card& card) {
  return kOfAHop + bytes / card.peer_bandwidth + (bytes > kLargeMessage ? kOfALargeMessage : 0.0);
}

}  // namespace

double StepPrice::total() const {
  return (std::hypot(weights, compute) + pointwise + attention + communication + fixed) * bubble;
}

StepPrice price_of(const Step& step, const ModelShape& model, const Card& card, const Layout& layout,
                   double link_slowdown) {
  StepPrice price;
  const double rows = step.decode_rows + step.prefill_tokens;
  if (rows == 0) return price;
  const double cards = layout.cards_of_replica();
  const double bandwidth = card.memory_bandwidth * card.bandwidth_share;
  const double number = model.bytes_per_number;

  // With stages, each card reads its part once for each of the parts that the rows are split into: what one token
  // waits for does not shrink with the number of stages.
  price.weights = static_cast<double>(model.weight_bytes()) / layout.tensor / bandwidth;
  price.compute = 2.0 * static_cast<double>(model.parameters) * rows / (cards * card.flops * card.compute_share);
  price.pointwise = kPasses * rows * model.width * number * model.layers / (layout.sequence * bandwidth);
  price.attention = step.decode_context * static_cast<double>(model.cache_bytes_per_token()) / (cards * bandwidth) +
                    4.0 * model.width * model.layers * step.prefill_pairs / (cards * card.flops * card.attention_share);

  const double row_bytes = rows * model.width * number;
  double link = 2.0 * model.layers * reduce(row_bytes / layout.sequence, layout.tensor, card);
  if (layout.sequence > 1) link += model.layers * (layout.sequence - 1) * hop(row_bytes / layout.sequence, card);
  if (layout.pipeline > 1) link += (layout.pipeline - 1) * hop(row_bytes / layout.pipeline, card);
  price.communication = link * std::max(1.0, link_slowdown);

  price.fixed =
      card.host_step_s + kOfEachSequence * step.decode_rows + (layout.cards_of_replica() > 1 ? kOfSeveralWorkers : 0.0);
  if (layout.pipeline > 1) {
    // A prompt alone fills the stages first; among sequences that go on they stay full.
    price.bubble = step.decode_rows > 0 ? kSteadyBubble : (2.0 * layout.pipeline - 1) / layout.pipeline;
  }
  return price;
}

double cache_tokens_of(const ModelShape& model, const Card& card, const Layout& layout, double share) {
  const double weights = static_cast<double>(model.weight_bytes()) / (layout.tensor * layout.pipeline);
  const double left = card.memory_bytes * share - kReserved - weights;
  if (left <= 0) return 0;
  return left * layout.cards_of_replica() / static_cast<double>(model.cache_bytes_per_token());
}

}  // namespace gearbox::gears
