// trace.hpp: what a node remembers of one request: when it was where, which workers there were at each pick and which
// one was chosen, by whom, what became of it. Numbers and shared pointers only; texts are made when somebody asks
// (json.hpp). One strand. Every list has a bound.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gearbox/base/clock.hpp"
#include "gearbox/base/ids.hpp"
#include "gearbox/base/outcome.hpp"

namespace gearbox::explain {

inline constexpr std::size_t kFirstCalls = 2;          // of a step, kept whatever they did
inline constexpr std::size_t kSlowestCalls = 3;        // kept beside them
inline constexpr std::size_t kOpenCalls = 3;           // that waited or ran when it ended, or do now
inline constexpr std::size_t kPicks = 4;               // of a call: the first ones, and the last
inline constexpr std::size_t kWorkers = 8;             // of a pick, of each kind: candidates, busy ones, others
inline constexpr std::size_t kReasonBytes = 160;       // of an error's text
inline constexpr std::size_t kTraceBytes = 24 * 1024;  // beyond that only the first call of each step is kept

/// Which build of a balancer plugin chose. One object for all its picks.
struct Chooser {
  std::string name, version, checksum;
};
using ChooserPtr = std::shared_ptr<const Chooser>;

/// Why a worker was, or was not, among the candidates of a pick.
enum class Standing : std::uint8_t {
  candidate,
  full,         // it holds as many calls as it may
  alone,        // it runs a call that a worker died of, alone
  not_idle,     // such a call waits for an idle worker
  refused,      // chosen, but it could not take the call: full or lost just then
  not_ready,    // starting, loading, probing
  suspect,      // does not answer in time
  draining,     // not wanted any more, ends
  failed,       // given up for now
  gone,         // its process has ended
  other_model,  // runs another version of the model, or other content under the same version
  kept          // keeps its places for requests of another pool
};
std::string_view name_of(Standing standing);

/// One worker, as it was seen at a pick.
struct Seen {
  WorkerId worker{};
  std::uint32_t slot = 0;
  int pid = 0;
  std::uint32_t queued = 0, running = 0, capacity = 0;  // as the balancer was told
  std::uint32_t p95_us = 0;
  Standing standing = Standing::candidate;
};

/// Workers that could not be candidates, whatever they had to do. Made once for each change of the workers.
struct Others {
  struct Worker {
    Seen seen;
    std::string version;  // of other_model
  };
  std::vector<Worker> workers;  // at most kWorkers
  std::uint32_t left_out = 0;
};
using OthersPtr = std::shared_ptr<const Others>;

/// One look for a worker, by which a call got one, or found none.
struct Pick {
  Instant at{};
  std::uint32_t attempt = 0;       // hand-overs before this one
  std::optional<WorkerId> chosen;  // none: it waited on; only the first such look in a row is kept
  ChooserPtr chooser;              // null: nobody was asked
  bool stood_in = false;           // the plugin failed or named nobody: the least busy candidate was taken
  bool at_limit = false;           // the plugin said that each is at its queue limit
  std::vector<Seen> seen;          // at most 2 * kWorkers; sorted by id
  std::uint32_t left_out = 0;      // further ones
  OthersPtr others;                // never null in a pick that is kept
  Instant ended{};                 // {}: not yet
  Errc error{};                    // what the worker, or its loss, answered; {}: none
  bool begun = true;               // of worker_lost: the worker had taken the call from its ring
  std::string reason;              // of the error
};

/// One call of a step.
struct Call {
  std::uint32_t item = 0;  // of a for_each
  Instant submitted{}, ended{};
  std::vector<Pick> picks;
  std::uint32_t picks_left_out = 0;
  std::uint32_t attempts = 0;       // hand-overs
  std::chrono::nanoseconds run{0};  // inside the model
  std::uint32_t batch = 1;          // calls that the model got together
  Errc error{};                     // {}: none
  std::string version;              // when it is another than the step's
  std::uint32_t parts = 0;          // of a streamed answer, handed on
  std::uint32_t input_tokens = 0;   // of its prompt, as the model told them; 0: it did not
  Instant first_part{};             // {}: none

  /// Keeps `pick` within the bound; returns the one to be filled in.
  Pick& add(Pick pick);
  /// This call is `earlier` made again: the two become one, with all picks and hand-overs.
  void follow(Call earlier);
  /// In the queue of the node, until the last pick; in the worker's ring after that.
  microseconds waited_at_node(Instant now) const;
  microseconds waited_in_worker() const;
  /// Of a call that a worker has and has not answered: for how long. Zero of any other.
  microseconds been_there(Instant now) const;
  std::size_t bytes() const;
};

/// Why a step did not use the newest version that the request's configuration has.
enum class VersionNote : std::uint8_t {
  newest,
  exact,      // the task names it
  range,      // the newest of those that the task's range admits
  coming,     // the newest has no ready worker yet
  none,       // nobody serves the newest
  stands_in,  // of another configuration, with the same inputs and outputs
  content     // the same version with other content: its folder was edited
};
std::string_view name_of(VersionNote note);

struct Step {
  std::string name, model, asked;  // asked: exact, "latest", or a range
  std::string version, newest;     // what it resolved to; the newest of the request's configuration, when another
  VersionNote note = VersionNote::newest;
  Instant started{}, ended{};  // {}: not yet
  bool scattered = false;      // a for_each
  std::uint32_t calls = 0, answered = 0, failed = 0, retried = 0;
  std::uint32_t open = 0;  // waited or ran when the request ended
  Instant open_since{};    // the earliest of those that a worker had: when it got it; {}: none
  microseconds longest_queue{0}, longest_run{0}, sum_run{0};
  std::vector<Call> first, slowest, still_open;

  /// Counts the call; keeps it if it is one of the first or the slowest. `kept_bytes`: of the whole trace.
  void add(Call call, std::size_t& kept_bytes);
  void add_open(Call call, std::size_t& kept_bytes);
};

struct Trace {
  RequestKey key;
  std::string task, user;
  std::string pool;  // that it belongs to; empty: none
  std::uint32_t tenant = 0;
  std::uint8_t priority = 0;
  std::uint64_t placement = 0;                // central's number of the decision that sent the device here; 0: none did
  std::shared_ptr<const std::string> config;  // digest of what was in force when it was announced
  std::int64_t announced_unix_ms = 0;         // for people
  Instant arrived{}, admitted{}, verified{}, ready{}, sent{}, acknowledged{};  // {}: not yet, or never
  std::uint64_t wire_bytes = 0, plain_bytes = 0, result_bytes = 0;
  std::vector<Step> steps;
  bool over = false;
  Errc error{};                   // {}: none
  std::string reason;             // of a failure
  std::size_t kept_bytes = 0;     // of the calls in its steps
  std::size_t counted_bytes = 0;  // by the book, once it is over
  bool remembered = false;        // in the book

  /// About what it takes in memory.
  std::size_t bytes() const;
};
using TracePtr = std::shared_ptr<Trace>;

/// At most kReasonBytes of it.
std::string shortened(std::string_view reason);

}  // namespace gearbox::explain
