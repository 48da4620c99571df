// orders.hpp: what may be asked over the supervisor's socket, read and checked.
//
//   {"command":"launch","role":"worker-3","argv":["/path/worker_shim",..],"env":["A=b"],"order":"ID"}  → {"pid":N}
//     with "memory_limit_bytes":N, too
//   {"command":"stop","pid":N,"grace_ms":M}                                                            → {"pid":N}
//   {"command":"limit","pid":N,"memory_limit_bytes":M}                                                 → {"pid":N}
//   {"command":"ended","pid":N}        → {"running":true} or {"how":"exit code 3","outgrown":false}; how "": not known
//   {"command":"workers","after":PID}  → {"workers":[{"role":"worker-3","pid":N,"argv":[..]},..],"more":true}
//   {"command":"drain","within_ms":N}  → {"pid":P,"within_ms":N}: stops everything, whatever is open has so long to end
//   {"command":"unfinished","failed":N,"kept":M}  → {}: the node, at its end
//   {"command":"list"}, {"command":"status"}
#pragma once

#include <boost/json/object.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gearbox/base/clock.hpp"
#include "gearbox/base/outcome.hpp"

namespace gearbox::supervisor {

struct LaunchOrder {
  std::string role;               // "worker-3"
  std::vector<std::string> argv;  // not empty; the first is an absolute path
  std::vector<std::string> env;
  std::string order;               // unique to this order, the same when it is asked again; may be empty
  std::uint64_t memory_limit = 0;  // bytes; 0: none
};

struct StopOrder {
  int pid = 0;
  milliseconds grace{0};  // at most ten minutes
};

struct LimitOrder {
  int pid = 0;
  std::uint64_t memory_limit = 0;  // bytes; 0: none
};

struct UnfinishedOrder {
  std::uint64_t failed = 0, kept = 0;  // requests
};

/// Central, or the second one that stands by; which of them serves depends on who ended last.
inline bool is_central(std::string_view role) {
  return role == "central" || role == "standby";
}

/// Those that look after groups: nothing that devices wait for needs them.
inline bool is_gear_role(std::string_view role) {
  return role == "scheduler" || role == "executor" || role == "observer";
}

inline bool is_worker(std::string_view role) {
  return role.starts_with("worker-");
}

/// Errors: bad_name for a role that is no worker's; bad_input.
Outcome<LaunchOrder> read_launch(const boost::json::object& request);
/// The number under which "workers" is to begin: pids above it. Errors: bad_input.
Outcome<int> read_after(const boost::json::object& request);
/// Errors: bad_input.
Outcome<int> read_pid(const boost::json::object& request);
/// Errors: bad_input.
Outcome<LimitOrder> read_limit(const boost::json::object& request);
/// Errors: bad_input.
Outcome<StopOrder> read_stop(const boost::json::object& request);
/// At most a day. Errors: bad_input.
Outcome<milliseconds> read_drain(const boost::json::object& request);
/// Errors: bad_input.
Outcome<UnfinishedOrder> read_unfinished(const boost::json::object& request);

}  // namespace gearbox::supervisor
