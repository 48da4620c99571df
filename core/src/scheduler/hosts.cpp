#include "scheduler/hosts.hpp"

#include <spdlog/spdlog.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <map>
#include <utility>

#include "gear_facts/pages.hpp"
#include "gearbox/base/text.hpp"

namespace gearbox::scheduler {

namespace asio = boost::asio;
namespace json = boost::json;

namespace {

constexpr milliseconds kAnswer{2'000};
constexpr milliseconds kPatience{1'000};  // of a round, with all hosts together
constexpr milliseconds kFresh{5'000};     // figures that are older are not decided on
constexpr milliseconds kShortestPause{200};
constexpr milliseconds kLongestPause{3'000};

gear_facts::Asker asker(std::shared_ptr<HostDoor> door, std::string role) {
  return [door = std::move(door), role = std::move(role)](json::object command, milliseconds within) {
    return door->ask(role, std::move(command), within);
  };
}

}  // namespace

std::string Host::away(Instant now) const {
  if (!trouble.empty()) return trouble;
  return now - seen_at > kFresh ? "no answer for a while" : "";
}

void Host::take(gear_facts::Snapshot newer, gear_facts::Records known, bool fair, Instant began, Instant now) {
  const bool same = seen && newer.observer == snapshot.observer && newer.sequence <= snapshot.sequence;
  if (newer.observer != snapshot.observer) link_samples = 0;
  if (!newer.link_probed) trust = Trust();
  // A figure counts once, however many snapshots tell it.
  if (std::exchange(link_samples, newer.link_samples) < newer.link_samples) {
    trust.add({newer.link_failed, newer.link_share >= gear_facts::kGoodLink ? 1 : newer.link_share}, TrustRules());
  }
  news = fair && (news || !same);
  snapshot = std::move(newer);
  records = std::move(known.groups);
  term = known.term;
  if (!own && !trouble.empty()) spdlog::info("event=host_answers role=scheduler host={}", name);
  seen = true;
  seen_at = now;
  lag = std::chrono::ceil<milliseconds>(now - began);
  trouble.clear();
  pause = milliseconds(0);
}

void Host::failed(std::string why, Instant now) {
  if (!own && why != trouble) spdlog::warn("event=host_away role=scheduler host={} reason=\"{}\"", name, why);
  trouble = std::move(why);
  news = false;
  if (own) return;
  pause = std::clamp(2 * pause, kShortestPause, kLongestPause);
  look_at = after(now, pause);
}

Hosts::Hosts(asio::any_io_executor executor, std::string own_name, std::shared_ptr<HostDoor> own_door,
             MakeDoor make_door)
    : executor_(std::move(executor)), make_door_(std::move(make_door)) {
  auto own = std::make_shared<Host>();
  own->name = std::move(own_name);
  own->own = true;
  own->door = std::move(own_door);
  hosts_.push_back(std::move(own));
}

void Hosts::use(const std::vector<std::string>& names) {
  std::vector<HostPtr> kept{hosts_.front()};
  for (const std::string& name : names) {
    if (name == own().name) continue;
    const auto known =
        std::find_if(hosts_.begin(), hosts_.end(), [&](const HostPtr& host) { return host->name == name; });
    if (known != hosts_.end()) {
      kept.push_back(*known);
      continue;
    }
    auto host = std::make_shared<Host>();
    host->name = name;
    host->door = make_door_(name);
    kept.push_back(std::move(host));
  }
  for (const HostPtr& host : hosts_) {
    if (std::find(kept.begin(), kept.end(), host) == kept.end()) host->door->close();
  }
  hosts_ = std::move(kept);
}

void Hosts::let_go() {
  for (const HostPtr& host : hosts_) {
    if (host->own) continue;
    host->door->close();
    host->seen = host->news = false;
    host->trouble = "it has not answered yet";
    host->pause = milliseconds(0);
    host->look_at = Instant();
  }
}

asio::awaitable<void> Hosts::look(std::shared_ptr<Hosts> self, std::uint64_t term) {
  const auto looks = std::make_shared<Looks>(self->executor_);
  const Instant now = Clock::now();
  for (const HostPtr& host : self->hosts_) {
    if (host->asking || now < host->look_at) continue;
    host->asking = true;
    // Nobody waits for one that did not answer the last time.
    const bool expected = host->own || host->trouble.empty();
    if (expected) ++looks->open;
    asio::co_spawn(self->executor_, look_at(host, term, expected ? looks : nullptr), asio::detached);
  }
  if (looks->open == 0) co_return;
  looks->over.expires_after(kPatience);
  boost::system::error_code woken;
  co_await looks->over.async_wait(asio::redirect_error(asio::use_awaitable, woken));
}

asio::awaitable<void> Hosts::look_at(HostPtr host, std::uint64_t term, std::shared_ptr<Looks> looks) {
  const std::uint64_t orders = host->orders;
  const bool ordering = host->ordering;
  const Outcome<void> open = co_await host->door->open();
  const Instant began = Clock::now();
  Outcome<gear_facts::Snapshot> snapshot = open ? Error{Errc::internal, {}} : open.error();
  if (open) snapshot = co_await gear_facts::ask_snapshot(asker(host->door, "observer"), kAnswer);
  if (!open) {
    host->failed(escaped(describe(open.error())), Clock::now());
  } else if (!snapshot) {
    host->failed("the observer: " + escaped(describe(snapshot.error())), Clock::now());
  } else {
    Outcome<gear_facts::Records> records =
        co_await gear_facts::ask_records(asker(host->door, "executor"), kAnswer, term);
    if (records) {
      const bool fair = !ordering && !host->ordering && host->orders == orders;
      host->take(std::move(snapshot).value(), std::move(records).value(), fair, began, Clock::now());
    } else {
      host->failed("the executor: " + escaped(describe(records.error())), Clock::now());
    }
  }
  host->asking = false;
  if (looks && --looks->open == 0) looks->over.cancel();
}

std::string Hosts::name_of(const Host& host, const std::string& group) const {
  return are_several() ? host.name + "/" + group : group;
}

json::array Hosts::to_json(Instant now) const {
  json::array all;
  for (const HostPtr& host : hosts_) {
    all.push_back(json::object{{"name", host->name},
                               {"own", host->own},
                               {"away", escaped(host->away(now), 200)},
                               {"groups", host->snapshot.groups.size()},
                               {"term", host->term},
                               {"trust", host->trust.value()}});
  }
  return all;
}

json::object Hosts::groups(const std::string& after, Instant now) const {
  std::map<std::string, std::pair<const Host*, const gear_facts::GroupFacts*>> named;
  for (const HostPtr& host : hosts_) {
    for (const gear_facts::GroupFacts& facts : host->snapshot.groups) {
      named.emplace(name_of(*host, facts.name), std::pair(host.get(), &facts));
    }
  }
  json::object answer;
  gear_facts::Page page;
  for (auto at = named.upper_bound(after); at != named.end(); ++at) {
    const auto& [host, facts] = at->second;
    json::object group = gear_facts::to_json(*facts);
    group["name"] = at->first;
    group["host"] = host->name;
    if (const std::string why = host->away(now); !why.empty()) {
      group["stale"] = true;
      group["problem"] = "host " + host->name + ": " + why;
    }
    const auto record = std::find_if(host->records.begin(), host->records.end(),
                                     [&](const gear_facts::GroupRecord& each) { return each.name == facts->name; });
    if (record != host->records.end()) group["record"] = gear_facts::to_json(*record);
    if (!page.add(std::move(group))) break;
  }
  std::move(page).into(answer);
  return answer;
}

}  // namespace gearbox::scheduler
