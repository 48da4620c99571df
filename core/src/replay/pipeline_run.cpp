#include "replay/pipeline_run.hpp"

#include <algorithm>
#include <ctime>
#include <deque>

#include "replay/chance.hpp"
#include "replay/plots.hpp"

namespace gearbox::replay {

namespace {

constexpr std::uint64_t kSpreads = 100;  // the stream of chance
constexpr Nanos kStepWindow = 10 * kSecond;
constexpr Nanos kGiveUp = 6 * 3600 * kSecond;

double host_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

struct Call {
  RequestIndex request = 0;
  std::uint16_t step = 0;
};

struct Card {
  std::uint32_t node = 0;
  std::vector<StepModel::Times> times;  // by step
  std::deque<Call> waiting;             // handed to it ahead of time
  std::vector<Call> batch;              // that runs
  Nanos begun = 0;
  std::uint32_t version = 0;
  bool down = false;
  double busy_s = 0;
  struct Took {
    Nanos at;
    double seconds;
  };
  std::deque<Took> took;
  microseconds step_p95{0};
};

class Run {
 public:
  Run(const Scenario& scenario, Source& source)
      : scenario_(scenario),
        source_(source),
        model_(*scenario.models.front()),
        spreads_(scenario.seed, kSpreads),
        queues_(model_.steps.size()),
        plots_(scenario.keep_plots, source.span_s()) {}

  Result run() {
    const double begun = host_seconds();
    build();
    for (std::uint32_t i = 0; i < scenario_.cluster->happenings.size(); ++i)
      events_.add(scenario_.cluster->happenings[i].from, EventKind::happening, i, 1);
    loop();
    for (const Card& card : cards_) result_.busy_share += card.busy_s;
    result_.span_s = in_seconds(now_);
    result_.busy_share /= std::max(1e-9, result_.span_s * static_cast<double>(cards_.size()));
    result_.unfinished = requests_.open();
    result_.load = plots_.take(now_);
    result_.host_s = host_seconds() - begun;
    return std::move(result_);
  }

 private:
  void build() {
    std::uint32_t node = 0;
    for (const NodeSet& set : scenario_.cluster->sets) {
      for (std::uint32_t i = 0; i < set.count; ++i, ++node) {
        for (std::uint32_t c = 0; c < set.cards; ++c) {
          Card card;
          card.node = node;
          for (const StepModel& step : model_.steps) {
            const auto own = step.on.find(set.card_name);
            card.times.push_back(own == step.on.end() ? step.times : own->second);
          }
          cards_.push_back(std::move(card));
        }
        result_.groups.push_back(set.name + "-" + std::to_string(i));
      }
    }
  }

  void loop() {
    for (;;) {
      const Nanos arrival = source_.next_at(now_);
      if (arrival == kNever && requests_.open() == 0) return;
      const Nanos event = events_.next_at();
      const Nanos next = std::min({arrival, event, next_beat_});
      if (arrival == kNever && next - last_progress_ > kGiveUp) return;
      result_.in_system_s += static_cast<double>(requests_.open()) * in_seconds(next - now_);
      now_ = next;
      if (event == next) {
        on_event(events_.take());
      } else if (arrival == next) {
        on_arrival();
      } else {
        on_beat();
      }
    }
  }

  void on_arrival() {
    Arrival arrival = source_.take();
    arrival.at = now_;
    const RequestIndex index = requests_.add(arrival, result_.arrived++);
    last_progress_ = now_;
    plots_.arrived();
    begin_step(index);
  }

  void begin_step(RequestIndex index) {
    const std::uint16_t step = requests_[index].step;
    requests_[index].open_calls = model_.steps[step].items;
    for (std::uint32_t i = 0; i < model_.steps[step].items; ++i) dispatch({index, step});
  }

  /// To the card that the balancer picks among those that take another call; else it waits for whoever has a place.
  void dispatch(const Call& call) {
    const StepModel& step = model_.steps[call.step];
    candidates_.clear();
    for (std::uint32_t i = 0; i < cards_.size(); ++i) {
      const Card& card = cards_[i];
      const bool has_place = card.batch.empty() || card.waiting.size() < std::size_t{model_.prefetch} * step.max_batch;
      if (card.down || !has_place) continue;
      candidates_.push_back({plugin::CandidateId{i}, static_cast<std::uint32_t>(card.waiting.size()),
                             static_cast<std::uint32_t>(card.batch.size()), step.max_batch, card.step_p95});
    }
    if (!candidates_.empty()) {
      plugin::RequestView view{};
      view.task = model_.name;
      view.model = step.name;
      view.payload_bytes = requests_[call.request].arrival.bytes;
      view.tenant = requests_[call.request].arrival.tenant;
      const auto picked = scenario_.balancer->pick(view, candidates_, as_instant(now_));
      const std::uint32_t index = picked ? static_cast<std::uint32_t>(picked.value()) : kNoGroup;
      if (index < cards_.size()) {
        cards_[index].waiting.push_back(call);
        if (cards_[index].batch.empty()) begin_batch(index);
        return;
      }
    }
    queues_[call.step].push_back(call);
    ++queued_;
  }

