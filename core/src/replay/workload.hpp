// workload.hpp: where a run's requests come from: a trace, or a generator.
//
// A source says when its next request comes, given what has ended so far: so that a fixed number of users who wait for
// their answers can be one, too. Same seed, same requests.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gearbox/base/outcome.hpp"
#include "replay/trace.hpp"

namespace gearbox::replay {

class Source {
 public:
  virtual ~Source() = default;
  /// When the next request comes, not before `now`; kNever: none does, unless something ends.
  virtual Nanos next_at(Nanos now) = 0;
  /// That request. Only after next_at() gave a time.
  virtual Arrival take() = 0;
  /// A request has ended.
  virtual void ended(Nanos) {}
  /// When its last request comes at the latest; for plots.
  virtual double span_s() const = 0;
};

/// `speed`: times come so many times faster. `seed` 0: the trace as it is; else what each request asks for is dealt out
/// anew among those of the same minute, so that times, load and mix stay. `copies`: so many requests for each, the
/// others within 5 s behind it and each as large as some of the same minute: more load at the same pace.
std::unique_ptr<Source> source_of(const Trace& trace, double speed, std::uint64_t seed, std::uint32_t copies = 1);

/// Requests of the trace, all at once: what a cluster can do at most.
std::unique_ptr<Source> backlog_of(const std::vector<Arrival>& arrivals);

/// What a generator makes.
struct Workload {
  std::string kind;         // "reference", "steady", "day", "bursts", "night", "cameras"
  double rate = 0;          // requests a second at the peak
  double load = 0;          // the same as a share of what the cluster can carry; one of the two
  double concurrent = 120;  // of "reference": users at the peak, who ask again when they have their answer
  double duration_s = 3600;
  double period_s = 0;  // of the daily swing; 0: as long as the run
  double low = 0.15;    // rate at the lowest point ÷ peak
};

/// "make:day,load=0.9,duration=3600". Errors: bad_input.
Outcome<Workload> read_workload(const std::string& text);
std::unique_ptr<Source> source_of(const Workload& workload, std::uint64_t seed);

/// Means of the reference mix.
inline constexpr double kReferencePrompt = 0.6 * 256 + 0.3 * 1024 + 0.1 * 4096;
inline constexpr double kReferenceOutput = 0.6 * 64 + 0.3 * 256 + 0.1 * 512;

}  // namespace gearbox::replay
