#include "replay/group.hpp"

#include <algorithm>

namespace gearbox::replay {

std::uint32_t group_of_event(std::uint32_t who) {
  return who >> Group::kReplicaBits;
}

std::uint32_t replica_of_event(std::uint32_t who) {
  return who & ((1U << Group::kReplicaBits) - 1);
}

Group::Group(const GroupSetting& setting, std::uint32_t index) : setting_(setting), index_(index) {
  build(setting.gear);
}

std::optional<gears::Layout> Group::layout_of(std::uint8_t gear) const {
  const auto layout = gears::layout_of(gear, setting_.cards, setting_.model->shape);
  if (!layout || gears::cache_tokens_of(setting_.model->shape, *setting_.card, *layout, setting_.memory_share) < 1)
    return std::nullopt;
  return layout;
}

double Group::capacity_of(std::uint8_t gear) const {
  const auto layout = layout_of(gear);
  return layout ? gears::cache_tokens_of(setting_.model->shape, *setting_.card, *layout, setting_.memory_share) : 0;
}

std::uint64_t Group::request_steps() {
  for (Replica& replica : replicas_) request_steps_ += replica.take_request_steps();
  return request_steps_;
}

void Group::build(std::uint8_t gear) {
  request_steps();  // before they go
  for (const Replica& replica : replicas_) next_version_ = std::max(next_version_, replica.version);
  ++next_version_;
  replicas_.clear();
  gear_ = gear;
  layout_ = layout_of(gear).value_or(gears::Layout());
  ReplicaSetting setting;
  setting.model = &setting_.model->shape;
  setting.card = setting_.card;
  setting.layout = layout_;
  setting.link_slowdown = link_slowdown_;
  setting.crowding = crowding_;
  setting.token_s = setting_.token_s;
  setting.position_s = setting_.position_s;
  setting.mixed_s = setting_.mixed_s;
  setting.pads = setting_.pads;
  setting.most_rows = setting_.model->max_batch;
  setting.memory_share = setting_.memory_share;
  setting.one_by_one = setting_.one_by_one;
  for (std::uint32_t i = 0; i < layout_.replicas; ++i) {
    replicas_.emplace_back(setting);
    replicas_.back().version = next_version_;
  }
}

std::optional<std::uint32_t> Group::join_best(RequestIndex index, const Requests& requests) {
  const Request& request = requests[index];
  std::optional<std::uint32_t> best;
  for (std::uint32_t i = 0; i < replicas_.size(); ++i) {
    if (replicas_[i].fits(request) && (!best || replicas_[i].load() < replicas_[*best].load())) best = i;
  }
  if (!best) return best;
  replicas_[*best].join(index, request);
  largest_room_ = std::max(largest_room_, static_cast<double>(room_of(request.arrival)));
  ++running_;
  return best;
}

void Group::begin_or_cut(std::uint32_t replica, const Requests& requests, EventQueue& events, Nanos now) {
  Replica& chosen = replicas_[replica];
  if (!chosen.running()) crowd(running_replicas() + 1, events, now);
  const Nanos end = chosen.running() ? chosen.cut(now) : chosen.begin(now, requests);
  if (end != kNever) events.add(end, EventKind::stretch, (index_ << kReplicaBits) | replica, chosen.version);
}

void Group::place(RequestIndex index, Requests& requests, EventQueue& events, Nanos now) {
  requests[index].group = index_;
  if (accepts() && waiting.empty()) {
    if (const auto replica = join_best(index, requests)) return begin_or_cut(*replica, requests, events, now);
  }
  waiting.push_back(index);
}

void Group::fill(Requests& requests, EventQueue& events, Nanos now) {
  while (accepts() && !waiting.empty()) {
    const auto replica = join_best(waiting.front(), requests);
    if (!replica) return;
    waiting.pop_front();
    begin_or_cut(*replica, requests, events, now);
  }
}

void Group::ended(std::uint32_t replica, Requests& requests, EventQueue& events, Nanos now,
                  std::vector<RequestIndex>& done) {
  Replica& its = replicas_[replica];
  const std::size_t before = done.size();
  its.end(now, requests, done);
  running_ -= static_cast<std::uint32_t>(done.size() - before);
  if (running_ == 0) largest_room_ = 0;
  // Room came free here alone: the first in the queue goes to the best replica, which need not be this one.
  fill(requests, events, now);
  const bool goes_on = phase == Phase::serving || phase == Phase::draining;
  if (goes_on && its.has_work() && !its.running()) begin_or_cut(replica, requests, events, now);
  if (!its.running()) crowd(running_replicas(), events, now);
}

std::uint32_t Group::running_replicas() const {
  return static_cast<std::uint32_t>(
      std::count_if(replicas_.begin(), replicas_.end(), [](const Replica& replica) { return replica.running(); }));
}

void Group::crowd(std::uint32_t running, EventQueue& events, Nanos now) {
  if (setting_.full_speed <= 0) return;
  const double crowding = std::max(1.0, running / setting_.full_speed);
  if (crowding == crowding_) return;
  crowding_ = crowding;
  for (Replica& replica : replicas_) replica.set_crowding(crowding);
  gather(events, now);
}

void Group::gather(EventQueue& events, Nanos now) {
  for (std::uint32_t i = 0; i < replicas_.size(); ++i) {
    if (!replicas_[i].running()) continue;
    const Nanos end = replicas_[i].cut(now);
    if (end != kNever) events.add(end, EventKind::stretch, (index_ << kReplicaBits) | i, replicas_[i].version);
  }
}

bool Group::any_running() const {
  return std::any_of(replicas_.begin(), replicas_.end(), [](const Replica& replica) { return replica.running(); });
}

std::vector<RequestIndex> Group::clear(Requests& requests, bool lost) {
  std::vector<RequestIndex> all;
  for (Replica& replica : replicas_) {
    const std::vector<RequestIndex> its = replica.clear(requests, lost);
    all.insert(all.end(), its.begin(), its.end());
  }
  all.insert(all.end(), waiting.begin(), waiting.end());
  waiting.clear();
  running_ = 0;
  largest_room_ = 0;
  return all;
}

std::uint32_t Group::rejoin(const std::vector<RequestIndex>& indices, Requests& requests, bool recompute) {
  std::uint32_t recomputed = 0;
  const auto forget_cache = [&](Request& request) {
    if (request.prefilled == 0) return;
    request.to_prefill = request.arrival.input_tokens + request.generated;
    request.prefilled = 0;
    ++recomputed;
  };
  for (const RequestIndex index : indices) {
    Request& request = requests[index];
    if (recompute) forget_cache(request);
    // Behind one that waits nobody goes ahead, unless its cache is here already.
    const bool in_flight = request.prefilled > 0 || request.generated > 0;
    if ((waiting.empty() || in_flight) && join_best(index, requests)) continue;
    forget_cache(request);
    waiting.push_back(index);
  }
  return recomputed;
}

void Group::begin_all(Requests& requests, EventQueue& events, Nanos now) {
  for (std::uint32_t i = 0; i < replicas_.size(); ++i) {
    if (replicas_[i].has_work() && !replicas_[i].running()) begin_or_cut(i, requests, events, now);
  }
}

void Group::set_link_slowdown(double slowdown, EventQueue& events, Nanos now) {
  link_slowdown_ = slowdown;
  for (Replica& replica : replicas_) replica.set_link_slowdown(slowdown);
  gather(events, now);  // the next step has the new price
}

double Group::cached() const {
  double all = 0;
  for (const Replica& replica : replicas_) all += replica.cached();
  return all;
}

double Group::pressure() const {
  double most = 0;
  for (const Replica& replica : replicas_) {
    if (replica.capacity() > 0) most = std::max(most, replica.cached() / replica.capacity());
  }
  return most;
}

}  // namespace gearbox::replay
