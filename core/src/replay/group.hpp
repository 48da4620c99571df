// group.hpp: one group of cards in one gear: its replicas, what waits for them, and its shifts.
#pragma once

#include <array>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "gearbox/gears/six_gears.hpp"
#include "observer/arrivals.hpp"
#include "observer/samples.hpp"
#include "replay/cluster.hpp"
#include "replay/model.hpp"
#include "replay/replica.hpp"
#include "replay/result.hpp"

namespace gearbox::replay {

struct GroupSetting {
  std::string name;
  std::uint32_t node = 0;
  std::uint32_t pool = 0;
  const gears::Card* card = nullptr;  // outlives the group
  std::uint32_t cards = 1;
  std::uint8_t gear = 1;
  const Model* model = nullptr;  // outlives the group
  double memory_share = 0.92;
  double full_speed = 0;  // so many replicas run at full speed, more share it evenly; 0: any number
  double token_s = 0, position_s = 0, mixed_s = 0;  // see Cluster
  bool pads = false;
  bool one_by_one = false;
};

/// Threads: one at a time.
class Group {
 public:
  enum class Phase : std::uint8_t {
    serving,
    draining,   // nothing joins; what runs ends
    gathering,  // each replica ends its step
    paused,
    down
  };

  Group(const GroupSetting& setting, std::uint32_t index);

  /// The layout of `gear` on its cards; nothing when there is none. One whose replicas hold no cache is none, either.
  std::optional<gears::Layout> layout_of(std::uint8_t gear) const;
  /// Positions of one replica's cache in `gear`.
  double capacity_of(std::uint8_t gear) const;

  /// To the replica with the least before it, or to wait. Begins or cuts its stretch.
  void place(RequestIndex index, Requests& requests, EventQueue& events, Nanos now);
  /// Those that wait, as far as there is room, in their order.
  void fill(Requests& requests, EventQueue& events, Nanos now);
  /// Replica `replica` has come to the end of its stretch.
  void ended(std::uint32_t replica, Requests& requests, EventQueue& events, Nanos now, std::vector<RequestIndex>& done);
  /// Whoever runs ends with the step under way.
  void gather(EventQueue& events, Nanos now);
  bool any_running() const;

  /// All that is there, to be joined or placed again: in flight first, then what waits. `lost`: with it goes the cache.
  std::vector<RequestIndex> clear(Requests& requests, bool lost);
  /// Its replicas anew. Empty before and after.
  void build(std::uint8_t gear);
  /// Of requests whose caches came along: where they fit, else they are recomputed. How many were.
  std::uint32_t rejoin(const std::vector<RequestIndex>& indices, Requests& requests, bool recompute);
  void begin_all(Requests& requests, EventQueue& events, Nanos now);
  void set_link_slowdown(double slowdown, EventQueue& events, Nanos now);

  bool accepts() const { return phase == Phase::serving; }
  std::uint32_t running() const { return running_; }
  double cached() const;
  /// Of the fullest replica, of what its cache holds.
  double pressure() const;
  double largest_room() const { return largest_room_; }
  /// Since the run's beginning.
  std::uint64_t request_steps();
  Replica& replica(std::uint32_t index) { return replicas_[index]; }
  std::vector<Replica>& replicas() { return replicas_; }
  const GroupSetting& setting() const { return setting_; }
  const gears::Layout& layout() const { return layout_; }
  std::uint8_t gear() const { return gear_; }
  double link_slowdown() const { return link_slowdown_; }

  std::deque<RequestIndex> waiting;
  Phase phase = Phase::serving;

  // Of its shifts.
  std::uint8_t target = 0;  // 0: none goes on
  std::uint8_t came_from = 0;
  Nanos decided_at = 0;
  Nanos shifted_at = -1;
  Nanos paused_at = 0;
  Nanos gear_since = 0;
  std::deque<Nanos> last_shifts;  // of the last hour
  ShiftDone shift;
  std::uint32_t shift_version = 0;

  // What an observer sees.
  observer::Samples busy, activity;
  observer::Arrivals arrivals;
  gear_facts::EngineLoad counters;
  struct Took {
    Nanos at;
    double latency_s;
  };
  std::deque<Took> took;  // of the last 10 s

 private:
  static constexpr std::uint32_t kReplicaBits = 6;
  friend std::uint32_t group_of_event(std::uint32_t who);
  friend std::uint32_t replica_of_event(std::uint32_t who);

  /// The replica that it joined.
  std::optional<std::uint32_t> join_best(RequestIndex index, const Requests& requests);
  void begin_or_cut(std::uint32_t replica, const Requests& requests, EventQueue& events, Nanos now);
  std::uint32_t running_replicas() const;
  /// So many replicas run from now on: where they share cores, the next step of each has another price.
  void crowd(std::uint32_t running, EventQueue& events, Nanos now);

  GroupSetting setting_;
  std::uint32_t index_;
  gears::Layout layout_;
  std::uint8_t gear_ = 0;
  double link_slowdown_ = 1;
  double crowding_ = 1;
  std::vector<Replica> replicas_;
  std::uint32_t running_ = 0;
  std::uint64_t request_steps_ = 0;
  std::uint32_t next_version_ = 0;
  double largest_room_ = 0;  // that any request here has reserved since the group was last empty
};

/// Event::who of a stretch.
std::uint32_t group_of_event(std::uint32_t who);
std::uint32_t replica_of_event(std::uint32_t who);

}  // namespace gearbox::replay
