// What the executor is asked and told over its control socket.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/json/array.hpp>

#include <algorithm>
#include <set>
#include <utility>

#include "executor/executor.hpp"
#include "executor/ledger_text.hpp"
#include "executor/moment.hpp"
#include "gear_facts/pages.hpp"
#include "gear_facts/places.hpp"
#include "gearbox/base/text.hpp"
#include "link/json_reader.hpp"

namespace gearbox::executor {

namespace json = boost::json;

namespace {

/// Errors: bad_name.
Outcome<std::string> group_in(const json::object& request) {
  const std::string group = gear_facts::text_of(request, "group");
  BOOST_OUTCOME_TRY(check_name("group", group));
  return group;
}

bool truth_in(const json::object& request, std::string_view member) {
  const json::value* value = request.if_contains(json::string_view(member.data(), member.size()));
  return value != nullptr && value->is_bool() && value->get_bool();
}

std::string listed(const std::vector<std::int64_t>& gears) {
  std::string text;
  for (const std::int64_t gear : gears) text += (text.empty() ? "" : ",") + std::to_string(gear);
  return text;
}

}  // namespace

void Executor::add_status(json::object& status) const {
  json::array shifting;
  for (const auto& [group, running] : running_) {
    shifting.push_back(json::object{{"group", group}, {"number", running.number}, {"step", running.step}});
  }
  status["term"] = ledger_.term();
  status["groups"] = ledger_.groups().size();
  status["shifting"] = std::move(shifting);
  status["shifts_kept"] = ledger_.history().size();
  status["last_error"] = last_error_;
}

Outcome<json::object> Executor::control(std::string_view command, const json::object& request) {
  if (command == "shift") return shift(request);
  if (command == "outcome") return outcome(request);
  if (command == "groups") return groups(request);
  if (command == "history") return history(request);
  if (command == "hold") return hold(request);
  if (command == "allow") return allow(request);
  return Error{Errc::not_found, {}};
}

Outcome<json::object> Executor::shift(const json::object& request) {
  BOOST_OUTCOME_TRY(gear_facts::ShiftOrder order, gear_facts::read_order(request));
  const bool person = order.origin == "person";
  if (person && !request.contains("term")) order.term = ledger_.term();
  if (order.term < ledger_.term()) {
    return Error{Errc::not_allowed, "term " + std::to_string(order.term) + " is older than " +
                                        std::to_string(ledger_.term()) + ": another scheduler leads"};
  }
  if (!is_there(order.group)) return Error{Errc::not_found, "there is no group '" + order.group + "' here"};
  if (const auto busy = running_.find(order.group); busy != running_.end())
    return Error{Errc::overloaded, "group '" + order.group + "' is shifting already (" + busy->second.step + ")"};
  const Kept* known = ledger_.find(order.group);
  Kept kept = known == nullptr ? Kept{} : *known;
  if (kept.held && !person) return Error{Errc::not_allowed, "a person keeps group '" + order.group + "' in its gear"};
  const auto& allowed = kept.allowed;
  if (!allowed.empty() && std::find(allowed.begin(), allowed.end(), order.gear) == allowed.end()) {
    return Error{Errc::not_allowed, "gear " + std::to_string(order.gear) + " is closed for group '" + order.group +
                                        "': allowed are " + listed(allowed) + " (broker gear allow)"};
  }
  BOOST_OUTCOME_TRY(ledger_.see(order.term));
  if (person && truth_in(request, "hold") && !kept.held) {
    kept.held = true;
    BOOST_OUTCOME_TRY(ledger_.keep(order.group, std::move(kept)));
  }
  Pending pending;
  pending.number = ledger_.next_number();
  // Those that are priced still have no entry: their numbers count as well.
  for (const auto& [group, running] : running_) pending.number = std::max(pending.number, running.number + 1);
  pending.to = order.gear;
  pending.term = order.term;
  pending.origin = order.origin;
  pending.decision = escaped(order.decision, 512);
  pending.began_unix_ms = this_moment().unix_ms;
  running_[order.group] = Running{pending.number, "pricing"};
  boost::asio::co_spawn(io_, run(this, order.group, pending), boost::asio::detached);
  return json::object{{"number", pending.number}, {"term", pending.term}};
}

Outcome<json::object> Executor::outcome(const json::object& request) const {
  std::uint64_t number = 0;
  link::ObjectReader reader(request);
  reader.read("number", number);
  BOOST_OUTCOME_TRY(reader.result());
  for (const auto& [group, running] : running_) {
    if (running.number == number)
      return json::object{{"going_on", true}, {"group", group}, {"step", running.step}, {"number", number}};
  }
  const auto found = std::find_if(ledger_.history().rbegin(), ledger_.history().rend(),
                                  [&](const Entry& entry) { return entry.order.number == number; });
  if (found == ledger_.history().rend()) return Error{Errc::not_found, "no shift number " + std::to_string(number)};
  return to_json(*found);
}

Outcome<json::object> Executor::groups(const json::object& request) {
  std::uint64_t term = 0;
  link::ObjectReader reader(request);
  reader.read("term", term);
  BOOST_OUTCOME_TRY(reader.result());
  BOOST_OUTCOME_TRY(ledger_.see(term));
  const std::string after = gear_facts::text_of(request, "after");
  const gear_facts::GroupNames found = gear_facts::find_groups(state_);
  std::set<std::string> names(found.names.begin(), found.names.end());
  for (const auto& [name, kept] : ledger_.groups()) names.insert(name);
  const Moment now = this_moment();
  json::object answer{{"term", ledger_.term()}};
  gear_facts::Page page;
  for (auto at = names.upper_bound(after); at != names.end(); ++at) {
    gear_facts::GroupRecord record = ledger_.record(*at, now);
    record.shifting = record.shifting || running_.contains(*at);
    if (!page.add(gear_facts::to_json(record))) break;
  }
  std::move(page).into(answer);
  return answer;
}

Outcome<json::object> Executor::history(const json::object& request) const {
  const std::string group = gear_facts::text_of(request, "group");
  const std::string after = gear_facts::text_of(request, "after");
  json::object answer;
  gear_facts::Page page;
  bool begun = after.empty();
  for (auto at = ledger_.history().rbegin(); at != ledger_.history().rend(); ++at) {
    if (!begun) {
      begun = std::to_string(at->order.number) == after;
      continue;
    }
    if (!group.empty() && at->group != group) continue;
    if (!page.add(to_json(*at))) break;
  }
  std::move(page).into(answer);
  return answer;
}

Outcome<json::object> Executor::hold(const json::object& request) {
  BOOST_OUTCOME_TRY(const std::string group, group_in(request));
  const Kept* known = ledger_.find(group);
  if (known == nullptr && !is_there(group)) return Error{Errc::not_found, "there is no group '" + group + "' here"};
  Kept kept = known == nullptr ? Kept{} : *known;
  kept.held = truth_in(request, "held");
  const bool held = kept.held;
  BOOST_OUTCOME_TRY(ledger_.keep(group, std::move(kept)));
  return json::object{{"group", group}, {"held", held}};
}

Outcome<json::object> Executor::allow(const json::object& request) {
  BOOST_OUTCOME_TRY(const std::string group, group_in(request));
  std::vector<std::int64_t> gears;
  link::ObjectReader reader(request);
  reader.read("gears", gears, 6);
  for (const std::int64_t gear : gears) {
    if (gear < 1 || gear > 6) reader.fail("gears", "must be 1 to 6");
  }
  BOOST_OUTCOME_TRY(reader.result());
  std::sort(gears.begin(), gears.end());
  gears.erase(std::unique(gears.begin(), gears.end()), gears.end());
  const Kept* known = ledger_.find(group);
  if (known == nullptr && !is_there(group)) return Error{Errc::not_found, "there is no group '" + group + "' here"};
  Kept kept = known == nullptr ? Kept{} : *known;
  kept.allowed = gears;
  BOOST_OUTCOME_TRY(ledger_.keep(group, std::move(kept)));
  return json::object{{"group", group}, {"gears", json::array(gears.begin(), gears.end())}};
}

}  // namespace gearbox::executor
