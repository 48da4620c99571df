// group_watch.hpp: one group over time: from what its engine answers to figures.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "gear_facts/engine_status.hpp"
#include "gear_facts/facts.hpp"
#include "gearbox/base/clock.hpp"
#include "observer/arrivals.hpp"
#include "observer/process_figures.hpp"
#include "observer/samples.hpp"

namespace gearbox::observer {

using LookAtProcess = std::function<std::optional<ProcessFigures>(std::int64_t pid)>;

/// Threads: one at a time. The clock is passed in.
class GroupWatch {
 public:
  explicit GroupWatch(std::string name) : name_(std::move(name)) {}

  /// Its engine has answered.
  void heard(const gear_facts::EngineStatus& status, const LookAtProcess& look, Instant now);
  /// It did not, or not so that it could be read: what was known before is stale from now on.
  void not_heard(std::string problem);

  /// `stale_after`: figures that are older are stale, too.
  gear_facts::GroupFacts facts(Instant now, milliseconds stale_after) const;
  /// Process of its driver, a worker of the node; 0: not told yet.
  std::int64_t driver() const { return driver_; }

 private:
  struct Seen {
    ProcessFigures figures;
    Instant at;
  };
  void look_at(gear_facts::RankFacts& rank, const LookAtProcess& look, Instant now);

  std::string name_;
  std::int64_t driver_ = 0;
  std::optional<Instant> heard_at_;
  std::string problem_ = "its engine has not been asked yet";
  gear_facts::GroupFacts facts_;
  Samples busy_;
  Arrivals arrivals_;
  std::map<std::int64_t, Seen> seen_;  // by pid
};

/// "story-2" → "story": what serves the same model is named alike, where the engine does not tell.
std::string model_of_name(const std::string& group);

}  // namespace gearbox::observer
