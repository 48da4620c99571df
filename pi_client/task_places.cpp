#include "task_places.hpp"

#include <algorithm>
#include <utility>

namespace gearbox::client {

namespace {

constexpr milliseconds kSettle{15'000};  // longer than the longest pause of a link
constexpr milliseconds kForConnection{10'000};
constexpr milliseconds kOwedFor = std::chrono::hours(1);
constexpr std::size_t kMostOwed = 1'024;

void call_off_now(const RequestId& id, NodeConnection& connection) {
  connection.tell(wire::FrameType::cancel, id);
  connection.tell(wire::FrameType::result_ack, id);  // in case it had ended
}

}  // namespace

TaskPlaces::TaskPlaces(Dialler dialler, CentralAddress central, const Identity* identity, wire::Locate question,
                       LinkSettings settings, Ends ends)
    : dialler_(dialler),
      central_(std::move(central)),
      identity_(identity),
      question_(std::move(question)),
      settings_(settings),
      ends_(std::move(ends)),
      started_(Clock::now()),
      bell_(dialler_.executor),
      tasks_(dialler_.executor) {
  main_.link = std::make_unique<NodeLink>(dialler_, central_, identity_, question_, settings_);
}

TaskPlaces::Home& TaskPlaces::home_of(const std::string& node) {
  std::shared_ptr<Home>& home = homes_[node];
  if (!home) {
    home = std::make_shared<Home>();
    wire::Locate question = question_;
    question.node = node;
    home->route.link = std::make_unique<NodeLink>(dialler_, central_, identity_, std::move(question), settings_);
    if (std::optional<NodePlace> known = main_.link->place_of(node)) home->route.link->take_over(std::move(*known));
  }
  return *home;
}

Route& TaskPlaces::home(const std::string& node) {
  const auto known = homes_.find(node);
  const bool own = known != homes_.end() && known->second->route.link->connected();
  if (!own && main_.link->node() == node) return main_;
  Home& home = home_of(node);
  if (!home.kept && !stopping_) {
    home.kept = true;
    tasks_.spawn(keep(homes_[node], node));
  }
  return home.route;
}

asio::awaitable<void> TaskPlaces::keep(std::shared_ptr<Home> home, std::string node) {
  Route& route = home->route;
  const auto needed = [&] {
    const bool wanted = route.turns > 0 || !home->owed.empty() || ends_.holds(node);
    return !stopping_ && wanted && (route.link->connected() || main_.link->node() != node);
  };
  while (needed()) {
    Outcome<NodeLink::Lease> lease = co_await route.link->get(after(Clock::now(), kForConnection));
    if (route.connected != lease.has_value()) ends_.changed();
    route.connected = lease.has_value();
    Instant next = after(Clock::now(), seconds(1));
    if (lease) {
      route.failures = 0;
      pay(*home, *lease.value().connection);
    } else {
      const milliseconds pause = pause_before_retry(route.failures++, milliseconds(200), milliseconds(5'000), {});
      next = after(Clock::now(), pause);
    }
    const auto old = [now = Clock::now()](const auto& each) { return now > after(each.second, kOwedFor); };
    std::erase_if(home->owed, old);
    while (!stopping_ && Clock::now() < next) co_await bell_.wait_until(next);
  }
  home->kept = false;
  if (route.turns > 0 || stopping_) co_return;
  const auto here = homes_.find(node);
  if (here != homes_.end() && here->second == home) homes_.erase(here);
  co_await route.link->finish(milliseconds(1'000));
}

void TaskPlaces::pay(Home& home, NodeConnection& connection) {
  if (is_silent(connection.heard(), Clock::now())) return;
  for (const auto& [id, since] : std::exchange(home.owed, {})) call_off_now(id, connection);
}

void TaskPlaces::call_off(const RequestId& id, const std::string& node) {
  Home& home = home_of(node);
  for (const Route* route : {&home.route, &main_}) {
    if (!route->link->connected() || route->link->node() != node) continue;
    call_off_now(id, *route->link->connection());
    if (!is_silent(route->link->heard(), Clock::now())) return;  // else nobody knows whether it hears that
  }
  if (home.owed.size() < kMostOwed) home.owed[id] = Clock::now();
  this->home(node);
}

Instant TaskPlaces::heard(const std::string& node) const {
  Instant last = started_;
  const auto known = homes_.find(node);
  if (known != homes_.end()) last = std::max(last, known->second->route.link->heard());
  if (main_.link->node() == node) last = std::max(last, main_.link->heard());
  if (const std::optional<NodePlace> place = main_.link->place_of(node)) last = std::max(last, place->heard);
  return last;
}

bool TaskPlaces::is_silent(Instant heard, Instant now) const {
  return settings_.move_after.count() > 0 && now >= after(heard, settings_.move_after);
}

Instant TaskPlaces::move_due(const std::vector<std::string>& nodes) const {
  if (settings_.move_after.count() == 0) return Instant::max();
  Instant due{};
  for (const std::string& node : nodes) due = std::max(due, after(heard(node), settings_.move_after));
  const bool elsewhere = std::find(nodes.begin(), nodes.end(), main_.link->node()) == nodes.end();
  if (elsewhere && main_.link->connected()) {
    due = std::max(due, after(main_.link->connected_since(), std::min(settings_.move_after, kSettle)));
  }
  return due;
}

void TaskPlaces::look(Instant now) {
  if (is_silent(main_.link->heard(), now) && ends_.holds(main_.link->node())) leave_main();
  std::set<std::string> away;
  std::vector<std::string> idle;
  for (const auto& [name, home] : homes_) {
    const bool at_main = main_.link->connected() && main_.link->node() == name;
    if (at_main) pay(*home, *main_.link->connection());
    if (!home->kept && !home->owed.empty()) idle.push_back(name);
    if (home->kept && (home->route.failures > 0 || is_silent(home->route.link->heard(), now))) away.insert(name);
  }
  main_.link->avoid(std::move(away));
  for (const std::string& name : idle) home(name);
}

void TaskPlaces::leave_main() {
  std::optional<NodePlace> place = main_.link->leave();
  if (!place) return;
  main_.connected = false;
  main_.not_before = Instant{};
  const std::string node = place->located.node;
  const std::shared_ptr<NodeConnection> connection = place->connection;
  if (homes_.count(node) == 0) {
    home_of(node).route.link->take_over(std::move(*place));
  } else if (connection) {
    // A route of its own is there already: those who listen on the old connection come over.
    connection->close(Error{Errc::closed, "left"});
    tasks_.spawn(connection->finish(milliseconds(0)));
  }
  home(node);
}

bool TaskPlaces::connected() const {
  return main_.link->connected() || std::any_of(homes_.begin(), homes_.end(),
                                                [](const auto& each) { return each.second->route.link->connected(); });
}

bool TaskPlaces::owes() const {
  return std::any_of(homes_.begin(), homes_.end(), [](const auto& each) { return !each.second->owed.empty(); });
}

void TaskPlaces::forget_owed(milliseconds age) {
  const auto old = [now = Clock::now(), age](const auto& each) { return now > after(each.second, age); };
  for (auto& [node, home] : homes_) std::erase_if(home->owed, old);
}

void TaskPlaces::stop() {
  stopping_ = true;
  main_.link->cancel();
  for (auto& [node, home] : homes_) home->route.link->cancel();
  bell_.ring();
}

asio::awaitable<void> TaskPlaces::finish(milliseconds within) {
  stop();
  co_await tasks_.all_done();
  co_await main_.link->finish(within);
  const auto homes = std::exchange(homes_, {});
  for (const auto& [node, home] : homes) co_await home->route.link->finish(within);
}

}  // namespace gearbox::client
