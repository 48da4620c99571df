#include "scheduler/assessment.hpp"

#include <algorithm>
#include <cstdio>

#include "gearbox/gears/price.hpp"

namespace gearbox::scheduler {

Assessment assess(const plugin::GroupView& group, std::span<const plugin::PoolView> pools) {
  Assessment made;
  const auto gear = std::find_if(group.gears.begin(), group.gears.end(),
                                 [&](const plugin::GearView& view) { return view.number == group.gear; });
  const auto index = static_cast<std::size_t>(group.pool);
  if (gear == group.gears.end() || index >= pools.size() || pools[index].model.layers == 0) return made;
  const plugin::PoolView& pool = pools[index];
  const double rows = static_cast<double>(std::max(1U, group.running)) / gear->layout.replicas;
  gears::Step step;
  step.decode_rows = rows;
  step.decode_context = static_cast<double>(group.cached_tokens) / gear->layout.replicas;
  // Prompts come in as fast as answers end.
  if (pool.fast.output_tokens > 0) step.prefill_tokens = rows * pool.fast.prompt_tokens / pool.fast.output_tokens;
  step.prefill_pairs = step.prefill_tokens * pool.fast.prompt_tokens / 2;
  const gears::StepPrice price = gears::price_of(step, pool.model, group.card, gear->layout, group.link_slowdown);
  const double sum =
      price.weights + price.compute + price.pointwise + price.attention + price.communication + price.fixed;
  if (sum <= 0) return made;
  made.compute = price.compute / sum;
  made.memory = (price.weights + price.attention + price.pointwise) / sum;
  made.communication = price.communication / sum;
  made.rest = price.fixed / sum;
  char line[320];
  std::snprintf(
      line, sizeof line,
      "%.1f rows with %.0f cached and %.1f prompt tokens a step and replica: compute %.3g ms, weights %.3g ms, "
      "attention %.3g ms, communication %.3g ms (links %.3g times slower than told), host %.3g ms",
      rows, step.decode_context, step.prefill_tokens, 1e3 * price.compute, 1e3 * price.weights, 1e3 * price.attention,
      1e3 * price.communication, group.link_slowdown, 1e3 * price.fixed);
  made.figures = line;
  return made;
}

}  // namespace gearbox::scheduler
