#include "spool_upload.hpp"

#include <algorithm>

#include "gearbox/base/text.hpp"

namespace gearbox::client {

SpoolUpload::SpoolUpload(Dialler dialler, CentralAddress central, Identity identity, LinkSettings link,
                         UploadSettings settings, Spool* spool, Homes homes, NodesByRequest known, Ends ends)
    : dialler_(dialler),
      central_(std::move(central)),
      identity_(std::move(identity)),
      link_settings_(link),
      settings_(settings),
      spool_(spool),
      homes_file_(std::move(homes)),
      homes_(std::move(known)),
      ends_(std::move(ends)),
      begins_(settings.max_per_minute, std::chrono::minutes(1)),
      turns_(dialler.executor),
      watching_(dialler.executor),
      closing_(dialler.executor),
      bell_(dialler.executor) {
  for (const auto& [id, nodes] : homes_) spool_->pin(id);
  link_settings_.patient = true;
  // A silence is measured by the pings' answers.
  if (link.move_after.count() > 0) {
    link_settings_.pace.ping_every = std::min(link.pace.ping_every, std::max(milliseconds(50), link.move_after / 4));
  }
  set_max_rate(settings.max_rate);
}

void SpoolUpload::set_max_rate(std::uint64_t bytes_per_second) {
  if (rate_ && rate_->per() == bytes_per_second) return;
  rate_ = bytes_per_second > 0 ? std::make_shared<RateLimit>(bytes_per_second, seconds(1)) : nullptr;
}

asio::awaitable<void> SpoolUpload::run() {
  watching_.spawn(watch_links());
  co_await begin_turns();
  co_await turns_.all_done();
  over_ = true;
  bell_.ring();
  co_await watching_.all_done();
  co_await closing_.all_done();
  for (auto& [name, task] : tasks_) co_await task.places->finish(milliseconds(1'000));
}

void SpoolUpload::stop() {
  stopping_ = true;
  bell_.ring();
  for (auto& [name, task] : tasks_) task.places->stop();
  for (const std::shared_ptr<Turn>& turn : under_way_) {
    if (turn->inbox) turn->inbox->bell.ring();
  }
}

asio::awaitable<void> SpoolUpload::begin_turns() {
  std::string told;
  while (!stopping_) {
    stirred_ = false;
    Spool* const spool = spool_;
    auto work = [spool] { return spool->list(); };
    Outcome<std::vector<std::shared_ptr<const Spooled>>> items = co_await on_pool(*dialler_.pool, std::move(work));
    if (items) {
      const auto before = std::exchange(items_, std::move(items).value());
      call_off_dropped(before);
      if (settings_.newest_first) std::reverse(items_.begin(), items_.end());
      told.clear();
    } else if (items.error().detail != told) {
      told = items.error().detail;
      ends_.remark("the spool cannot be read: " + escaped(told, 512));
    }
    forget_waiting();
    for (auto& [name, task] : tasks_) task.places->look(Clock::now());
    if (settings_.until_empty && items_.empty() && under_way_.empty()) break;
    Instant next = after(Clock::now(), settings_.look_every);
    rest_tasks(&next);
    while (!stopping_ && busy() < settings_.parallel) {
      // The rate first, the choice then: by its turn an item may have made room for a newer one.
      if (begins_.free_at() > Clock::now()) {
        next = std::min(next, begins_.free_at());
        break;
      }
      const Choice choice = choose(&next);
      if (!choice.item) break;
      begins_.take(1, Clock::now());
      auto turn = std::make_shared<Turn>();
      turn->item = choice.item;
      turn->task = choice.task;
      turn->route = choice.route;
      under_way_.push_back(turn);
      ++choice.route->turns;
      turns_.spawn(take_turn(turn));
    }
    if (!stopping_ && !stirred_) co_await bell_.wait_until(next);
  }
}

/// What a person has dropped need not be run any more.
void SpoolUpload::call_off_dropped(const std::vector<std::shared_ptr<const Spooled>>& before) {
  const auto acknowledged = [&](const std::shared_ptr<const Spooled>& item) { return homes_.count(item->item.id) > 0; };
  const auto there = std::count_if(items_.begin(), items_.end(), acknowledged);
  if (static_cast<std::size_t>(there) == homes_.size()) return;
  std::set<RequestId> kept;
  for (const std::shared_ptr<const Spooled>& item : items_) kept.insert(item->item.id);
  for (const std::shared_ptr<const Spooled>& item : before) {
    const RequestId& id = item->item.id;
    const auto home = homes_.find(id);
    if (home == homes_.end() || kept.count(id) > 0 || claimed_.count(id) > 0) continue;
    const std::vector<std::string> nodes = home->second;
    TaskPlaces* const task = task_of(item->item);
    for (const std::shared_ptr<Turn>& turn : under_way_) {
      if (turn->id() != id || !turn->inbox) continue;  // without an inbox it finds that out by itself
      turn->superseded = true;
      turn->inbox->bell.ring();
    }
    homes_.erase(home);
    for (const std::string& node : nodes) {
      if (task != nullptr) task->call_off(id, node);
    }
    unpin_if_free(id);
  }
}

/// Of items that others dropped.
void SpoolUpload::forget_waiting() {
  if (waiting_.size() + homes_.size() + perhaps_homes_.size() <= items_.size()) return;
  std::set<RequestId> there;
  for (const std::shared_ptr<Turn>& turn : under_way_) there.insert(turn->id());
  for (const std::shared_ptr<const Spooled>& item : items_) there.insert(item->item.id);
  std::erase_if(waiting_, [&](const auto& known) { return there.count(known.first.first) == 0; });
  for (const auto& [id, nodes] : homes_) {
    if (there.count(id) == 0) spool_->unpin(id);
  }
  for (NodesByRequest* nodes : {&homes_, &perhaps_homes_}) {
    std::erase_if(*nodes, [&](const auto& known) { return there.count(known.first) == 0; });
  }
}

bool SpoolUpload::holds(const std::string& node) const {
  return std::any_of(homes_.begin(), homes_.end(), [&](const auto& each) {
    return std::find(each.second.begin(), each.second.end(), node) != each.second.end();
  });
}

/// What waits for a node that has fallen silent takes nobody's place.
std::size_t SpoolUpload::busy() const {
  return static_cast<std::size_t>(
      std::count_if(under_way_.begin(), under_way_.end(), [now = Clock::now()](const std::shared_ptr<Turn>& turn) {
        return !turn->connection || !turn->task->is_silent(turn->connection->heard(), now);
      }));
}

std::vector<const SpoolUpload::Turn*> SpoolUpload::turns_of(const RequestId& id) const {
  std::vector<const Turn*> found;
  for (const std::shared_ptr<Turn>& turn : under_way_) {
    if (turn->id() == id) found.push_back(turn.get());
  }
  return found;
}

/// The first item that may go now. `next` comes no later than the moment at which another one may.
SpoolUpload::Choice SpoolUpload::choose(Instant* next) {
  const Instant now = Clock::now();
  for (const std::shared_ptr<const Spooled>& item : items_) {
    Instant from = now;
    TaskPlaces* const task = task_of(item->item);
    if (task == nullptr) continue;
    Route* const route = route_for(item->item, *task, &from);
    if (route == nullptr && from > now) *next = std::min(*next, from);
    if (route == nullptr) continue;
    for (const Route* const known : {static_cast<const Route*>(route), static_cast<const Route*>(nullptr)}) {
      const auto waiting = waiting_.find({item->item.id, known});
      if (waiting != waiting_.end()) from = std::max(from, waiting->second.not_before);
    }
    from = std::max(from, route->not_before);
    if (from <= now) return Choice{item, task, route};
    *next = std::min(*next, from);
  }
  return Choice{};
}

/// Over which route it may go; null: over none, `from` then says when to look again, if that is known.
Route* SpoolUpload::route_for(const SpoolItem& item, TaskPlaces& task, Instant* from) {
  Route& main = task.main();
  // A task that no node has been reached for tries with one item, so that it does not take all the places.
  Route* const through_main = main.connected || main.waiting == 0 ? &main : nullptr;
  const std::vector<const Turn*> turns = turns_of(item.id);
  const auto home = homes_.find(item.id);
  if (home == homes_.end()) return turns.empty() ? through_main : nullptr;
  if (claimed_.count(item.id) > 0) return nullptr;
  const std::vector<std::string>& nodes = home->second;
  const auto is_home = [&](const std::string& node) {
    return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
  };
  for (const Turn* turn : turns) {
    // It will be at one of its nodes, at a further one, or is there: another route would do no more.
    if (!turn->connection || !is_home(turn->node())) return nullptr;
  }
  for (const std::string& node : nodes) {
    Route& route = task.home(node);  // which also keeps it
    const bool there = std::any_of(turns.begin(), turns.end(), [&](const Turn* turn) { return turn->node() == node; });
    if (there) continue;
    if (&route == &main) return through_main;
    if (route.link->connected() && !task.is_silent(route.link->heard(), Clock::now())) return &route;
  }
  *from = task.move_due(nodes);
  if (*from > Clock::now() || is_home(main.link->node())) return nullptr;
  return through_main;
}

/// Tells people when a task cannot be sent, and when it can be again.
asio::awaitable<void> SpoolUpload::watch_links() {
  while (!over_ && !stopping_) {
    for (auto& [name, task] : tasks_) {
      Route& route = task.places->main();
      const std::optional<Error>& trouble = route.link->trouble();
      const std::string now = trouble ? describe(*trouble) : std::string();
      if (now == route.told || (!trouble && !route.link->connected())) continue;
      // Not every other reason of a long absence is worth a line.
      if (trouble && !route.told.empty() && Clock::now() < after(route.told_at, std::chrono::minutes(1))) continue;
      route.told_at = Clock::now();
      if (trouble)
        ends_.remark("no connection, " + std::to_string(items_.size()) + " in the spool: " + escaped(now, 512));
      if (!trouble) ends_.remark("connected again");
      route.told = now;
    }
    co_await bell_.wait_until(after(Clock::now(), seconds(2)));
  }
}

}  // namespace gearbox::client
