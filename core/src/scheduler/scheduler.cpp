#include "scheduler/scheduler.hpp"

#include <spdlog/spdlog.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json/array.hpp>

#include <ctime>
#include <utility>

#include "gear_facts/engine_status.hpp"
#include "gear_facts/pages.hpp"
#include "gear_facts/places.hpp"
#include "gear_facts/times.hpp"
#include "gearbox/base/text.hpp"
#include "plugin_host/plugins_json.hpp"
#include "scheduler/lease_store.hpp"
#include "scheduler/round.hpp"

namespace gearbox::scheduler {

namespace asio = boost::asio;
namespace json = boost::json;

namespace {

constexpr milliseconds kAnswer{2'000};
constexpr milliseconds kPrice{10'000};

/// Of the day, local time: what people mean by "only at night".
std::uint16_t minute_now() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  return static_cast<std::uint16_t>(local.tm_hour * 60 + local.tm_min);
}

/// Memory is short, and nothing else: a group that is busy says no as well.
bool does_not_fit(const json::object& priced) {
  const json::value* fits = priced.if_contains("fits");
  return fits != nullptr && fits->is_bool() && !fits->get_bool();
}

std::uint64_t number_in(const json::object& object, std::string_view member) {
  const json::value* value = object.if_contains(json::string_view(member.data(), member.size()));
  boost::system::error_code bad;
  const auto number = value != nullptr && value->is_number() ? value->to_number<std::uint64_t>(bad) : 0;
  return bad ? 0 : number;
}

void held_back(Decision& decision, const char* rule, std::string why) {
  decision.shift = false;
  decision.governor = rule;
  decision.why = escaped(why, 300);
}

}  // namespace

Outcome<PolicyInForce> policy_of(const config::Config& config, const plugin_host::Table& table,
                                 const PolicyInForce* last) {
  PolicyInForce made;
  made.name = config.gears.policy;
  if (table.lacks_barred("gear", made.name)) return made;
  made.edition = table.edition("gear", made.name);
  if (last != nullptr && last->policy && last->name == made.name && last->edition == made.edition) return *last;
  auto policy = table.gear_policy(made.name);
  if (!policy) return Error{policy.error().code, "gears.policy: " + policy.error().detail};
  made.policy = std::move(policy).value();
  return made;
}

Scheduler::Scheduler(Setup setup)
    : setup_(std::move(setup)),
      last_policy_(std::make_shared<PolicyInForce>(setup_.policy)),
      last_store_(std::make_shared<LeaseStore>(setup_.store)),
      keeper_(setup_.lease_ttl),
      tick_(*setup_.io),
      lease_tick_(*setup_.io),
      problem_("it has not led yet") {}

void Scheduler::begin() {
  asio::co_spawn(*setup_.io, keep_lease(this), asio::detached);
  asio::co_spawn(*setup_.io, rounds(this), asio::detached);
}

asio::awaitable<void> Scheduler::rounds(Scheduler* self) {
  for (;;) {
    if (self->keeper_.holds(Clock::now())) {
      co_await self->one_round();
    } else if (!self->asked_) {
      // Nobody has answered yet: at the start that is no news.
    } else if (self->keeper_.problem().empty()) {
      self->told("'" + escaped(self->keeper_.leader()) + "' leads");
    } else {
      self->told("it has no lease: " + self->setup_.store.name + ": " + self->keeper_.problem());
    }
    self->tick_.expires_after(self->setup_.config->gears.interval);
    boost::system::error_code woken;
    co_await self->tick_.async_wait(asio::redirect_error(asio::use_awaitable, woken));
  }
}

/// One line in the log when it changes.
void Scheduler::told(std::string problem) {
  if (problem == problem_) return;
  problem_ = std::move(problem);
  if (problem_.empty()) {
    spdlog::info("event=decides role=scheduler policy={}", escaped(setup_.policy.name));
  } else {
    spdlog::warn("event=decides_nothing role=scheduler reason=\"{}\"", problem_);
  }
}

bool Scheduler::is_new(const gear_facts::Snapshot& snapshot) {
  const bool same = snapshot.observer == observer_ && snapshot.sequence <= sequence_;
  if (snapshot.observer != observer_) link_samples_ = 0;
  observer_ = snapshot.observer;
  sequence_ = snapshot.sequence;
  return !same;
}

/// A figure counts once, however many snapshots tell it.
void Scheduler::note_links(const gear_facts::Snapshot& snapshot) {
  if (!snapshot.link_probed) trust_ = Trust();
  if (std::exchange(link_samples_, snapshot.link_samples) >= snapshot.link_samples) return;
  const LinkSample sample{snapshot.link_failed, snapshot.link_share >= gear_facts::kGoodLink ? 1 : snapshot.link_share};
  trust_.add(sample, TrustRules());
}

asio::awaitable<void> Scheduler::one_round() {
  const asio::any_io_executor executor = setup_.io->get_executor();
  const Outcome<gear_facts::Snapshot> snapshot =
      co_await gear_facts::ask_snapshot(executor, gear_facts::observer_socket(setup_.state), kAnswer);
  if (!snapshot) co_return told("the observer: " + escaped(describe(snapshot.error())));
  if (!is_new(snapshot.value())) co_return;  // nothing new was seen: nothing new can be decided
  note_links(snapshot.value());
  const Outcome<gear_facts::Records> records = co_await gear_facts::ask_records(
      executor, gear_facts::executor_socket(setup_.state), kAnswer, keeper_.holds(Clock::now()) ? *keeper_.term() : 0);
  if (!records) co_return told("the executor: " + escaped(describe(records.error())));
  if (keeper_.holds(Clock::now()) && records.value().term > *keeper_.term()) {
    told("term " + std::to_string(records.value().term) + " has been obeyed already, and this one is lower");
    keeper_.outranked(records.value().term);
    lease_tick_.cancel();
    co_return;
  }
  if (!setup_.policy.policy) co_return told("plugin gear '" + setup_.policy.name + "' is barred; see `broker plugins`");

  // What is in force now is this round's: both may change while shifts are ordered.
  const config::Snapshot config = setup_.config;
  const std::shared_ptr<plugin::GearPolicy> policy = setup_.policy.policy;
  const Instant now = Clock::now();
  misfits_.forget_old(now);
  const ViewInputs inputs{&snapshot.value(), &records.value().groups, &config->gears,
                          &misfits_,         trust_.value(),          trust_.distrusted()};
  const View view(inputs, numbers_, now);
  left_ = view.left_out();
  groups_ = view.cluster().groups.size();
  Outcome<std::vector<Decision>> decided = decide(view, *policy, rules_of(config->gears), minute_now(), now);
  last_round_ = elapsed(now, Clock::now());
  ++rounds_;
  if (!decided) co_return told("the policy: " + escaped(describe(decided.error())));
  told({});
  for (Decision& decision : decided.value()) {
    Noted noted;
    noted.group = view.facts(decision.group).name;
    noted.inputs = inputs_of(view, decision.group, snapshot.value());
    if (decision.shift) {
      // The lease may have ended while others were ordered.
      const bool leads = keeper_.holds(Clock::now());
      noted.term = leads ? *keeper_.term() : 0;
      if (leads) {
        noted.shift_number = co_await order(&decision, view.facts(decision.group), noted.term);
      } else {
        held_back(decision, "leader", "the lease has ended");
      }
    }
    noted.decision = std::move(decision);
    book_.add(std::move(noted), gear_facts::unix_ms());
  }
}

asio::awaitable<std::uint64_t> Scheduler::order(Decision* decision, gear_facts::GroupFacts facts, std::uint64_t term) {
  const asio::any_io_executor executor = setup_.io->get_executor();
  json::object question{{"op", "price"}, {"gear", decision->to}};
  const gear_facts::Answer priced = co_await gear_facts::ask_engine(
      executor, gear_facts::group_socket(setup_.state, facts.name), std::move(question), kPrice);
  if (!priced) {
    held_back(*decision, "engine", "it cannot be asked what the gear needs: " + describe(priced.error()));
    co_return 0;
  }
  const gear_facts::EngineWord word = gear_facts::word_of(priced.value());
  if (!word.ok && does_not_fit(priced.value())) {
    misfits_.add(facts.name, decision->to, facts.epoch, Clock::now());
    held_back(*decision, "memory", "its engine says: " + word.why);
    co_return 0;
  }
  if (!word.ok) {
    held_back(*decision, "engine", "its engine says: " + word.why);
    co_return 0;
  }
  // It may have ended while the engine thought about it.
  if (!keeper_.holds(Clock::now()) || *keeper_.term() != term) {
    held_back(*decision, "leader", "the lease has ended");
    co_return 0;
  }
  gear_facts::ShiftOrder wanted;
  wanted.group = facts.name;
  wanted.gear = decision->to;
  wanted.term = term;
  wanted.origin = "scheduler";
  wanted.decision = decision->rule + ": " + decision->reason;
  json::object command = gear_facts::to_json(wanted);
  command["command"] = "shift";
  const gear_facts::Answer ordered =
      co_await gear_facts::ask_role(executor, gear_facts::executor_socket(setup_.state), std::move(command), kAnswer);
  if (!ordered) {
    held_back(*decision, "executor", "the executor: " + describe(ordered.error()));
    co_return 0;
  }
  co_return number_in(ordered.value(), "number");
}

void Scheduler::add_status(json::object& status) const {
  const bool leads = keeper_.holds(Clock::now());
  const config::GearsConfig& gears = setup_.config->gears;
  json::array left;
  for (const View::Left& each : left_) {
    if (left.size() == 32) break;  // of more, the observer tells
    left.push_back(json::object{{"group", each.group}, {"why", escaped(each.why, 200)}});
  }
  status["leads"] = leads;
  status["leader"] = keeper_.leader();
  status["term"] = leads ? keeper_.term().value_or(0) : keeper_.leaders_term();
  status["coordination"] = setup_.store.name;
  status["lease_problem"] = keeper_.problem();
  status["policy"] = setup_.policy.name;
  status["mode"] = gears.mode;
  status["dry_run"] = gears.dry_run;
  status["problem"] = problem_;
  status["groups"] = groups_;
  status["left_out"] = std::move(left);
  status["rounds"] = rounds_;
  status["last_round_us"] = last_round_.count();
  status["decisions"] = book_.added();
  status["snapshot"] = sequence_;
  status["trust"] = trust_.value();
  status["plugins"] = plugin_host::plugins_json(setup_.plugins->list());
}

Outcome<json::object> Scheduler::control(std::string_view command, const json::object& request) {
  if (command != "explain") return Error{Errc::not_found, {}};
  return book_.page(gear_facts::text_of(request, "group"), gear_facts::text_of(request, "after"));
}

plugin_host::Needs Scheduler::needs(const config::Config& config) const {
  return needs_of(config);
}

Outcome<std::function<void()>> Scheduler::prepare(const live::Update& update) {
  BOOST_OUTCOME_TRY(const PolicyInForce made, policy_of(*update.config, *update.plugins, last_policy_.get()));
  BOOST_OUTCOME_TRY(const LeaseStore store,
                    lease_store(*update.config, *update.plugins, setup_.state, *setup_.io, last_store_.get()));
  // The old ones go with the closure, on the follower's thread: closing a library takes a moment.
  auto old = std::exchange(last_policy_, std::make_shared<PolicyInForce>(made));
  auto old_store = std::exchange(last_store_, std::make_shared<LeaseStore>(store));
  return std::function<void()>(
      [this, made, store, config = update.config, old = std::move(old), old_store = std::move(old_store)] {
        setup_.config = config;
        setup_.policy = made;
        use_store(store);
        tick_.cancel();
      });
}

}  // namespace gearbox::scheduler
