#include "sinks/outbox.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "sinks/outbox_state.hpp"

namespace gearbox::sinks {

namespace {

constexpr milliseconds kStopLimit{3'000};    // for deliveries under way when the node stops
constexpr std::uint64_t kEventBytes = 1024;  // what an event takes beside its values, about
constexpr std::size_t kMostOrders = 65'536;  // beyond that rows stay until the next start, which removes them

bool admits(const config::SinkConfig& sink, std::string_view task) {
  return sink.tasks.empty() || std::find(sink.tasks.begin(), sink.tasks.end(), task) != sink.tasks.end();
}

}  // namespace

Outbox::Outbox(std::shared_ptr<State> state) : state_(std::move(state)) {}

Outcome<std::unique_ptr<Outbox>> Outbox::open(Setup setup) {
  auto state = std::make_shared<State>(std::move(setup));
  BOOST_OUTCOME_TRY(state->open());
  for (SinkSetup& each : state->setup.sinks) {
    Lane::Place place{state->setup.node, state->folder_of(each.config.name).string()};
    State::Sink& sink = state->sinks.at(each.config.name);
    const std::lock_guard lock(state->mutex);
    sink.lane =
        Lane::start(std::move(each), std::move(place), [state](Report report) { state->add(std::move(report)); });
  }
  state->setup.sinks.clear();
  state->thread = std::thread([at = state.get()] { at->work(); });
  return std::unique_ptr<Outbox>(new Outbox(std::move(state)));
}

Outbox::~Outbox() {
  std::vector<std::shared_ptr<Lane>> lanes;
  {
    const std::lock_guard lock(state_->mutex);
    for (auto& [name, sink] : state_->sinks) lanes.push_back(std::exchange(sink.lane, nullptr));
  }
  for (const auto& lane : lanes) lane->stop();
  const Instant until = after(Clock::now(), kStopLimit);
  for (const auto& lane : lanes) {
    if (!lane->join(until)) {
      spdlog::warn("event=sink_left_behind hint=\"a delivery did not end in time; its events are delivered again\"");
    }
  }
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->wake.notify_one();
  state_->thread.join();
}

bool Outbox::wants(std::string_view task) const {
  const std::lock_guard lock(state_->mutex);
  return std::any_of(state_->sinks.begin(), state_->sinks.end(),
                     [&](const auto& entry) { return admits(entry.second.config, task); });
}

void Outbox::put(Event event) {
  State::Put put;
  put.bytes = kEventBytes;
  for (const auto& [index, bytes] : event.values) put.bytes += bytes.size();
  {
    const std::lock_guard lock(state_->mutex);
    for (const auto& [name, sink] : state_->sinks) {
      if (admits(sink.config, event.task)) put.sinks.push_back(name);
    }
    if (put.sinks.empty()) return;
    if (state_->handed_over >= kHandOverEvents || state_->handed_over_bytes + put.bytes > kHandOverBytes) {
      ++state_->dropped;
      state_->complain(Error{Errc::overloaded, "an event was dropped: the disk is slower than the requests"});
      return;
    }
    ++state_->handed_over;
    state_->handed_over_bytes += put.bytes;
    ++state_->on_their_way[event.key];
    put.event = std::move(event);
    state_->orders.emplace_back(std::move(put));
  }
  state_->wake.notify_one();
}

void Outbox::forget(const RequestKey& key) {
  if (!state_->setup.let_go) return;  // nothing is kept for it
  bool on_its_way = false;
  {
    const std::lock_guard lock(state_->mutex);
    on_its_way = state_->on_their_way.contains(key);
    if (on_its_way || state_->orders.size() < kMostOrders) state_->orders.emplace_back(State::Forget{key, on_its_way});
  }
  state_->wake.notify_one();
  if (!on_its_way) state_->setup.let_go(key);
}

const std::vector<RequestKey>& Outbox::known() const {
  return state_->known;
}

void Outbox::use(std::vector<SinkSetup> sinks) {
  const std::lock_guard lock(state_->mutex);
  for (SinkSetup& each : sinks) {
    const auto found = state_->sinks.find(each.config.name);
    if (found == state_->sinks.end() || !found->second.lane) continue;
    found->second.config = each.config;
    found->second.lane->use(std::move(each));
  }
}

Facts Outbox::facts() const {
  Facts facts;
  const std::lock_guard lock(state_->mutex);
  for (const auto& [name, sink] : state_->sinks) {
    SinkFacts each;
    each.name = name;
    each.plugin = sink.config.plugin;
    each.queued = sink.waiting.events;
    each.queued_bytes = sink.waiting.bytes;
    each.dead_letters = sink.dead;
    if (sink.lane) each.lane = sink.lane->counters();
    facts.sinks.push_back(std::move(each));
  }
  facts.handed_over = state_->handed_over;
  facts.dropped = state_->dropped;
  facts.last_error = state_->last_error;
  facts.stranded = state_->stranded;
  facts.set_aside = state_->set_aside_as;
  return facts;
}

}  // namespace gearbox::sinks
