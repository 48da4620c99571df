// A replica under a steady demand: how many sequences run at once follows from how long a step takes, and the other
// way round.
#include <algorithm>
#include <cmath>

#include "gearbox/gears/price.hpp"

namespace gearbox::gears {

namespace {

constexpr int kHalvings = 40;
constexpr double kLongestStep = 20.0;  // seconds; beyond it nobody would call it serving
constexpr double kShortestStep = 1e-7;
constexpr double kPrecision = 1e-6;  // of a step's length
constexpr double kMostRows = 512;    // sequences in one step

/// What is in one step of `length` seconds when `rate` requests a second come to the replica.
struct Flow {
  const Demand& demand;
  const ModelShape& model;
  const Card& card;
  const Layout& layout;
  double slowdown;
  double room;  // positions of the replica's cache

  double mean_context() const { return demand.prompt_tokens + demand.output_tokens / 2; }
  double most_rows() const {
    return std::min(kMostRows, room / (demand.long_stay * (demand.prompt_tokens + demand.output_tokens)));
  }

  StepPrice price(double rows, double prompt) const {
    Step step;
    step.decode_rows = rows;
    step.decode_context = rows * mean_context();
    step.prefill_tokens = prompt;
    step.prefill_pairs = prompt * demand.prompt_tokens / 2;
    return price_of(step, model, card, layout, slowdown);
  }

  /// The shortest step in which all that arrives during it is done; above kLongestStep when there is none.
  ///
  /// What a step costs beyond its length is nearly straight in the length: false position finds the zero in a few tries
  /// (the Illinois form, so that both ends move); it is most of what a decision about many groups costs.
  double step_at(double rate) const {
    double high = kLongestStep;
    double over = excess(rate, high);
    if (over > 0) return 2 * kLongestStep;
    double low = kShortestStep;
    double under = excess(rate, low);
    if (under <= 0) return low;
    int side = 0;
    for (int i = 0; i < kHalvings && high - low > kPrecision * high; ++i) {
      const double middle = low + (high - low) * under / (under - over);
      const double found = excess(rate, middle);
      if (found > 0) {
        low = middle;
        under = found;
        if (side > 0) over /= 2;
        side = 1;
      } else {
        high = middle;
        over = found;
        if (side < 0) under /= 2;
        side = -1;
      }
    }
    return high;
  }

  /// How much longer it takes to do what arrives in `length` seconds than that.
  double excess(double rate, double length) const {
    const double rows = rate * demand.output_tokens * length;
    const double prompt = rate * demand.prompt_tokens * length;
    return price(rows, prompt).total() - length;
  }

  bool carries(double rate) const {
    const double length = step_at(rate);
    return length <= kLongestStep && rate * demand.output_tokens * length <= most_rows() &&
           rate * demand.prompt_tokens * length <= std::max<double>(card.prefill_chunk, demand.prompt_tokens / 8);
  }

  double most() const {
    double low = 0;
    double high = 1;
    while (high < 1e6 && carries(high)) high *= 2;
    for (int i = 0; i < kHalvings / 2; ++i) {
      const double middle = (low + high) / 2;
      (carries(middle) ? low : high) = middle;
    }
    return low;
  }
};

/// Mean wait in a queue before `places` servers, in service times (Sakasegawa's approximation; half of it, since the
/// lengths of a batch's requests even out).
double wait_in_services(double busy, double places) {
  if (busy <= 0) return 0;
  return 0.5 * std::pow(busy, std::sqrt(2 * (places + 1)) - 1) / (places * (1 - busy));
}

}  // namespace

double capacity_of(const Demand& mix, const ModelShape& model, const Card& card, const Layout& layout,
                   double link_slowdown) {
  const Flow flow{mix, model, card, layout, link_slowdown, cache_tokens_of(model, card, layout)};
  if (mix.output_tokens <= 0 || flow.most_rows() < 1) return 0;
  return flow.most() * layout.replicas;
}

SteadyState steady_state(const Demand& demand, const ModelShape& model, const Card& card, const Layout& layout,
                         double link_slowdown, double capacity) {
  SteadyState state;
  const Flow flow{demand, model, card, layout, link_slowdown, cache_tokens_of(model, card, layout)};
  if (capacity < 0) capacity = capacity_of(demand, model, card, layout, link_slowdown);
  if (capacity <= 0) return state;
  const double most = capacity / layout.replicas;
  state.capacity_per_s = capacity;
  const double rate = demand.requests_per_s / layout.replicas;
  if (rate >= most) return state;
  state.stable = true;
  const double length = flow.step_at(rate);
  const double rows = rate * demand.output_tokens * length;
  // A request meets the others' rows and adds its own.
  state.step = flow.price(rows + 1, rate * demand.prompt_tokens * length);
  const double chunks = std::max(1.0, demand.prompt_tokens / card.prefill_chunk);
  const double chunk = demand.prompt_tokens / chunks;
  const double prefill = chunks * flow.price(rows, chunk).total();
  const double service = prefill + demand.output_tokens * state.step.total();
  const double load = rate / most;
  state.latency_s = service * (1 + wait_in_services(load, std::max(1.0, most * service)));
  state.busy = 1 - std::exp(-rate * service);
  return state;
}

}  // namespace gearbox::gears
