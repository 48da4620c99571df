#include "scheduler/central_lease.hpp"

#include <spdlog/spdlog.h>

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

}  // namespace

asio::awaitable<Outcome<LeaseAnswer>> CentralLease::ask(std::string holder, milliseconds ttl,
                                                        std::optional<std::uint64_t> term, std::uint64_t above) {
  json::object command{{"command", "lease"}, {"name", "scheduler"}, {"holder", holder}, {"ttl_ms", ttl.count()}};
  if (term) command["term"] = *term;
  if (above > 0) command["above"] = above;
  const gear_facts::Answer answer = co_await gear_facts::ask_role(executor_, socket_, std::move(command), kAnswer);
  if (!answer) co_return answer.error();
  co_return read_answer(answer.value());
}

asio::awaitable<void> CentralLease::release(std::string holder, std::uint64_t term) {
  json::object command{
      {"command", "lease"}, {"name", "scheduler"}, {"holder", holder}, {"term", term}, {"release", true}};
  const gear_facts::Answer answer = co_await gear_facts::ask_role(executor_, socket_, std::move(command), kRelease);
  // It ends by itself a moment later.
  if (!answer) spdlog::debug("event=lease_not_released reason=\"{}\"", escaped(describe(answer.error())));
}

}  // namespace gearbox::scheduler
