#include "executor/executor.hpp"

#include <spdlog/spdlog.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json/array.hpp>

#include <utility>

#include "executor/moment.hpp"
#include "gear_facts/places.hpp"
#include "gearbox/base/text.hpp"

namespace gearbox::executor {

namespace asio = boost::asio;
namespace json = boost::json;
using gear_facts::Answer;
using gear_facts::EngineStatus;

namespace {

constexpr std::size_t kMaxReport = 32;  // members of it that are kept: an engine's report is small

/// What is plain of an engine's report: it goes into a file and into frames.
json::object kept_of(const json::object& report) {
  json::object kept;
  for (const auto& [key, value] : report) {
    if (kept.size() == kMaxReport) break;
    if (key.size() > kMaxNameBytes || key == "ok" || key == "id" || key == "why") continue;
    if (value.is_number() || value.is_bool()) kept[key] = value;
  }
  return kept;
}

}  // namespace

Executor::Executor(asio::io_context& io, config::StateDir state, Ledger ledger, const Limits& limits)
    : io_(io), state_(std::move(state)), ledger_(std::move(ledger)), limits_(limits) {}

void Executor::begin() {
  for (const auto& [group, kept] : ledger_.groups()) {
    if (!kept.pending) continue;
    spdlog::info("event=shift_taken_over group={} number={} gear={}", group, kept.pending->number, kept.pending->to);
    running_[group] = Running{kept.pending->number, "asking what became of it"};
    asio::co_spawn(io_, recover(this, group, *kept.pending), asio::detached);
  }
}

bool Executor::is_there(const std::string& group) const {
  std::error_code unknown;
  return std::filesystem::exists(gear_facts::group_socket(state_, group), unknown);
}

asio::awaitable<Answer> Executor::ask(std::string group, json::object question, milliseconds within) {
  std::filesystem::path socket = gear_facts::group_socket(state_, group);
  co_return co_await gear_facts::ask_engine(io_.get_executor(), std::move(socket), std::move(question), within);
}

asio::awaitable<Outcome<EngineStatus>> Executor::status_of(std::string group) {
  json::object question{{"op", "status"}};
  const Answer answer = co_await ask(std::move(group), std::move(question), limits_.status);
  if (!answer) co_return answer.error();
  Outcome<EngineStatus> status = gear_facts::read_status(answer.value());
  if (status && !status.value().ok) co_return Error{Errc::model_unavailable, status.value().why};
  co_return std::move(status);
}

/// From the order to its end: price, record, shift, record.
asio::awaitable<void> Executor::run(Executor* self, std::string group, Pending order) {
  const Outcome<EngineStatus> before = co_await self->status_of(group);
  if (!before) {
    self->finish(group, order, "its engine: " + describe(before.error()), {}, false);
    co_return;
  }
  order.from = before.value().gear;
  order.epoch = before.value().epoch;
  if (order.from == order.to) {
    self->finish(group, order, "it is in gear " + std::to_string(order.to) + " already", {}, false);
    co_return;
  }
  json::object price{{"op", "price"}, {"gear", order.to}};
  const Answer priced = co_await self->ask(group, std::move(price), self->limits_.price);
  const gear_facts::EngineWord fits = priced ? gear_facts::word_of(priced.value()) : gear_facts::EngineWord{};
  if (!priced || !fits.ok) {
    const std::string why = priced ? fits.why : describe(priced.error());
    self->finish(group, order, "the price: " + why, {}, false);
    co_return;
  }
  // Meanwhile another leader may have been heard of.
  if (order.origin != "person" && order.term < self->ledger_.term()) {
    self->finish(group, order, "its term " + std::to_string(order.term) + " is over", {}, false);
    co_return;
  }
  // Before the engine hears of it: whoever comes after us must know what to ask it.
  const Kept* known = self->ledger_.find(group);
  Kept kept = known == nullptr ? Kept{} : *known;
  kept.pending = order;
  const Outcome<void> written = self->ledger_.keep(group, std::move(kept));
  if (!written) {
    self->last_error_ = describe(written.error());
    self->finish(group, order, "nothing is shifted that cannot be written down: " + self->last_error_, {}, false);
    co_return;
  }
  self->running_[group].step = "shifting";
  json::object shift{{"op", "shift"}, {"gear", order.to}, {"term", order.term}};
  const Answer shifted = co_await self->ask(group, std::move(shift), self->limits_.shift);
  if (!shifted) {
    // The engine may have died, or only its answer: it is asked itself.
    self->running_[group].step = "asking what became of it";
    co_await recover(self, group, order);
    co_return;
  }
  const gear_facts::EngineWord word = gear_facts::word_of(shifted.value());
  self->finish(group, order, word.ok ? std::string() : word.why, kept_of(shifted.value()), false);
}

/// What became of a shift of which nobody told the end: the engine knows.
asio::awaitable<void> Executor::recover(Executor* self, std::string group, Pending order) {
  const Instant deadline = after(Clock::now(), self->limits_.recover);
  asio::steady_timer pause(self->io_);
  std::string last = "its engine never answered again";
  while (Clock::now() < deadline) {
    const Outcome<EngineStatus> status = co_await self->status_of(group);
    if (status && status.value().shift.empty() && status.value().phase == "running") {
      const bool there = status.value().gear == order.to && status.value().epoch > order.epoch;
      json::object report = co_await self->report_of(group, order);
      self->finish(group, order, there ? std::string() : "its engine is in the gear before: it fell back",
                   std::move(report), true);
      co_return;
    }
    if (!status) last = "its engine: " + describe(status.error());
    if (!status && status.error().code == Errc::unreachable && !self->is_there(group)) break;  // the group is gone
    pause.expires_after(self->limits_.look);
    boost::system::error_code never;
    co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, never));
  }
  self->finish(group, order, last, {}, true);
}

asio::awaitable<json::object> Executor::report_of(std::string group, Pending order) {
  json::object question{{"op", "history"}};
  const Answer answer = co_await ask(std::move(group), std::move(question), limits_.status);
  json::object report;
  const json::value* list = answer ? answer.value().if_contains("history") : nullptr;
  if (list == nullptr || !list->is_array()) co_return report;
  for (const json::value& each : list->get_array()) {
    if (!each.is_object()) continue;
    const json::value* epoch = each.get_object().if_contains("epoch");
    boost::system::error_code bad;
    const auto number = epoch != nullptr && epoch->is_number() ? epoch->to_number<std::uint64_t>(bad) : 0;
    if (!bad && number > order.epoch) report = kept_of(each.get_object());
  }
  co_return report;
}

void Executor::finish(const std::string& group, const Pending& order, std::string why, json::object report,
                      bool recovered) {
  running_.erase(group);
  Entry entry;
  entry.order = order;
  entry.group = group;
  entry.ok = why.empty();
  entry.why = escaped(why, 400);
  entry.recovered = recovered;
  entry.report = std::move(report);
  const Moment now = this_moment();
  entry.ended_unix_ms = now.unix_ms;
  spdlog::info("event=shift group={} number={} from={} to={} term={} origin={} ok={} recovered={} why=\"{}\"", group,
               order.number, order.from, order.to, order.term, order.origin, entry.ok, recovered, entry.why);
  const Outcome<void> written = ledger_.over(std::move(entry), now);
  last_error_ = written ? std::string() : describe(written.error());
  if (!written) spdlog::error("event=record_not_written role=executor reason=\"{}\"", escaped(last_error_));
}

Outcome<std::function<void()>> Executor::prepare(const live::Update&) {
  return std::function<void()>([] {});  // nothing of the configuration is the executor's
}

}  // namespace gearbox::executor
