#include "scheduler/central_lease.hpp"

#include <spdlog/spdlog.h>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <chrono>
#include <filesystem>
#include <utility>

#include "gear_facts/ask.hpp"
#include "gearbox/base/text.hpp"
#include "link/json_reader.hpp"

namespace gearbox::scheduler {

namespace asio = boost::asio;
namespace json = boost::json;

namespace {

constexpr milliseconds kAnswer{1'000};
constexpr milliseconds kRelease{500};
constexpr milliseconds kLook{30};  // between two looks whether the node has the answer

Outcome<LeaseAnswer> read_answer(const json::object& object) {
  LeaseAnswer answer;
  std::int64_t left = 0;
  link::ObjectReader reader(object);
  reader.read("granted", answer.granted);
  reader.read("term", answer.term);
  reader.read("holder", answer.holder, kMaxNameBytes);
  reader.read("left_ms", left);
  BOOST_OUTCOME_TRY(reader.result());
  answer.left = milliseconds(left);
  return answer;
}

/// Central is not on this host, or only stands by here.
bool is_elsewhere(const Error& error) {
  return error.code == Errc::unreachable || error.code == Errc::not_found || error.code == Errc::closed;
}

}  // namespace

asio::awaitable<gear_facts::Answer> CentralLease::ask_somebody(json::object command, milliseconds within) {
  json::object again = command;
  gear_facts::Answer here =
      co_await gear_facts::ask_role(executor_, state_.central_socket(), std::move(command), within);
  if (here || !is_elsewhere(here.error())) co_return std::move(here);
  gear_facts::Answer there = co_await ask_node(std::move(again), within);
  // Of a host without a node it is central that is missed.
  const bool nobody =
      !there && there.error().code == Errc::unreachable && !std::filesystem::exists(state_.node_socket());
  co_return nobody ? std::move(here) : std::move(there);
}

/// The node asks central with its next report, which it does not wait for: it is asked again whether it has the answer.
asio::awaitable<gear_facts::Answer> CentralLease::ask_node(json::object command, milliseconds within) {
  const Instant deadline = after(Clock::now(), within);
  command["number"] = ++question_;
  asio::steady_timer pause(executor_);
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) co_return Error{Errc::timeout, "central, by way of the node: no answer in time"};
    json::object question = command;
    gear_facts::Answer answer =
        co_await gear_facts::ask_role(executor_, state_.node_socket(), std::move(question), left);
    if (!answer || !answer.value().contains("pending")) co_return std::move(answer);
    pause.expires_after(kLook);
    boost::system::error_code never;
    co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, never));
  }
}

asio::awaitable<Outcome<LeaseAnswer>> CentralLease::ask(std::string holder, milliseconds ttl,
                                                        std::optional<std::uint64_t> term, std::uint64_t above) {
  json::object command{{"command", "lease"}, {"name", name_}, {"holder", holder}, {"ttl_ms", ttl.count()}};
  if (term) command["term"] = *term;
  if (above > 0) command["above"] = above;
  const gear_facts::Answer answer = co_await ask_somebody(std::move(command), kAnswer);
  if (!answer) co_return answer.error();
  co_return read_answer(answer.value());
}

asio::awaitable<void> CentralLease::release(std::string holder, std::uint64_t term) {
  json::object command{{"command", "lease"}, {"name", name_}, {"holder", holder}, {"term", term}, {"release", true}};
  const gear_facts::Answer answer = co_await ask_somebody(std::move(command), kRelease);
  // It ends by itself a moment later.
  if (!answer) spdlog::debug("event=lease_not_released reason=\"{}\"", escaped(describe(answer.error())));
}

}  // namespace gearbox::scheduler
