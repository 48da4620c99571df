#include "supervisor/worker_orders.hpp"

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include <utility>

#include "supervisor/orders.hpp"

namespace gearbox::supervisor {

namespace json = boost::json;

namespace {

constexpr std::size_t kMaxListBytes = 32 * 1024;  // of "workers" in one answer; a command line is shorter than the rest

Outcome<json::object> launch(Children& children, const json::object& request) {
  BOOST_OUTCOME_TRY(LaunchOrder order, read_launch(request));
  const Outcome<int> pid =
      children.start(order.role, std::move(order.argv), std::move(order.env), order.order, order.memory_limit);
  if (pid) return json::object{{"pid", pid.value()}};
  // Not as io_error: the asker would take it for a broken connection and ask again for ever.
  return Error{pid.error().code == Errc::no_space ? Errc::no_space : Errc::bad_input, pid.error().detail};
}

Outcome<json::object> stop_worker(Children& children, const json::object& request) {
  BOOST_OUTCOME_TRY(const StopOrder order, read_stop(request));
  for (const ChildView& child : children.list()) {
    if (child.pid != order.pid) continue;
    if (!is_worker(child.role)) return Error{Errc::not_allowed, child.role + " is not stopped through this socket"};
    children.stop(order.pid, order.grace);
    return json::object{{"pid", order.pid}};
  }
  return Error{Errc::not_found, "no child has pid " + std::to_string(order.pid)};
}

Outcome<json::object> limit_worker(Children& children, const json::object& request) {
  BOOST_OUTCOME_TRY(const LimitOrder order, read_limit(request));
  children.limit(order.pid, order.memory_limit);
  return json::object{{"pid", order.pid}};
}

/// The asker may have seen the end before us: then we look now.
Outcome<json::object> tell_end(Children& children, const json::object& request) {
  BOOST_OUTCOME_TRY(const int pid, read_pid(request));
  children.reap();
  if (children.knows(pid)) return json::object{{"running", true}};
  const Ended* const ended = children.end_of(pid);
  if (ended == nullptr) return Error{Errc::not_found, "no child had pid " + std::to_string(pid)};
  return json::object{{"how", ended->is_known() ? ended->how() : std::string()}, {"outgrown", ended->outgrown != 0}};
}

/// What a new node needs to know its last life's workers by; those that are told to stop left out.
Outcome<json::object> list_workers(Children& children, const json::object& request) {
  BOOST_OUTCOME_TRY(const int after, read_after(request));
  json::array workers;
  std::size_t bytes = 0;
  bool more = false;
  for (const ChildView& child : children.list()) {  // by pid
    if (child.pid <= after || child.stopping || !is_worker(child.role)) continue;
    if (more = bytes > kMaxListBytes; more) break;
    json::array argv;
    for (const std::string& word : child.argv) argv.emplace_back(word);
    json::object each{{"role", child.role}, {"pid", child.pid}, {"argv", std::move(argv)}};
    bytes += json::serialize(each).size();
    workers.push_back(std::move(each));
  }
  return json::object{{"workers", std::move(workers)}, {"more", more}};
}

}  // namespace

std::optional<Outcome<json::object>> answer_about_workers(Children& children, std::string_view command,
                                                          const json::object& request) {
  if (command == "launch") return launch(children, request);
  if (command == "stop") return stop_worker(children, request);
  if (command == "limit") return limit_worker(children, request);
  if (command == "ended") return tell_end(children, request);
  if (command == "workers") return list_workers(children, request);
  return std::nullopt;
}

}  // namespace gearbox::supervisor
