// Suspects: calls that ran in a worker when it died. One of them may be what kills workers, so they run among their
// like until that is known: of a model that streams, which may have had very many at once, the square root of them
// together (they would take too long one by one), else each alone. Who was alone when a second worker died is not tried
// again.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

#include "dispatch/dispatcher.hpp"

namespace gearbox::dispatch {

namespace {
constexpr std::uint32_t kDeathsToQuarantine = 2;
constexpr std::size_t kMostLost = 64;  // workers lost lately of which is still known how many calls they had
}  // namespace

/// How many calls that worker had when it was lost. To be asked first while the one that is answered counts as running;
/// the other ones are told the same afterwards.
std::uint32_t Dispatcher::lost_with(WorkerId worker) {
  const auto known = lost_with_.find(worker);
  if (known != lost_with_.end()) return known->second;
  const auto had = std::count_if(jobs_.begin(), jobs_.end(),
                                 [&](const auto& job) { return job.second.running && job.second.worker == worker; });
  if (lost_with_.size() == kMostLost) lost_with_.erase(lost_with_.begin());  // ids rise: the oldest
  lost_with_.emplace(worker, static_cast<std::uint32_t>(had));
  return static_cast<std::uint32_t>(had);
}

/// It ran in a worker that died, with so many together. Is it enough to say that it is what kills them?
bool Dispatcher::is_deadly(Waiting& waiting, bool streams, std::uint32_t lost_together) {
  ++waiting.deaths;
  waiting.together = 1;
  if (waiting.deaths == 1 && streams) {
    waiting.together = static_cast<std::uint32_t>(std::ceil(std::sqrt(std::max(1U, lost_together))));
  }
  return waiting.deaths >= kDeathsToQuarantine && (lost_together <= 1 || !streams);
}

/// Of a worker that runs suspects: may this one be beside them?
bool Dispatcher::joins(const Waiting& waiting, WorkerId worker) const {
  const std::vector<JobId>& there = suspects_.at(worker);
  std::uint32_t together = waiting.deaths > 0 ? waiting.together : 0;
  for (const JobId id : there) {
    const auto job = jobs_.find(id);
    if (job != jobs_.end()) together = std::min(together, job->second.together);
  }
  return there.size() < together;
}

void Dispatcher::no_suspect(JobId id) {
  for (auto at = suspects_.begin(); at != suspects_.end();) {
    std::erase(at->second, id);
    at = at->second.empty() ? suspects_.erase(at) : std::next(at);
  }
}

}  // namespace gearbox::dispatch
