#include "replay/simulator.hpp"

#include <algorithm>
#include <ctime>

#include "replay/control.hpp"
#include "replay/pipeline_run.hpp"
#include "replay/plots.hpp"
#include "replay/site.hpp"

namespace gearbox::replay {

namespace {

constexpr Nanos kGiveUp = 6 * 3600 * kSecond;  // without any progress after the last arrival: nobody serves

/// Of this thread: a busy host does not count.
double host_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

class Run {
 public:
  Run(const Scenario& scenario, Source& source)
      : scenario_(scenario), source_(source), site_(scenario), plots_(scenario.keep_plots, source.span_s()) {}

  Outcome<Result> run() {
    const double begun = host_seconds();
    BOOST_OUTCOME_TRY(site_.build());
    control_ = std::make_unique<Control>(scenario_, site_);
    for (std::uint32_t i = 0; i < scenario_.cluster->happenings.size(); ++i)
      site_.events().add(scenario_.cluster->happenings[i].from, EventKind::happening, i, 1);
    next_beat_ = kSecond;
    next_round_ = from_seconds(scenario_.interval_s);
    loop();
    finish();
    result_.host_s = host_seconds() - begun;
    return std::move(result_);
  }

 private:
  void loop() {
    for (;;) {
      const Nanos arrival = source_.next_at(now_);
      const bool over = arrival == kNever && site_.requests().open() == 0;
      if (over) return;
      const Nanos event = site_.events().next_at();
      const Nanos beat = std::min(next_beat_, scenario_.policy != nullptr ? next_round_ : kNever);
      const Nanos next = std::min({arrival, event, beat});
      if (arrival == kNever && next - last_progress_ > kGiveUp) return;
      advance(next);
      // What ends now makes room for what comes now; decisions see both.
      if (event == next) {
        on_event(site_.events().take());
      } else if (arrival == next) {
        on_arrival();
      } else {
        on_beat();
      }
    }
  }

  void advance(Nanos to) {
    result_.in_system_s += static_cast<double>(site_.requests().open()) * in_seconds(to - now_);
    now_ = to;
  }

  void on_arrival() {
    const Arrival arrival = source_.take();
    Arrival its = arrival;
    its.at = now_;
    its.input_tokens = std::max(1U, its.input_tokens);
    its.output_tokens = std::max(1U, its.output_tokens);
    const RequestIndex index = site_.requests().add(its, result_.arrived++);
    last_progress_ = now_;
    plots_.arrived();
    if (scenario_.cluster->broker_s > 0) {
      site_.events().add(now_ + from_seconds(scenario_.cluster->broker_s), EventKind::handed_on, index);
    } else {
      hand_on(index);
    }
  }

  void hand_on(RequestIndex index) {
    if (site_.route(index, now_) == Site::Routed::refused) refuse(index);
  }

  void refuse(RequestIndex index) {
    ++result_.refused;
    site_.requests().remove(index);
    source_.ended(now_);
  }

  void on_event(const Event& event) {
    switch (event.kind) {
      case EventKind::stretch:
        return on_stretch(event);
      case EventKind::gather:
        return on_gather(event);
      case EventKind::resume:
        return on_resume(event);
      case EventKind::happening:
        return on_happening(event);
      case EventKind::handed_on:
        return hand_on(event.who);
      case EventKind::card:
        return;
    }
  }

  void on_stretch(const Event& event) {
    const std::uint32_t index = group_of_event(event.who);
    const std::uint32_t replica = replica_of_event(event.who);
    Group& group = site_.group(index);
    if (replica >= group.replicas().size() || group.replica(replica).version != event.version ||
        !group.replica(replica).running())
      return;
    ++result_.events;
    done_.clear();
    group.ended(replica, site_.requests(), site_.events(), now_, done_);
    for (const RequestIndex each : done_) ended(group, each);
    site_.refresh(index);
    if (group.phase == Group::Phase::gathering && !group.any_running()) pause(index);
    if (group.phase == Group::Phase::draining && group.running() == 0) pause(index);
    if (!done_.empty()) try_waiting();
  }

  void ended(Group& group, RequestIndex index) {
    const Request& request = site_.requests()[index];
    Ended ended;
    ended.number = request.number;
    ended.arrived = request.arrival.at;
    ended.tenant = request.arrival.tenant;
    ended.latency_s = in_seconds(now_ - request.arrival.at);
    ended.first_token_s = in_seconds(request.first - request.arrival.at);
    if (request.arrival.output_tokens > 1)
      ended.per_token_s = in_seconds(now_ - request.first) / (request.arrival.output_tokens - 1);
    result_.latency.add(ended.latency_s);
    result_.first_token.add(ended.first_token_s);
    if (ended.per_token_s >= 0) result_.per_token.add(ended.per_token_s);
    result_.good +=
        ended.first_token_s <= scenario_.slo.first_token_s && ended.per_token_s <= scenario_.slo.per_token_s;
    ++result_.done;
    result_.output_tokens += request.arrival.output_tokens;
    result_.input_tokens += request.arrival.input_tokens;
    if (scenario_.keep_ended) result_.ended.push_back(ended);
    group.took.push_back({now_, ended.latency_s});
    ++group.counters.finished;
    group.counters.output_tokens += request.arrival.output_tokens;
    last_progress_ = now_;
    plots_.ended();
    site_.requests().remove(index);
    source_.ended(now_);
  }

