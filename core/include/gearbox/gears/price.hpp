// price.hpp: what one step of one replica costs in a layout, and what its cards can hold.
//
// The model of docs/gears.md: time of reading weights and of computing joined as the root of the sum of squares (which
// fits measured matrix products better than their maximum), then attention, communication, and what the host adds. All
// in seconds and bytes; pure functions of their arguments, for any thread.
#pragma once

#include <cstdint>

#include "gearbox/gears/layout.hpp"

namespace gearbox::gears {

/// What is in one step of one replica; numbers, since a mean step is a step, too.
struct Step {
  double decode_rows = 0;     // sequences that get one token each
  double decode_context = 0;  // positions of their caches, summed
  double prefill_tokens = 0;  // of prompts
  double prefill_pairs = 0;   // of those tokens with the positions that each looks at
};

/// Where a step's time goes, in seconds.
struct StepPrice {
  double weights = 0;        // reading them
  double compute = 0;        // matrix products
  double pointwise = 0;      // norms, activations, residuals
  double attention = 0;      // reading the cache, and the products of prompts
  double communication = 0;  // all-reduces and what goes from card to card
  double fixed = 0;          // kernels' starts and the host
  double bubble = 1;         // factor for stages that wait

  double total() const;
};

/// `link_slowdown`: how many times slower than told the links between the cards are, 1 or more.
StepPrice price_of(const Step& step, const ModelShape& model, const Card& card, const Layout& layout,
                   double link_slowdown = 1);

/// Positions that the caches of one replica hold on its cards together; 0 when the weights alone do not fit.
/// `share`: of a card's memory that may be used.
double cache_tokens_of(const ModelShape& model, const Card& card, const Layout& layout, double share = 0.92);

/// What many requests of a mean kind ask for.
struct Demand {
  double requests_per_s = 0;
  double prompt_tokens = 0;  // mean
  double output_tokens = 0;  // mean
  /// How many times larger than the mean request those are that hold a cache at any one moment: above 1 where lengths
  /// differ, since long ones stay longer.
  double long_stay = 1;
};

/// One group of cards in a layout under a steady demand.
struct SteadyState {
  bool stable = false;        // it keeps up
  double latency_s = 0;       // mean, from arrival to the last token; without meaning unless stable
  double busy = 0;            // share of the time, 0 to 1
  double capacity_per_s = 0;  // requests of this kind that it could carry
  StepPrice step;             // one step at that load
};

/// Requests of this mix a second that one group could carry; 0 when a replica cannot hold one of them.
double capacity_of(const Demand& mix, const ModelShape& model, const Card& card, const Layout& layout,
                   double link_slowdown = 1);

/// Errors: none; a layout whose replica cannot hold one such request is not stable and has no capacity. `capacity`: of
/// capacity_of() for the same mix, where it is known already: finding it is most of the work.
SteadyState steady_state(const Demand& demand, const ModelShape& model, const Card& card, const Layout& layout,
                         double link_slowdown = 1, double capacity = -1);

}  // namespace gearbox::gears
