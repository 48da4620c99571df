#include "replay/replica.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

namespace gearbox::replay {

namespace {

/// Without a sequence to end it, a stretch ends after so many steps.
constexpr std::uint64_t kLongestStretch = 1 << 20;

/// What the closed form says of n steps: the sum of step + i × growth.
double seconds_of(std::uint64_t steps, double step, double growth) {
  const auto n = static_cast<double>(steps);
  return n * step + growth * n * (n - 1) / 2;
}

}  // namespace

Replica::Replica(const ReplicaSetting& setting)
    : setting_(setting),
      capacity_(gears::cache_tokens_of(*setting.model, *setting.card, setting.layout, setting.memory_share)) {}

bool Replica::fits(const Request& request) const {
  return sequences() < setting_.most_rows && reserved_ + static_cast<double>(room_of(request.arrival)) <= capacity_;
}

void Replica::join(RequestIndex index, const Request& request) {
  reserved_ += static_cast<double>(room_of(request.arrival));
  prefilled_ += request.prefilled;
  if (request.prefilled >= request.to_prefill) {  // its cache came with it
    prefilled_ -= request.prefilled;
    context_ += request.arrival.input_tokens + request.generated;
    rows_.push_back({steps_ + (request.arrival.output_tokens - request.generated), index});
    std::push_heap(rows_.begin(), rows_.end(), std::greater<>());
    return;
  }
  waiting_prompt_ += request.to_prefill - request.prefilled;
  prompts_.push_back(index);
}

void Replica::plan(const Requests& requests) {
  pieces_.clear();
  steps_ahead_ = rows_.empty() ? kLongestStretch : rows_.front().last_step - steps_;
  gears::Step step;
  step.decode_rows = static_cast<double>(rows_.size());
  step.decode_context = context_;
  const std::uint32_t chunk = setting_.card->prefill_chunk;
  std::uint32_t room = chunk;
  for (const RequestIndex index : prompts_) {
    const Request& request = requests[index];
    const std::uint32_t left = request.to_prefill - request.prefilled;
    const std::uint32_t taken = std::min(left, room);
    step.prefill_tokens += taken;
    step.prefill_pairs += taken * (request.prefilled + taken / 2.0);
    pieces_.push_back({index, taken});
    room -= taken;
    if (room == 0) break;
  }
  if (!pieces_.empty()) {
    // Whole chunks of one prompt are equal steps, too.
    const Request& front = requests[pieces_.front().index];
    const bool whole = pieces_.front().tokens == chunk;
    const std::uint64_t chunks = whole ? (front.to_prefill - front.prefilled) / chunk : 1;
    steps_ahead_ = std::min(steps_ahead_, chunks);
  }
  if (setting_.one_by_one) steps_ahead_ = 1;
  const gears::StepPrice price =
      gears::price_of(step, *setting_.model, *setting_.card, setting_.layout, setting_.link_slowdown);
  const auto rows = static_cast<double>(rows_.size());
  const double of_position = setting_.position_s / setting_.layout.cards_of_replica();
  const double beside = setting_.token_s * rows + (of_position > 0 ? of_position * positions(requests) : 0.0) +
                        (rows > 0 && !pieces_.empty() ? setting_.mixed_s * setting_.layout.cards_of_replica() : 0.0);
  step_s_ = (price.total() + beside) * setting_.crowding;
  compute_share_ = price.compute / std::max(step_s_, 1e-12);
  growth_s_ = 0;
  if (steps_ahead_ > 1) {
    step.decode_context += step.decode_rows;
    if (!pieces_.empty()) step.prefill_pairs += double{1} * pieces_.front().tokens * pieces_.front().tokens;
    const double second =
        gears::price_of(step, *setting_.model, *setting_.card, setting_.layout, setting_.link_slowdown).total();
    growth_s_ = (second + beside + of_position * rows) * setting_.crowding - step_s_;
  }
}

/// Cached positions that the next step looks at for those that decode.
double Replica::positions(const Requests& requests) const {
  if (!setting_.pads) return context_;
  double longest = 0;
  for (const Row& row : rows_) {
    const auto whole = static_cast<double>(room_of(requests[row.index].arrival));
    longest = std::max(longest, whole - static_cast<double>(row.last_step - steps_));
  }
  return longest * static_cast<double>(rows_.size());
}

Nanos Replica::end_after(std::uint64_t steps) const {
  return begun_ + std::max<Nanos>(1, from_seconds(seconds_of(steps, step_s_, growth_s_)));
}

Nanos Replica::begin(Nanos now, const Requests& requests) {
  plan(requests);
  begun_ = now;
  busy_from_ = now;
  ++version;
  return end_after(steps_ahead_);
}

Nanos Replica::cut(Nanos now) {
  if (steps_ahead_ <= 1) return kNever;
  // The first step that ends at `now` or later; a guess by the quadratic's root, then the exact one beside it.
  const double gone = in_seconds(now - begun_);
  const double linear = step_s_ - growth_s_ / 2;
  const double root =
      growth_s_ <= 1e-15 ? gone / step_s_ : (std::sqrt(linear * linear + 2 * growth_s_ * gone) - linear) / growth_s_;
  auto steps = static_cast<std::uint64_t>(std::max(1.0, root));
  steps = std::min(steps, steps_ahead_);
  while (steps > 1 && end_after(steps - 1) >= now) --steps;
  while (steps < steps_ahead_ && end_after(steps) < now) ++steps;
  if (steps == steps_ahead_) return kNever;
  steps_ahead_ = steps;
  ++version;
  return end_after(steps);
}

void Replica::free_room(const Request& request) {
  reserved_ -= static_cast<double>(room_of(request.arrival));
}

void Replica::end(Nanos now, Requests& requests, std::vector<RequestIndex>& done) {
  const std::uint64_t steps = steps_ahead_;
  busy_ += in_seconds(now - busy_from_);
  compute_ += compute_share_ * in_seconds(now - begun_);
  request_steps_ += (rows_.size() + pieces_.size()) * steps;
  steps_ahead_ = 0;
  steps_ += steps;
  context_ += static_cast<double>(rows_.size() * steps);
  while (!rows_.empty() && rows_.front().last_step <= steps_) {
    std::pop_heap(rows_.begin(), rows_.end(), std::greater<>());
    const RequestIndex index = rows_.back().index;
    rows_.pop_back();
    Request& request = requests[index];
    request.generated = request.arrival.output_tokens;
    context_ -= static_cast<double>(room_of(request.arrival));
    free_room(request);
    done.push_back(index);
  }
  for (const Piece& piece : pieces_) {
    Request& request = requests[piece.index];
    const auto tokens = static_cast<std::uint32_t>(piece.tokens * steps);
    request.prefilled += tokens;
    prefilled_ += tokens;
    waiting_prompt_ -= tokens;
    if (request.prefilled < request.to_prefill) break;  // only the last piece can be a part of its prompt
    prompts_.pop_front();
    prefilled_ -= request.prefilled;
    if (request.first < 0) request.first = now;
    ++request.generated;
    if (request.generated >= request.arrival.output_tokens) {
      free_room(request);
      done.push_back(piece.index);
      continue;
    }
    context_ += request.arrival.input_tokens + request.generated;
    rows_.push_back({steps_ + (request.arrival.output_tokens - request.generated), piece.index});
    std::push_heap(rows_.begin(), rows_.end(), std::greater<>());
  }
  pieces_.clear();
}

std::vector<RequestIndex> Replica::clear(Requests& requests, bool lost) {
  std::vector<RequestIndex> all;
  std::sort(rows_.begin(), rows_.end(), [](const Row& a, const Row& b) { return b > a; });
  for (const Row& row : rows_) {
    Request& request = requests[row.index];
    request.generated = request.arrival.output_tokens - static_cast<std::uint32_t>(row.last_step - steps_);
    all.push_back(row.index);
  }
  all.insert(all.end(), prompts_.begin(), prompts_.end());
  if (lost && steps_ahead_ > 0) {
    steps_ahead_ = 0;
    pieces_.clear();
    ++version;
  }
  rows_.clear();
  prompts_.clear();
  context_ = prefilled_ = waiting_prompt_ = reserved_ = 0;
  return all;
}

double Replica::take_busy(Nanos now) {
  if (running()) {
    busy_ += in_seconds(now - busy_from_);
    busy_from_ = now;
  }
  const double taken = busy_;
  busy_ = 0;
  return taken;
}

double Replica::take_compute_seconds() {
  const double taken = compute_;
  compute_ = 0;
  return taken;
}

std::uint64_t Replica::take_request_steps() {
  const std::uint64_t taken = request_steps_;
  request_steps_ = 0;
  return taken;
}

}  // namespace gearbox::replay