  void try_waiting() {
    refused_.clear();
    site_.route_waiting(now_, refused_);
    for (const RequestIndex each : refused_) refuse(each);
  }

  void on_beat() {
    if (now_ >= next_beat_) {
      next_beat_ += kSecond;
      // Busy seconds are taken by whoever looks first: the share of the whole run is counted from the samples.
      control_->observe(now_);
      site_.refresh_step_times(now_);
      std::uint32_t waiting = 0;
      std::uint32_t running = 0;
      for (Group& group : site_.groups()) {
        waiting += static_cast<std::uint32_t>(group.waiting.size());
        running += group.running();
      }
      for (const Pool& pool : site_.pools()) waiting += static_cast<std::uint32_t>(pool.waiting.size());
      plots_.beat(now_, waiting, running);
      busy_samples();
      try_waiting();
    }
    if (scenario_.policy != nullptr && now_ >= next_round_) {
      next_round_ += from_seconds(scenario_.interval_s);
      for (const scheduler::Decision& decision : control_->decide(now_, result_)) begin_shift(decision);
    }
  }

  void busy_samples() {
    for (std::uint32_t i = 0; i < site_.groups().size(); ++i) {
      busy_card_s_ += control_->busy_of(i) * site_.group(i).setting().cards;
      all_card_s_ += site_.group(i).setting().cards;
    }
  }

  void begin_shift(const scheduler::Decision& decision) {
    const auto index = static_cast<std::uint32_t>(decision.group);
    Group& group = site_.group(index);
    group.target = decision.to;
    group.decided_at = now_;
    group.shift = ShiftDone();
    group.shift.at = now_;
    group.shift.group = index;
    group.shift.from = group.gear();
    group.shift.to = decision.to;
    group.shift.urgent = decision.urgent;
    group.shift.rule = decision.rule;
    site_.events().add(now_ + from_seconds(scenario_.cluster->shift.rehearse_s), EventKind::gather, index,
                       ++group.shift_version);
  }

  void on_gather(const Event& event) {
    Group& group = site_.group(event.who);
    if (event.version != group.shift_version || group.target == 0) return;
    // What came since the decision may not fit any more: the rehearsal refuses, and nothing has happened.
    const double room = group.capacity_of(group.target);
    const auto layout = group.layout_of(group.target);
    if (!layout || group.largest_room() > room || group.cached() > room * layout->replicas) {
      group.target = 0;
      ++result_.held_back["rehearsal"];
      return;
    }
    group.paused_at = now_;
    group.phase =
        scenario_.cluster->shift.how == ShiftCost::How::drain ? Group::Phase::draining : Group::Phase::gathering;
    if (group.phase == Group::Phase::draining) {
      if (group.running() == 0) pause(event.who);
      return;
    }
    group.gather(site_.events(), now_);
    if (!group.any_running()) pause(event.who);
  }

  void pause(std::uint32_t index) {
    Group& group = site_.group(index);
    group.phase = Group::Phase::paused;
    const bool moves = scenario_.cluster->shift.how == ShiftCost::How::in_flight;
    const double pause = scenario_.cluster->shift.pause_s + (moves ? seconds_to_move(group) : 0);
    site_.events().add(now_ + from_seconds(pause), EventKind::resume, index, group.shift_version);
  }

  void on_resume(const Event& event) {
    Group& group = site_.group(event.who);
    if (event.version != group.shift_version) return;
    if (group.phase == Group::Phase::down) {  // its node is back
      note_gear(group, event.who);
      group.phase = Group::Phase::serving;
    } else {
      note_gear(group, event.who);
      group.shift.pause_s = in_seconds(now_ - group.paused_at);
      group.shift.paused_requests_s = group.shift.pause_s * static_cast<double>(group.running() + group.waiting.size());
      result_.shifts.push_back(group.shift);
      const std::vector<RequestIndex> all = group.clear(site_.requests(), false);
      group.came_from = group.gear();
      group.build(group.target);
      group.target = 0;
      group.shifted_at = now_;
      group.last_shifts.push_back(now_);
      group.phase = Group::Phase::serving;
      result_.recomputed +=
          group.rejoin(all, site_.requests(), scenario_.cluster->shift.how == ShiftCost::How::recompute);
    }
    group.gear_since = now_;
    group.fill(site_.requests(), site_.events(), now_);
    group.begin_all(site_.requests(), site_.events(), now_);
    site_.refresh_capacity(event.who);
    send_away_what_cannot_fit(event.who);
    try_waiting();
  }

