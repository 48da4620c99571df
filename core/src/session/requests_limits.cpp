// requests_limits.cpp: what a node refuses because there is too much of it already, and when it is worth to ask again.
#include <algorithm>

#include "config/pools.hpp"
#include "session/requests.hpp"

namespace gearbox::session {

namespace {
constexpr std::uint32_t kNodeStartsAgainMs = 2'000;  // or another one is there
constexpr std::uint32_t kConnectionFreeMs = 500;     // of one device, when it has too many
constexpr std::uint32_t kPasswordsAgainMs = 5'000;
}  // namespace

std::uint32_t retry_after_ms(const Error& error) {
  switch (error.code) {
    case Errc::overloaded:
      return kConnectionFreeMs;
    case Errc::no_space:
      return static_cast<std::uint32_t>(Drain::kUnknownWait.count());
    case Errc::rate_limited:
      return kPasswordsAgainMs;
    case Errc::shutting_down:
      return kNodeStartsAgainMs;
    default:
      return 0;
  }
}

Outcome<void> Requests::check_limits(const Identity& identity, const config::LimitsConfig& limits, std::uint64_t bytes,
                                     milliseconds& wait) const {
  const Instant now = Clock::now();
  const wire::Ticket& ticket = identity.ticket;
  if (open_ >= limits.max_requests) {
    wait = tenants_.drain().until(1, 0, now);
    return Error{Errc::overloaded, std::to_string(open_) + " requests are open at node " + service_.node};
  }
  const auto own = devices_.find(identity.ticket.device);
  if (own != devices_.end() && own->second.open >= limits.max_requests_per_device) {
    wait = tenants_.drain(ticket.tenant).until(1, 0, now);
    return Error{Errc::overloaded, "this device has " + std::to_string(own->second.open) + " open requests, its limit"};
  }
  const Tenants::Limits of_tenant{.requests = tighter(limits.max_requests_per_tenant, ticket.max_requests),
                                  .bytes = tighter(limits.max_tenant_bytes, ticket.max_held_bytes)};
  return tenants_.check(ticket.tenant, bytes, of_tenant, now, wait);
}

/// The calls that the request would begin with: when their queue is full it is told so before it has uploaded anything.
Outcome<void> Requests::check_queues(const config::Config& config, const config::TaskConfig& task,
                                     std::string_view pool, milliseconds& wait) const {
  for (const config::StepConfig& step : task.steps) {
    const bool first = std::all_of(step.inputs.begin(), step.inputs.end(),
                                   [](const auto& input) { return input.second.step == "request"; });
    if (!first) continue;
    const auto record = service_.dispatcher->resolve(config, step.model, step.version).record;
    if (!record || !service_.dispatcher->is_full(*record, pool)) continue;
    wait = backlog_of(config, task, pool);
    return Error{Errc::overloaded, "the queue of model " + step.model + " is full"};
  }
  return done();
}

/// What waits for the slowest of the task's models, in time of its workers.
milliseconds Requests::backlog_of(const config::Config& config, const config::TaskConfig& task,
                                  std::string_view pool) const {
  microseconds longest{0};
  for (const config::StepConfig& step : task.steps) {
    const auto record = service_.dispatcher->resolve(config, step.model, step.version).record;
    if (!record) continue;
    longest = std::max(longest, service_.dispatcher->backlog(*record, pool).value_or(microseconds{0}));
  }
  return longest.count() > 0 ? told_wait(longest) : Drain::kUnknownWait;
}

std::string Requests::pool_of(const config::Config& config, const Identity& identity, std::uint64_t bytes) {
  const config::PoolConfig* const pool = config::pool_for(config.gears, identity.ticket.tenant, bytes);
  return pool == nullptr ? std::string() : pool->name;
}

/// Of a request that fails now, before it is settled.
std::uint32_t Requests::retry_after(const Request& request, const Error& error) const {
  if (error.code == Errc::overloaded && request.run && request.run->again().count() > 0) {
    return static_cast<std::uint32_t>(request.run->again().count());  // the model's own word
  }
  if (error.code == Errc::overloaded && request.task != nullptr) {
    const std::string pool = pool_of(*request.config, request.identity, request.ingest.plain_bytes());
    return static_cast<std::uint32_t>(backlog_of(*request.config, *request.task, pool).count());
  }
  return retry_after_ms(error);
}

}  // namespace gearbox::session
