#include "scheduler/scheduler.hpp"

#include <spdlog/spdlog.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json/array.hpp>

#include <ctime>
#include <utility>

#include "gear_facts/pages.hpp"
#include "gear_facts/times.hpp"
#include "gearbox/base/text.hpp"
#include "plugin_host/plugins_json.hpp"
#include "scheduler/host_stream.hpp"
#include "scheduler/lease_store.hpp"
#include "scheduler/round.hpp"

namespace gearbox::scheduler {

namespace asio = boost::asio;
namespace json = boost::json;

namespace {

constexpr milliseconds kOutrankPause{60'000};    // of one host: two schedulers that lead would outbid each other
constexpr std::uint64_t kMostAhead = 1'000'000;  // a term so far above ours is a mistake, and would use terms up

/// Of the day, local time: what people mean by "only at night".
std::uint16_t minute_now() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  return static_cast<std::uint16_t>(local.tm_hour * 60 + local.tm_min);
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
      problem_("it has not led yet") {
  const asio::any_io_executor executor = setup_.io->get_executor();
  auto reach = [executor, socket = setup_.state.node_socket()](const std::string& node) -> std::shared_ptr<HostDoor> {
    return std::make_shared<HostStream>(executor, socket, node);
  };
  hosts_ = std::make_shared<Hosts>(executor, setup_.config->node.name,
                                   std::make_shared<LocalDoor>(executor, setup_.state), std::move(reach));
}

void Scheduler::begin() {
  asio::co_spawn(*setup_.io, keep_lease(this), asio::detached);
  asio::co_spawn(*setup_.io, rounds(this), asio::detached);
}

asio::awaitable<void> Scheduler::rounds(Scheduler* self) {
  for (;;) {
    const bool leads = self->keeper_.holds(Clock::now());
    if (!leads) self->hosts_->let_go();
    if (leads) {
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

/// Executors that have obeyed a higher term refuse ours: then another one is needed. True: it is asked for.
bool Scheduler::is_outranked(Instant now) {
  for (const HostPtr& host : hosts_->all()) {
    if (!host->away(now).empty() || host->term <= *keeper_.term()) continue;
    const std::string term = std::to_string(host->term);
    if (!host->own && host->term > *keeper_.term() + kMostAhead) {
      host->failed("its executor has obeyed term " + term + ", which is too far from ours to be right", now);
      continue;
    }
    if (!host->own && host->outranked_at && now - *host->outranked_at < kOutrankPause) {
      host->failed("its executor has obeyed term " + term + ": another scheduler leads there, for another lease", now);
      continue;
    }
    host->outranked_at = now;
    told("term " + term + " has been obeyed already, and this one is lower");
    keeper_.outranked(host->term);
    lease_tick_.cancel();
    return true;
  }
  return false;
}

asio::awaitable<void> Scheduler::one_round() {
  hosts_->use(setup_.config->gears.hosts);
  co_await Hosts::look(hosts_, keeper_.holds(Clock::now()) ? *keeper_.term() : 0);
  const Instant now = Clock::now();
  if (keeper_.holds(now) && is_outranked(now)) co_return;
  if (!setup_.policy.policy) co_return told("plugin gear '" + setup_.policy.name + "' is barred; see `broker plugins`");

  // What is in force now is this round's: it may change while shifts are ordered.
  const config::Snapshot config = setup_.config;
  const std::shared_ptr<plugin::GearPolicy> policy = setup_.policy.policy;
  std::vector<HostPtr> there;
  bool news = false;
  ViewInputs inputs{{}, &config->gears, &misfits_};
  for (const HostPtr& host : hosts_->all()) {
    if (!host->away(now).empty()) continue;
    news = news || host->news;
    there.push_back(host);
    inputs.hosts.push_back({&host->snapshot, &host->records, host->trust.value(), host->trust.distrusted(), host->lag,
                            hosts_->are_several() ? host->name : std::string()});
  }
  if (there.empty()) co_return told(hosts_->own().away(now));
  if (!news) co_return;  // nothing new was seen: nothing new can be decided
  misfits_.forget_old(now);
  const View view(inputs, numbers_, now);
  left_ = view.left_out();
  groups_ = view.cluster().groups.size();
  Outcome<std::vector<Decision>> decided = decide(view, *policy, rules_of(config->gears), minute_now(), now);
  last_round_ = elapsed(now, Clock::now());
  ++rounds_;
  if (!decided) co_return told("the policy: " + escaped(describe(decided.error())));
  told({});
  take(view, there, std::move(decided).value());
}

/// Writes them down; what passes is ordered, of each host one after the other, and no host waits for another.
void Scheduler::take(const View& view, const std::vector<HostPtr>& there, std::vector<Decision> decisions) {
  std::vector<std::vector<Order>> orders(there.size());
  for (Decision& decision : decisions) {
    const std::size_t at = view.host(decision.group);
    if (!there[at]->news || there[at]->ordering) continue;  // decided on these figures already
    Order order;
    order.noted.group = view.name(decision.group);
    order.noted.inputs = inputs_of(view, decision.group, there[at]->snapshot);
    order.facts = view.facts(decision.group);
    order.noted.decision = std::move(decision);
    if (order.noted.decision.shift) {
      orders[at].push_back(std::move(order));
    } else {
      book_.add(std::move(order.noted), gear_facts::unix_ms());
    }
  }
  for (std::size_t at = 0; at < there.size(); ++at) {
    there[at]->news = false;
    if (orders[at].empty()) continue;
    there[at]->ordering = true;
    asio::co_spawn(*setup_.io, order_all(this, there[at], std::move(orders[at])), asio::detached);
  }
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
  status["snapshot"] = hosts_->own().snapshot.sequence;
  status["trust"] = hosts_->own().trust.value();
  if (leads && hosts_->are_several()) status["hosts"] = hosts_->to_json(Clock::now());
  status["plugins"] = plugin_host::plugins_json(setup_.plugins->list());
}

Outcome<json::object> Scheduler::control(std::string_view command, const json::object& request) {
  if (command == "groups") return hosts_->groups(gear_facts::text_of(request, "after"), Clock::now());
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