  /// In the new gear a replica may be too small for what waits.
  void send_away_what_cannot_fit(std::uint32_t index) {
    Group& group = site_.group(index);
    const double room = group.capacity_of(group.gear());
    std::deque<RequestIndex> stay;
    std::vector<RequestIndex> leave;
    for (const RequestIndex each : group.waiting) {
      if (static_cast<double>(room_of(site_.requests()[each].arrival)) <= room) {
        stay.push_back(each);
      } else {
        leave.push_back(each);
      }
    }
    if (leave.empty()) return;
    group.waiting.swap(stay);
    group.fill(site_.requests(), site_.events(), now_);
    site_.refresh(index);
    for (const RequestIndex each : leave) {
      if (site_.route(each, now_) == Site::Routed::refused) refuse(each);
    }
  }

  void on_happening(const Event& event) {
    const Happening& happening = scenario_.cluster->happenings[event.who];
    const bool begins = event.version == 1;
    if (begins && happening.until != kNever) site_.events().add(happening.until, EventKind::happening, event.who, 2);
    for (std::uint32_t i = 0; i < site_.groups().size(); ++i) {
      Group& group = site_.group(i);
      if (group.setting().node != happening.node) continue;
      if (happening.kind == Happening::Kind::slow_link) {
        group.set_link_slowdown(begins ? happening.slowdown : 1, site_.events(), now_);
      } else if (begins) {
        fail(i);
      } else if (group.phase == Group::Phase::down) {
        site_.events().add(now_ + from_seconds(scenario_.cluster->restart_s), EventKind::resume, i,
                           ++group.shift_version);
      }
    }
  }

  void fail(std::uint32_t index) {
    Group& group = site_.group(index);
    note_gear(group, index);
    const std::vector<RequestIndex> all = group.clear(site_.requests(), true);
    group.phase = Group::Phase::down;
    group.target = 0;
    ++group.shift_version;
    site_.refresh_capacity(index);
    for (const RequestIndex each : all) {
      Request& request = site_.requests()[each];
      if (request.prefilled > 0 || request.generated > 0) ++result_.retried;
      request.prefilled = 0;
      request.to_prefill = request.arrival.input_tokens + request.generated;  // the node keeps what it has given
      ++request.attempt;
      if (site_.route(each, now_) == Site::Routed::refused) refuse(each);
    }
  }

  /// The time since the last change is one in the gear that it leaves.
  void note_gear(Group& group, std::uint32_t index) {
    const std::uint8_t gear = group.phase == Group::Phase::down ? std::uint8_t{0} : group.gear();
    result_.gear_s[gear] += in_seconds(now_ - group.gear_since);
    if (scenario_.keep_plots) result_.gears.push_back({index, group.gear_since, now_, gear});
    group.gear_since = now_;
  }

  void finish() {
    for (std::uint32_t i = 0; i < site_.groups().size(); ++i) {
      Group& group = site_.group(i);
      note_gear(group, i);
      result_.groups.push_back(group.setting().name);
      result_.request_steps += group.request_steps();
      for (Replica& replica : group.replicas())
        result_.all_returned = result_.all_returned && replica.load() == 0 && replica.cached() == 0;
    }
    result_.unfinished = site_.requests().open();
    result_.span_s = in_seconds(now_);
    result_.busy_share = all_card_s_ > 0 ? busy_card_s_ / all_card_s_ : 0;
    result_.load = plots_.take(now_);
  }

  const Scenario& scenario_;
  Source& source_;
  Site site_;
  Plots plots_;
  std::unique_ptr<Control> control_;
  Result result_;
  Nanos now_ = 0;
  Nanos next_beat_ = 0;
  Nanos next_round_ = 0;
  Nanos last_progress_ = 0;
  double busy_card_s_ = 0;
  double all_card_s_ = 0;
  std::vector<RequestIndex> done_;
  std::vector<RequestIndex> refused_;
};

}  // namespace

Outcome<Result> simulate(const Scenario& scenario, Source& source) {
  if (scenario.models.empty()) return Error{Errc::bad_input, "a run needs a model"};
  for (const Model* model : scenario.models) {
    if (model->kind != scenario.models.front()->kind)
      return Error{Errc::bad_input, "decoders and pipelines do not go into one run"};
  }
  if (scenario.models.front()->kind == Model::Kind::pipeline) return simulate_pipeline(scenario, source);
  return Run(scenario, source).run();
}

}  // namespace gearbox::replay
