#include "observer/group_watch.hpp"

#include <algorithm>
#include <utility>

#include "gearbox/gears/six_gears.hpp"

namespace gearbox::observer {

using gear_facts::EngineStatus;
using gear_facts::GroupFacts;
using gear_facts::RankFacts;

namespace {

constexpr std::uint64_t kBlock = 16;  // positions in one unit of the engine's cache

std::uint64_t cached_tokens(const EngineStatus& status) {
  std::uint64_t units = 0;
  for (const gear_facts::EngineRank& rank : status.ranks) units += rank.used_units;
  const std::uint64_t of_block = std::uint64_t{status.shape.layers} * status.shape.kv_heads;
  return of_block == 0 ? units : units * kBlock / of_block;
}

std::string plan_in_words(std::uint8_t gear, std::uint32_t ranks) {
  const auto layout = gears::layout_of(gear, ranks);
  if (!layout) return gear == 0 ? "a plan of its own" : gears::gear_name(gear);
  // The others are named by what they are made of.
  const bool has_name = gear == 1 || gear == 6;
  return (has_name ? std::string(gears::gear_name(gear)) + ": " : std::string()) + gears::words_of(*layout);
}

}  // namespace

std::string model_of_name(const std::string& group) {
  const std::size_t cut = group.find_last_of("-.");
  return cut == std::string::npos || cut == 0 ? group : group.substr(0, cut);
}

void GroupWatch::look_at(RankFacts& rank, const LookAtProcess& look, Instant now) {
  const std::optional<ProcessFigures> figures = look(rank.pid);
  if (!figures) return;
  rank.memory_bytes = figures->resident_bytes;
  const auto before = seen_.find(rank.pid);
  if (before != seen_.end() && before->second.figures.started == figures->started && now > before->second.at) {
    const double used = std::chrono::duration<double>(figures->cpu - before->second.figures.cpu).count();
    const double span = std::chrono::duration<double>(now - before->second.at).count();
    rank.busy = std::clamp(used / span, 0.0, 1.0);
  }
  seen_.insert_or_assign(rank.pid, Seen{*figures, now});
}

void GroupWatch::heard(const EngineStatus& status, const LookAtProcess& look, Instant now) {
  if (!status.ok) return not_heard("its engine says: " + status.why);
  problem_.clear();
  heard_at_ = now;
  driver_ = status.pid;
  GroupFacts facts;
  facts.name = name_;
  facts.model = status.model.empty() ? model_of_name(name_) : status.model;
  facts.phase = status.phase;
  facts.shift = status.shift;
  facts.gear = status.gear;
  facts.ranks = static_cast<std::uint32_t>(status.ranks.size());
  facts.plan = plan_in_words(status.gear, facts.ranks);
  facts.collective = status.collective;
  facts.epoch = status.epoch;
  facts.term = status.term;
  facts.running = status.running;
  facts.waiting = status.waiting;
  facts.tokens = status.tokens;
  facts.steps = status.steps;
  facts.evicted = status.evicted;
  facts.shifts = status.shifts;
  facts.cached_tokens = cached_tokens(status);
  facts.shape = status.shape;

  double busy = 0;
  std::uint32_t told = 0;
  for (const gear_facts::EngineRank& each : status.ranks) {
    RankFacts rank;
    rank.rank = each.rank;
    rank.pid = each.pid;
    rank.used_units = each.used_units;
    rank.units = each.units;
    look_at(rank, look, now);
    if (rank.busy >= 0) {
      busy += rank.busy;
      ++told;
    }
    if (rank.memory_bytes >= 0) facts.memory_bytes = std::max<std::int64_t>(facts.memory_bytes, 0) + rank.memory_bytes;
    if (rank.units > 0) {
      facts.memory_pressure =
          std::max(facts.memory_pressure, static_cast<double>(rank.used_units) / static_cast<double>(rank.units));
    }
    facts.processes.push_back(rank);
  }
  std::erase_if(seen_, [&](const auto& entry) { return entry.second.at != now; });  // ranks that are gone
  if (told > 0) busy_.add(busy / told);
  facts.samples = static_cast<std::uint32_t>(busy_.count());
  facts.busy_mean = busy_.mean();
  facts.busy_peak = busy_.peak();
  facts.burstiness = busy_.burstiness();

  facts.has_load = status.has_load;
  if (status.has_load) {
    arrivals_.add(status.load, now);
    facts.fast = arrivals_.fast();
    facts.slow = arrivals_.slow();
    facts.recent = arrivals_.recent();
    facts.oldest_wait_ms = status.load.oldest_wait_ms;
    facts.first_token_ms = status.load.first_token_ms;
    facts.per_token_ms = status.load.per_token_ms;
  }
  facts_ = std::move(facts);
}

void GroupWatch::not_heard(std::string problem) {
  problem_ = std::move(problem);
}

GroupFacts GroupWatch::facts(Instant now, milliseconds stale_after) const {
  GroupFacts facts = facts_;
  facts.name = name_;
  if (facts.model.empty()) facts.model = model_of_name(name_);
  facts.problem = problem_;
  facts.age_ms = heard_at_ ? elapsed(*heard_at_, now).count() / 1000 : -1;
  facts.stale = !problem_.empty() || !heard_at_;
  if (!facts.stale && now - *heard_at_ > stale_after) {
    facts.stale = true;
    facts.problem = "its figures are old";
  }
  return facts;
}

}  // namespace gearbox::observer