  /// Calls of one step: first those that were handed over, then those that wait for anybody.
  void begin_batch(std::uint32_t index) {
    Card& card = cards_[index];
    std::uint16_t step = 0;
    if (!card.waiting.empty()) {
      step = card.waiting.front().step;
    } else {
      if (queued_ == 0) return;
      // Of the steps, the latest one that has work: what is nearly done goes first.
      step = static_cast<std::uint16_t>(model_.steps.size() - 1);
      while (queues_[step].empty()) --step;
    }
    const std::uint32_t most = model_.steps[step].max_batch;
    while (card.batch.size() < most && !card.waiting.empty() && card.waiting.front().step == step) {
      card.batch.push_back(card.waiting.front());
      card.waiting.pop_front();
    }
    while (card.batch.size() < most && card.waiting.empty() && !queues_[step].empty()) {
      card.batch.push_back(queues_[step].front());
      queues_[step].pop_front();
      --queued_;
    }
    const StepModel::Times& times = card.times[step];
    double seconds = times.fixed_s + times.per_item_s * static_cast<double>(card.batch.size());
    if (model_.steps[step].spread == StepModel::Spread::exponential) seconds *= spreads_.exponential(drawn_++);
    card.begun = now_;
    events_.add(now_ + std::max<Nanos>(1, from_seconds(seconds)), EventKind::card, index, ++card.version);
  }

  void on_event(const Event& event) {
    if (event.kind == EventKind::happening) return on_happening(event);
    Card& card = cards_[event.who];
    if (event.version != card.version || card.batch.empty()) return;
    ++result_.events;
    const double seconds = in_seconds(now_ - card.begun);
    card.busy_s += seconds;
    card.took.push_back({now_, seconds});
    std::vector<Call> ended;
    ended.swap(card.batch);
    result_.request_steps += ended.size();
    begin_batch(event.who);
    for (const Call& call : ended) call_ended(call);
  }

  void call_ended(const Call& call) {
    Request& request = requests_[call.request];
    if (--request.open_calls > 0) return;
    if (++request.step < model_.steps.size()) return begin_step(call.request);
    Ended ended;
    ended.number = request.number;
    ended.arrived = request.arrival.at;
    ended.tenant = request.arrival.tenant;
    ended.latency_s = ended.first_token_s = in_seconds(now_ - request.arrival.at);
    result_.latency.add(ended.latency_s);
    result_.first_token.add(ended.latency_s);
    result_.good += ended.latency_s <= scenario_.slo.first_token_s;
    ++result_.done;
    if (scenario_.keep_ended) result_.ended.push_back(ended);
    last_progress_ = now_;
    plots_.ended();
    requests_.remove(call.request);
    source_.ended(now_);
  }

  void on_beat() {
    next_beat_ += kSecond;
    std::uint32_t running = 0;
    std::vector<double> times;
    for (Card& card : cards_) {
      running += static_cast<std::uint32_t>(card.batch.size());
      while (!card.took.empty() && card.took.front().at < now_ - kStepWindow) card.took.pop_front();
      card.step_p95 = microseconds{0};
      if (card.took.empty()) continue;
      times.clear();
      for (const Card::Took& took : card.took) times.push_back(took.seconds);
      const auto rank = static_cast<std::ptrdiff_t>(0.95 * static_cast<double>(times.size() - 1));
      std::nth_element(times.begin(), times.begin() + rank, times.end());
      card.step_p95 = microseconds(static_cast<std::int64_t>(1e6 * times[static_cast<std::size_t>(rank)]));
    }
    plots_.beat(
        now_,
        static_cast<std::uint32_t>(requests_.open()) - std::min(running, static_cast<std::uint32_t>(requests_.open())),
        running);
  }

  void on_happening(const Event& event) {
    const Happening& happening = scenario_.cluster->happenings[event.who];
    if (happening.kind != Happening::Kind::fail) return;  // its links carry little: they cost nothing here
    const bool begins = event.version == 1;
    if (begins && happening.until != kNever)
      events_.add(happening.until + from_seconds(scenario_.cluster->restart_s), EventKind::happening, event.who, 2);
    std::vector<Call> again;
    for (std::uint32_t i = 0; i < cards_.size(); ++i) {
      Card& card = cards_[i];
      if (card.node != happening.node) continue;
      card.down = begins;
      result_.retried += begins ? card.batch.size() : 0;
      again.insert(again.end(), card.batch.begin(), card.batch.end());
      again.insert(again.end(), card.waiting.begin(), card.waiting.end());
      if (!card.batch.empty()) card.busy_s += in_seconds(now_ - card.begun);
      card.batch.clear();
      card.waiting.clear();
      ++card.version;
      if (!begins) begin_batch(i);
    }
    for (const Call& call : again) dispatch(call);
  }

  const Scenario& scenario_;
  Source& source_;
  const Model& model_;
  Chance spreads_;
  std::vector<std::deque<Call>> queues_;  // by step
  std::uint64_t queued_ = 0;
  Plots plots_;
  std::vector<Card> cards_;
  std::vector<plugin::CandidateView> candidates_;
  Requests requests_;
  EventQueue events_;
  Result result_;
  Nanos now_ = 0;
  Nanos next_beat_ = kSecond;
  Nanos last_progress_ = 0;
  std::uint64_t drawn_ = 0;
};

}  // namespace

Outcome<Result> simulate_pipeline(const Scenario& scenario, Source& source) {
  if (scenario.models.size() > 1) return Error{Errc::bad_input, "a run has one pipeline"};
  return Run(scenario, source).run();
}

}  // namespace gearbox::replay
