// orders.hpp: what may be asked over the supervisor's socket, read and checked.
//
//   {"command":"launch","role":"worker-3","argv":["/path/worker_shim",..],"env":["A=b"],"order":"ID"}  → {"pid":N}
//   {"command":"stop","pid":N,"grace_ms":M}                                                            → {"pid":N}
//   {"command":"workers","after":PID}  → {"workers":[{"role":"worker-3","pid":N,"argv":[..]},..],"more":true}
//   {"command":"list"}, {"command":"status"}
#pragma once

#include <boost/json/object.hpp>

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
  std::string order;  // unique to this order, the same when it is asked again; may be empty
};

struct StopOrder {
  int pid = 0;
  milliseconds grace{0};  // at most ten minutes
};

inline bool is_worker(std::string_view role) {
  return role.starts_with("worker-");
}

/// Errors: bad_name for a role that is no worker's; bad_input.
Outcome<LaunchOrder> read_launch(const boost::json::object& request);
/// The number under which "workers" is to begin: pids above it. Errors: bad_input.
Outcome<int> read_after(const boost::json::object& request);
/// Errors: bad_input.
Outcome<StopOrder> read_stop(const boost::json::object& request);

}  // namespace gearbox::supervisor
