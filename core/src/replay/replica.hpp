// replica.hpp: one copy of a decoder with continuous batching, priced step by step, or many equal steps at once.
//
// In each step every sequence that decodes gets one token, and up to a chunk of waiting prompts is taken in. As long as
// nothing joins or ends, the price of a step is linear in the number of steps done (only the caches grow), so a stretch
// of such steps has a closed form. It is cut at a step's end when something joins.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "gearbox/gears/price.hpp"
#include "replay/event_queue.hpp"
#include "replay/request.hpp"

namespace gearbox::replay {

struct ReplicaSetting {
  const gears::ModelShape* model = nullptr;  // outlives the replica
  const gears::Card* card = nullptr;         // outlives the replica
  gears::Layout layout;
  double link_slowdown = 1;
  double crowding = 1;            // times a step takes because others use the same cores
  double token_s = 0;             // of handing on each token that a sequence gets
  double position_s = 0;          // of each cached position, beside the price, divided among the cards
  double mixed_s = 0;             // of a step that takes prompts in beside those that decode, times the cards
  bool pads = false;              // all sequences count as many positions as the longest one
  std::uint32_t most_rows = 512;  // sequences in one step
  double memory_share = 0.92;     // of a card's memory that may be used
  bool one_by_one = false;        // no stretches: each step is an event. For tests.
};

class Replica {
 public:
  explicit Replica(const ReplicaSetting& setting);

  /// Positions that its caches hold; 0: not even the weights fit.
  double capacity() const { return capacity_; }
  bool fits(const Request& request) const;
  /// How much is before a request that joins now; only for comparing replicas of one group.
  double load() const { return reserved_ + 2 * waiting_prompt_; }

  /// Reserves the request's room; it is part of the next step that begins.
  void join(RequestIndex index, const Request& request);
  bool has_work() const { return !rows_.empty() || !prompts_.empty(); }
  bool running() const { return steps_ahead_ > 0; }

  /// Begins a stretch and says when it ends. Only with work, and not while running.
  Nanos begin(Nanos now, const Requests& requests);
  /// Ends the stretch with the step under way at `now`. The new end, or kNever when it stays.
  Nanos cut(Nanos now);
  /// Accounts for the stretch; those with their last token are added to `done`, and their room is free.
  void end(Nanos now, Requests& requests, std::vector<RequestIndex>& done);
  /// Takes everything out, with the requests' progress up to date: those that decode first, in their order of ending.
  /// Not while running, but after a failure: `lost` then, and the stretch under way is forgotten.
  std::vector<RequestIndex> clear(Requests& requests, bool lost);

  void set_link_slowdown(double slowdown) { setting_.link_slowdown = slowdown; }
  void set_crowding(double crowding) { setting_.crowding = crowding; }
  /// Busy seconds since the last call, up to `now`.
  double take_busy(Nanos now);
  double take_compute_seconds();
  std::uint64_t take_request_steps();
  double cached() const { return context_ + prefilled_; }
  std::size_t sequences() const { return rows_.size() + prompts_.size(); }
  std::uint32_t version = 0;  // of its stretch; see Event

 private:
  struct Row {
    std::uint64_t last_step = 0;  // in which its last token comes
    RequestIndex index = 0;
    bool operator>(const Row& other) const {
      return last_step != other.last_step ? last_step > other.last_step : index > other.index;
    }
  };
  struct Piece {
    RequestIndex index = 0;
    std::uint32_t tokens = 0;  // of each step
  };
  Nanos end_after(std::uint64_t steps) const;
  void plan(const Requests& requests);
  double positions(const Requests& requests) const;
  void free_room(const Request& request);

  ReplicaSetting setting_;
  double capacity_;
  std::vector<Row> rows_;             // a heap: the one that ends first in front
  std::deque<RequestIndex> prompts_;  // in the order of joining
  double context_ = 0;                // positions of the rows' caches
  double prefilled_ = 0;              // positions of the prompts that are taken in partly
  double waiting_prompt_ = 0;
  double reserved_ = 0;
  std::uint64_t steps_ = 0;  // done

  // The stretch under way.
  std::uint64_t steps_ahead_ = 0;
  std::vector<Piece> pieces_;
  Nanos begun_ = 0;
  double step_s_ = 0;    // of its first step
  double growth_s_ = 0;  // of each step over the one before
  double compute_share_ = 0;

  Nanos busy_from_ = 0;
  double busy_ = 0;
  double compute_ = 0;
  std::uint64_t request_steps_ = 0;
};

}  // namespace gearbox::replay
