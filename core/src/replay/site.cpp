#include "replay/site.hpp"

#include <algorithm>

namespace gearbox::replay {

namespace {

constexpr Nanos kStepWindow = 10 * kSecond;

bool names(const std::vector<std::string>& list, const std::string& name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

}  // namespace

Outcome<void> Site::build() {
  const Cluster& cluster = *scenario_.cluster;
  BOOST_OUTCOME_TRY(build_pools());
  std::uint32_t node = 0;
  for (std::size_t s = 0; s < cluster.sets.size(); ++s) {
    const NodeSet& set = cluster.sets[s];
    for (std::uint32_t i = 0; i < set.count; ++i, ++node) {
      node_names_.push_back(set.name + "-" + std::to_string(i));
      for (Pool& pool : pools_) {
        if (pool.spec != nullptr && !pool.spec->nodes.empty() && !names(pool.spec->nodes, set.name)) continue;
        for (std::uint32_t g = 0; g < set.groups; ++g) {
          GroupSetting setting;
          setting.name = node_names_.back() + (set.groups > 1 ? "." + std::to_string(g) : "");
          setting.node = node;
          setting.pool = static_cast<std::uint32_t>(&pool - pools_.data());
          setting.card = &set.card;
          setting.cards = set.cards / set.groups;
          setting.full_speed = set.full_speed;
          setting.token_s = cluster.token_s;
          setting.position_s = cluster.position_s;
          setting.mixed_s = cluster.mixed_s;
          setting.pads = cluster.pads;
          setting.model = pool.model;
          setting.memory_share = cluster.memory_share;
          setting.one_by_one = scenario_.one_by_one;
          setting.gear = s < scenario_.gears.size() && scenario_.gears[s] != 0 ? scenario_.gears[s] : set.gear;
          const auto index = static_cast<std::uint32_t>(groups_.size());
          Group group(setting, index);
          // A gear that the cards are too few or too small for gives way to the lowest one that they can have.
          for (std::uint8_t gear = 1; !group.layout_of(group.gear()) && gear <= gears::kGears; ++gear) {
            if (group.layout_of(gear)) group.build(gear);
          }
          if (!group.layout_of(group.gear())) {
            return Error{Errc::bad_input, "the model '" + pool.model->name + "' fits in no gear on " + setting.name};
          }
          groups_.push_back(std::move(group));
          place_in_pool_.push_back(static_cast<std::uint32_t>(pool.groups.size()));
          pool.groups.push_back(index);
          pool.candidates.push_back({plugin::CandidateId{index}, 0, 0, pool.model->max_batch, microseconds{0}});
        }
        break;  // a node serves in one pool
      }
    }
  }
  for (const Pool& pool : pools_) {
    if (pool.groups.empty()) return Error{Errc::bad_input, "no node is left for pool '" + pool.name + "'"};
  }
  for (std::uint32_t i = 0; i < groups_.size(); ++i) refresh_capacity(i);
  return done();
}

/// Pools that name their nodes go before those that take what is left.
Outcome<void> Site::build_pools() {
  const auto& specs = scenario_.cluster->pools;
  const auto index_of = [&](const std::string& model) -> std::size_t {
    if (model.empty()) return 0;
    std::size_t index = 0;
    while (index < scenario_.models.size() && scenario_.models[index]->name != model) ++index;
    return index;
  };
  pools_by_model_.resize(scenario_.models.size());
  for (const bool with_nodes : {true, false}) {
    for (const PoolSpec& spec : specs) {
      if (spec.nodes.empty() == with_nodes) continue;
      const std::size_t model = index_of(spec.model);
      if (model == scenario_.models.size())
        return Error{Errc::bad_input,
                     "pool '" + spec.name + "' serves '" + spec.model + "', which is none of the models"};
      Pool pool;
      pool.name = spec.name;
      pool.model = scenario_.models[model];
      pool.model_index = static_cast<std::uint16_t>(model);
      pool.spec = &spec;
      pools_by_model_[model].push_back(static_cast<std::uint32_t>(pools_.size()));
      pools_.push_back(std::move(pool));
    }
  }
  if (specs.empty()) {
    Pool pool;
    pool.name = scenario_.models.front()->name;
    pool.model = scenario_.models.front();
    pools_by_model_[0].push_back(0);
    pools_.push_back(std::move(pool));
  }
  for (std::size_t i = 0; i < scenario_.models.size(); ++i) {
    if (pools_by_model_[i].empty())
      return Error{Errc::bad_input, "no pool of the cluster serves the model '" + scenario_.models[i]->name + "'"};
  }
  return done();
}

/// The first pool of the model whose tenants and lengths it is of; else the first that takes any tenant; else the last.
std::uint32_t Site::pool_of(const Arrival& arrival) const {
  const auto& pools = pools_by_model_[arrival.model < pools_by_model_.size() ? arrival.model : 0];
  if (pools.size() == 1) return pools.front();
  static const std::string kNobody;
  const std::string& tenant =
      arrival.tenant < scenario_.tenant_names.size() ? scenario_.tenant_names[arrival.tenant] : kNobody;
  const auto of_length = [&](const PoolSpec& spec) {
    return spec.most_input_tokens == 0 || arrival.input_tokens <= spec.most_input_tokens;
  };
  for (const bool named : {true, false}) {
    for (const std::uint32_t index : pools) {
      const PoolSpec& spec = *pools_[index].spec;
      const bool its = named ? names(spec.tenants, tenant) : spec.tenants.empty();
      if (its && of_length(spec)) return index;
    }
  }
  return pools.back();
}

void Site::refresh(std::uint32_t index) {
  const Group& group = groups_[index];
  plugin::CandidateView& view = pools_[group.setting().pool].candidates[place_in_pool_[index]];
  view.queued = static_cast<std::uint32_t>(group.waiting.size());
  view.running = group.running();
}

void Site::refresh_capacity(std::uint32_t index) {
  refresh(index);
  Pool& pool = pools_[groups_[index].setting().pool];
  pool.least_capacity = 1e30;
  for (const std::uint32_t each : pool.groups) {
    const Group& group = groups_[each];
    const bool there = group.phase != Group::Phase::down;
    pool.least_capacity = std::min(pool.least_capacity, there ? group.capacity_of(group.gear()) : 0);
  }
}

void Site::refresh_step_times(Nanos now) {
  std::vector<double> times;
  for (std::uint32_t index = 0; index < groups_.size(); ++index) {
    Group& group = groups_[index];
    while (!group.took.empty() && group.took.front().at < now - kStepWindow) group.took.pop_front();
    plugin::CandidateView& view = pools_[group.setting().pool].candidates[place_in_pool_[index]];
    view.step_p95 = microseconds{0};
    if (group.took.empty()) continue;
    times.clear();
    for (const Group::Took& took : group.took) times.push_back(took.latency_s);
    const auto rank = static_cast<std::ptrdiff_t>(0.95 * static_cast<double>(times.size() - 1));
    std::nth_element(times.begin(), times.begin() + rank, times.end());
    view.step_p95 = microseconds(static_cast<std::int64_t>(1e6 * times[static_cast<std::size_t>(rank)]));
  }
}

/// Those of the pool; not those that are down or could never hold it; with them idle ones of other pools, where it may
/// borrow.
const std::vector<plugin::CandidateView>& Site::candidates_for(const Pool& pool, const Arrival& arrival) {
  const auto room = static_cast<double>(room_of(arrival));
  const bool borrows = pool.spec != nullptr && pool.spec->borrow && pools_by_model_[pool.model_index].size() > 1;
  if (!borrows && room <= pool.least_capacity) return pool.candidates;
  few_.clear();
  const auto add = [&](const Pool& from, bool idle_only) {
    for (const plugin::CandidateView& view : from.candidates) {
      const Group& group = groups_[static_cast<std::uint32_t>(view.id)];
      if (group.phase == Group::Phase::down || room > group.capacity_of(group.gear())) continue;
      if (idle_only && (view.running > 0 || view.queued > 0)) continue;
      few_.push_back(view);
    }
  };
  add(pool, false);
  if (borrows) {
    for (const std::uint32_t other : pools_by_model_[pool.model_index]) {
      if (&pools_[other] != &pool) add(pools_[other], true);
    }
    std::sort(few_.begin(), few_.end(),
              [](const plugin::CandidateView& a, const plugin::CandidateView& b) { return a.id < b.id; });
  }
  return few_;
}

Site::Routed Site::route(RequestIndex index, Nanos now) {
  Request& request = requests_[index];
  Pool& pool = pools_[pool_of(request.arrival)];
  const std::vector<plugin::CandidateView>& candidates = candidates_for(pool, request.arrival);
  if (candidates.empty()) {
    // Nobody can hold it now; would anybody in another gear, or one that is down?
    const auto room = static_cast<double>(room_of(request.arrival));
    for (const std::uint32_t each : pool.groups) {
      const Group& group = groups_[each];
      const bool comes_back = group.phase == Group::Phase::down && room <= group.capacity_of(group.gear());
      if (comes_back) {
        pool.waiting.push_back(index);
        return Routed::waits;
      }
    }
    return Routed::refused;
  }
  plugin::RequestView view{};
  view.task = pool.name;
  view.model = pool.model->name;
  view.payload_bytes = request.arrival.bytes;
  view.tenant = request.arrival.tenant;
  view.attempt = static_cast<std::uint8_t>(std::min<std::uint16_t>(request.attempt, 255));
  const Outcome<plugin::CandidateId> picked = scenario_.balancer->pick(view, candidates, as_instant(now));
  const auto group = picked ? static_cast<std::uint32_t>(picked.value()) : kNoGroup;
  if (group >= groups_.size()) {
    pool.waiting.push_back(index);
    return Routed::waits;
  }
  Group& chosen = groups_[group];
  ++chosen.counters.arrived;
  chosen.counters.prompt_tokens += request.arrival.input_tokens;
  chosen.place(index, requests_, events_, now);
  refresh(group);
  return Routed::placed;
}

void Site::route_waiting(Nanos now, std::vector<RequestIndex>& refused) {
  for (Pool& pool : pools_) {
    if (pool.waiting.empty()) continue;
    std::vector<RequestIndex> again;
    again.swap(pool.waiting);
    for (std::size_t i = 0; i < again.size(); ++i) {
      const Routed routed = route(again[i], now);
      if (routed == Routed::refused) refused.push_back(again[i]);
      if (routed != Routed::waits) continue;
      // When one must wait, so must those behind it.
      pool.waiting.insert(pool.waiting.end(), again.begin() + static_cast<std::ptrdiff_t>(i) + 1, again.end());
      break;
    }
  }
}

}  // namespace gearbox::replay
