#include "scheduler/view.hpp"

#include <algorithm>
#include <set>
#include <string_view>

#include "config/pools.hpp"
#include "gear_facts/places.hpp"
#include "gearbox/gears/six_gears.hpp"

namespace gearbox::scheduler {

using gear_facts::GroupFacts;

namespace {

constexpr milliseconds kMisfitLasts{30'000};
constexpr milliseconds kNeverShifted{24 * 3'600'000};
constexpr double kUnknownPause = 0.25;  // seconds: what the first published figure for such a shift is
constexpr std::size_t kMostNumbers = 4 * gear_facts::kMostGroups;

Origin origin_of(const std::string& word) {
  if (word == "person") return Origin::person;
  if (word == "node") return Origin::node;
  return Origin::scheduler;
}

bool allows(const std::vector<std::int64_t>& gears, std::uint8_t gear) {
  return gears.empty() || std::find(gears.begin(), gears.end(), gear) != gears.end();
}

bool allows(const config::PoolConfig* pool, std::uint8_t gear) {
  return pool == nullptr || pool->gears.empty() ||
         std::find(pool->gears.begin(), pool->gears.end(), gear) != pool->gears.end();
}

double in_seconds(double ms) {
  return ms < 0 ? -1 : ms / 1000;
}

/// Rates add up, lengths are means weighted by the rates.
void add_to(plugin::LoadView& sum, const plugin::LoadView& more) {
  const double both = sum.requests_per_s + more.requests_per_s;
  const auto mean = [&](double one, double other) {
    if (both <= 0) return std::max(one, other);
    return (one * sum.requests_per_s + other * more.requests_per_s) / both;
  };
  sum.prompt_tokens = mean(sum.prompt_tokens, more.prompt_tokens);
  sum.output_tokens = mean(sum.output_tokens, more.output_tokens);
  sum.requests_per_s = both;
}

/// Windows are aligned at their ends: the last one of each is that of just now.
void add_to(std::vector<plugin::LoadView>& sum, const std::vector<plugin::LoadView>& more) {
  if (more.size() > sum.size()) sum.insert(sum.begin(), more.size() - sum.size(), plugin::LoadView{});
  for (std::size_t i = 0; i < more.size(); ++i) add_to(sum[sum.size() - more.size() + i], more[i]);
}

/// Figures of the group that may be older than its last shift show a gear that it has left. `lag`: the record was asked
/// for so much later than the figures, at most.
bool is_before_shift(const GroupFacts& facts, const gear_facts::GroupRecord& record, milliseconds lag) {
  return record.since_shift_ms >= 0 && record.since_shift_ms <= facts.age_ms + lag.count();
}

/// Why nothing may be decided on the group; empty: it may.
std::string objection_to(const GroupFacts& facts) {
  if (facts.stale) return "its figures are stale: " + facts.problem;
  if (facts.phase != "running")
    return "it is " + (facts.phase.empty() ? std::string("in no known phase") : facts.phase);
  if (facts.gear == 0) return "it is in a plan of its own";
  if (!gears::layout_of(facts.gear, facts.ranks)) {
    return "gear " + std::to_string(facts.gear) + " is not made of " + std::to_string(facts.ranks) + " ranks";
  }
  return {};
}

}  // namespace

void Misfits::add(const std::string& group, std::uint8_t gear, std::uint64_t epoch, Instant now) {
  said_[{group, gear}] = Said{epoch, now};
}

bool Misfits::holds(const std::string& group, std::uint8_t gear, std::uint64_t epoch, Instant now) const {
  const auto found = said_.find({group, gear});
  return found != said_.end() && found->second.epoch == epoch && now - found->second.at < kMisfitLasts;
}

void Misfits::forget_old(Instant now) {
  std::erase_if(said_, [&](const auto& entry) { return now - entry.second.at >= kMisfitLasts; });
}

plugin::GroupId GroupNumbers::of(const std::string& name) {
  if (numbers_.size() > kMostNumbers) numbers_.clear();  // names that come and go: a policy then begins anew
  return numbers_.try_emplace(name, static_cast<plugin::GroupId>(numbers_.size())).first->second;
}

View::View(const ViewInputs& inputs, GroupNumbers& numbers, Instant now) {
  std::map<std::pair<std::size_t, std::string_view>, const gear_facts::GroupRecord*> records;
  for (std::size_t host = 0; host < inputs.hosts.size(); ++host) {
    const HostInputs& from = inputs.hosts[host];
    for (const gear_facts::GroupRecord& record : *from.records) {
      records.emplace(std::pair(host, std::string_view(record.name)), &record);
    }
    for (const GroupFacts& facts : from.snapshot->groups) {
      std::string name = from.name.empty() ? facts.name : from.name + "/" + facts.name;
      std::string objection = objection_to(facts);
      const auto record = records.find(std::pair(host, std::string_view(facts.name)));
      if (objection.empty() && record != records.end() && is_before_shift(facts, *record->second, from.lag))
        objection = "its figures are from before its last shift";
      if (objection.empty()) {
        const plugin::GroupId id = numbers.of(name);
        known_.push_back({id, host, &facts, std::move(name)});
      } else {
        left_.push_back({std::move(name), std::move(objection)});
      }
    }
  }
  std::sort(known_.begin(), known_.end(), [](const Known& one, const Known& other) { return one.id < other.id; });
  groups_.reserve(known_.size());
  for (const Known& known : known_) {
    const auto record = records.find(std::pair(known.host, std::string_view(known.facts->name)));
    add(known, record == records.end() ? nullptr : record->second, inputs, now);
  }
  add_loads(inputs);
}

/// One pool for each table of the configuration and each model in it; else one for each model. A node that is not
/// trusted has pools of its own.
View::Place View::place_of(const Known& known, const ViewInputs& inputs) {
  const GroupFacts& facts = *known.facts;
  Place place;
  const config::PoolConfig* by_name = nullptr;
  const config::PoolConfig* by_model = nullptr;
  const config::PoolConfig* rest = nullptr;
  const auto names = [](const std::vector<std::string>& list, const std::string& name) {
    return std::find(list.begin(), list.end(), name) != list.end();
  };
  for (const config::PoolConfig& pool : inputs.gears->pools) {
    const bool names_none = pool.models.empty() && pool.groups.empty() && !config::classes_requests(pool);
    if (names_none && rest == nullptr) rest = &pool;
    if (names(pool.models, facts.model)) by_model = &pool;
    // A group is named with its host, or alone: on whichever host it is.
    if (by_name == nullptr && names(pool.groups, facts.name)) by_name = &pool;
    if (names(pool.groups, known.name)) place.config = &pool;
  }
  // What its worker says comes first: it also says whose requests go there.
  if (const config::PoolConfig* const named = config::find_pool(*inputs.gears, facts.pool)) place.config = named;
  if (place.config == nullptr) place.config = by_name != nullptr ? by_name : by_model != nullptr ? by_model : rest;
  std::string name = facts.model;
  if (place.config != nullptr) {
    const bool is_its_one = place.config->models.size() == 1 && place.config->models.front() == facts.model;
    name = is_its_one ? place.config->name : place.config->name + "/" + facts.model;
  }
  if (inputs.hosts[known.host].distrusted) name += " (not trusted)";
  const auto [at, is_new] = pool_numbers_.try_emplace(name, pools_.size());
  place.pool = at->second;
  if (!is_new) return place;
  pool_names_.push_back(name);
  pool_models_.push_back(facts.model);
  plugin::PoolView pool;
  pool.id = static_cast<plugin::PoolId>(place.pool);
  pool.name = pool_names_.back();
  pools_.push_back(pool);
  recent_.emplace_back();
  return place;
}

void View::add(const Known& known, const gear_facts::GroupRecord* record, const ViewInputs& inputs, Instant now) {
  static const gear_facts::GroupRecord kNone;
  const gear_facts::GroupRecord& kept = record == nullptr ? kNone : *record;
  const GroupFacts& facts = *known.facts;
  const HostInputs& host = inputs.hosts[known.host];
  const Place place = place_of(known, inputs);
  plugin::PoolView& pool = pools_[place.pool];
  if (pool.model.layers == 0) pool.model = facts.shape;

  std::vector<plugin::GearView>& gears = gears_.emplace_back();
  for (std::uint8_t number = 1; number <= gears::kGears; ++number) {
    const auto layout = gears::layout_of(number, facts.ranks, facts.shape);
    const bool own = number == facts.gear;
    // Of one card every gear is the same.
    if (!own && (!layout || facts.ranks == 1)) continue;
    plugin::GearView gear;
    gear.number = number;
    gear.layout = own ? *gears::layout_of(number, facts.ranks) : *layout;
    gear.allowed = allows(place.config, number) && allows(kept.allowed, number) &&
                   (!host.distrusted || gear.layout.cards_of_replica() == 1);
    gear.fits = !inputs.misfits->holds(known.name, number, facts.epoch, now);
    gears.push_back(gear);
  }

  plugin::GroupView group;
  group.id = known.id;
  group.pool = pool.id;
  if (const gears::Card* card = gears::card_named(inputs.gears->card.c_str()); card != nullptr) group.card = *card;
  group.gear = facts.gear;
  group.gears = gears;
  group.since_shift = kept.since_shift_ms < 0 ? kNeverShifted : milliseconds(kept.since_shift_ms);
  group.busy_mean = facts.busy_mean;
  group.busy_peak = facts.busy_peak;
  group.burstiness = facts.burstiness;
  group.memory_pressure = facts.memory_pressure;
  group.link_health = facts.link_health;
  group.link_slowdown = facts.link_slowdown;
  group.trust = host.trust;
  group.waiting = facts.waiting;
  group.running = facts.running;
  group.cached_tokens = facts.cached_tokens;
  group.first_token_s = in_seconds(facts.first_token_ms);
  group.per_token_s = in_seconds(facts.per_token_ms);
  group.pause_s = kept.pause_ms < 0 ? kUnknownPause : kept.pause_ms / 1000;
  groups_.push_back(group);

  GroupRecord told;
  told.group = known.id;
  told.came_from = kept.came_from;
  told.last_origin = origin_of(kept.origin);
  told.shifts_of_hour = kept.shifts_of_hour;
  told.shifting = kept.shifting || !facts.shift.empty();
  told.held = kept.held;
  records_.push_back(told);
}

void View::add_loads(const ViewInputs& inputs) {
  std::set<std::pair<std::size_t, std::size_t>> queues;  // host and pool: what waits at its node waits for that pool
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    const GroupFacts& facts = *known_[i].facts;
    const auto at = static_cast<std::size_t>(groups_[i].pool);
    plugin::PoolView& pool = pools_[at];
    queues.emplace(known_[i].host, at);
    if (!facts.has_load) continue;
    add_to(pool.fast, facts.fast);
    add_to(pool.slow, facts.slow);
    add_to(recent_[at], facts.recent);
    pool.oldest_wait = std::max(pool.oldest_wait, milliseconds(std::max<std::int64_t>(0, facts.oldest_wait_ms)));
  }
  for (std::size_t i = 0; i < pools_.size(); ++i) pools_[i].recent = recent_[i];
  for (const auto& [host, pool] : queues) {
    for (const gear_facts::ModelQueue& queue : inputs.hosts[host].snapshot->queues) {
      if (queue.model == pool_models_[pool]) pools_[pool].waiting += queue.queued;
    }
  }
}

std::size_t View::index_of(plugin::GroupId id) const {
  const auto found =
      std::lower_bound(groups_.begin(), groups_.end(), id,
                       [](const plugin::GroupView& view, plugin::GroupId wanted) { return view.id < wanted; });
  return static_cast<std::size_t>(found - groups_.begin());
}

const GroupFacts& View::facts(plugin::GroupId id) const {
  return *known_.at(index_of(id)).facts;
}

std::size_t View::host(plugin::GroupId id) const {
  return known_.at(index_of(id)).host;
}

const std::string& View::name(plugin::GroupId id) const {
  return known_.at(index_of(id)).name;
}

const plugin::PoolView& View::pool(plugin::GroupId id) const {
  return pools_.at(static_cast<std::size_t>(groups_.at(index_of(id)).pool));
}

}  // namespace gearbox::scheduler
