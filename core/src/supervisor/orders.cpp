#include "supervisor/orders.hpp"

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "gearbox/base/text.hpp"

namespace gearbox::supervisor {

namespace json = boost::json;

namespace {

constexpr milliseconds kLongestGrace{600000};
constexpr milliseconds kLongestDrain{std::chrono::hours(24)};

std::string text(const json::object& request, std::string_view key) {
  const json::value* value = request.if_contains(key);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : std::string();
}

/// A list of words; nothing when it is something else, or a word could not be an argument.
std::optional<std::vector<std::string>> words(const json::object& request, std::string_view key) {
  std::vector<std::string> out;
  const json::value* value = request.if_contains(key);
  if (value == nullptr) return out;
  if (!value->is_array()) return std::nullopt;
  for (const json::value& word : value->get_array()) {
    if (!word.is_string() || word.get_string().find('\0') != json::string::npos) return std::nullopt;
    out.emplace_back(word.get_string());
  }
  return out;
}

std::int64_t number(const json::object& request, std::string_view key) {
  const json::value* value = request.if_contains(key);
  boost::system::error_code bad;
  const auto out = value != nullptr && value->is_number() ? value->to_number<std::int64_t>(bad) : -1;
  return bad ? -1 : out;
}

Outcome<std::uint64_t> read_bytes(const json::object& request) {
  const std::int64_t bytes = number(request, "memory_limit_bytes");
  if (bytes < 0) return Error{Errc::bad_input, "memory_limit_bytes is a number of bytes; 0 for no limit"};
  return static_cast<std::uint64_t>(bytes);
}

}  // namespace

Outcome<LaunchOrder> read_launch(const json::object& request) {
  LaunchOrder out;
  out.role = text(request, "role");
  if (!is_name(out.role) || !is_worker(out.role)) {
    return Error{Errc::bad_name, "role '" + escaped(out.role, 64) + "': only workers (worker-N) are started on demand"};
  }
  auto argv = words(request, "argv");
  auto env = words(request, "env");
  if (!argv || argv->empty() || !argv->front().starts_with('/') || !env) {
    return Error{Errc::bad_input, "launch needs argv (its first word an absolute path) and env as lists of words"};
  }
  out.argv = std::move(*argv);
  out.env = std::move(*env);
  out.order = text(request, "order");
  if (request.contains("memory_limit_bytes")) {
    BOOST_OUTCOME_TRY(out.memory_limit, read_bytes(request));
  }
  return out;
}

Outcome<int> read_after(const json::object& request) {
  if (!request.contains("after")) return 0;
  const std::int64_t after = number(request, "after");
  if (after < 0 || after > INT32_MAX) return Error{Errc::bad_input, "workers: 'after' is a pid"};
  return static_cast<int>(after);
}

Outcome<int> read_pid(const json::object& request) {
  const std::int64_t pid = number(request, "pid");
  if (pid <= 1 || pid > INT32_MAX) return Error{Errc::bad_input, "which process is meant? 'pid' is missing"};
  return static_cast<int>(pid);
}

Outcome<LimitOrder> read_limit(const json::object& request) {
  LimitOrder out;
  BOOST_OUTCOME_TRY(out.pid, read_pid(request));
  BOOST_OUTCOME_TRY(out.memory_limit, read_bytes(request));
  return out;
}

Outcome<StopOrder> read_stop(const json::object& request) {
  const std::int64_t pid = number(request, "pid");
  const std::int64_t grace = number(request, "grace_ms");
  if (pid <= 1 || pid > INT32_MAX || grace < 0) return Error{Errc::bad_input, "stop needs pid and grace_ms"};
  return StopOrder{static_cast<int>(pid), std::min(milliseconds(grace), kLongestGrace)};
}

Outcome<milliseconds> read_drain(const json::object& request) {
  const std::int64_t within = number(request, "within_ms");
  if (within < 0 || within > kLongestDrain.count()) {
    return Error{Errc::bad_input, "drain needs within_ms, a day at most"};
  }
  return milliseconds(within);
}

Outcome<UnfinishedOrder> read_unfinished(const json::object& request) {
  const std::int64_t failed = number(request, "failed");
  const std::int64_t kept = number(request, "kept");
  if (failed < 0 || kept < 0) return Error{Errc::bad_input, "unfinished needs failed and kept"};
  return UnfinishedOrder{static_cast<std::uint64_t>(failed), static_cast<std::uint64_t>(kept)};
}

}  // namespace gearbox::supervisor
