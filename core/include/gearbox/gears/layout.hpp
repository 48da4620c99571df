// layout.hpp: what a gear is made of, as plain values: the degrees of parallelism, the model that is split, the cards.
#pragma once

#include <cstdint>

namespace gearbox::gears {

/// Degrees of parallelism. `replicas` copies of the model, each on tensor × sequence × pipeline cards.
struct Layout {
  std::uint16_t replicas = 1;  // data parallel
  std::uint16_t tensor = 1;
  std::uint16_t sequence = 1;  // cards that share the positions of one cache
  std::uint16_t pipeline = 1;  // stages

  constexpr std::uint32_t cards_of_replica() const { return std::uint32_t{tensor} * sequence * pipeline; }
  constexpr std::uint32_t cards() const { return replicas * cards_of_replica(); }
  friend constexpr bool operator==(const Layout&, const Layout&) = default;
};

/// A Llama-style decoder, as far as its price depends on it.
struct ModelShape {
  std::uint32_t layers = 0;
  std::uint32_t width = 0;       // of one activation row, in numbers
  std::uint32_t heads = 0;       // query heads
  std::uint32_t kv_heads = 0;    // heads that are cached; query heads share them
  std::uint32_t head_width = 0;  // numbers of one head
  std::uint64_t parameters = 0;
  std::uint32_t bytes_per_number = 2;  // of weights, activations and cache

  constexpr std::uint64_t weight_bytes() const { return parameters * bytes_per_number; }
  /// Of one position: keys and values of all layers.
  constexpr std::uint64_t cache_bytes_per_token() const {
    return std::uint64_t{2} * layers * kv_heads * head_width * bytes_per_number;
  }
};

/// One kind of card, with what of its paper figures is reached (the shares), and how its host joins several of them.
struct Card {
  double flops = 0;             // dense FP16, per second
  double memory_bandwidth = 0;  // bytes per second
  double memory_bytes = 0;
  double compute_share = 1;              // of `flops`, by large matrix products
  double bandwidth_share = 1;            // of `memory_bandwidth`, by reading weights
  double attention_share = 1;            // of `flops`, by attention over a prompt
  double reduce_start_s[3] = {0, 0, 0};  // what an all-reduce among 2, 4 and 8 cards costs before its first byte
  double bus_bandwidth = 0;              // bytes per second, in an all-reduce
  double peer_bandwidth = 0;             // bytes per second, from one card to one other
  double host_step_s = 2.0e-3;           // what the host does for each step
  std::uint32_t prefill_chunk = 256;     // tokens of prompts that are taken into one step
};

/// The kinds whose figures are measured: "a100-80g", "v100-32g", "rtx3090", roughly "cpu"; null for any other name.
const Card* card_named(const char* name);

}  // namespace gearbox::gears
