// spool_tasks.cpp: which tasks of a spool have connections. Each has one at least, and a node allows a device a few
// only; so they take turns.
#include <algorithm>

#include "spool_upload.hpp"

namespace gearbox::client {

namespace {

constexpr std::size_t kMostTasks = 6;             // of the 8 connections that a node allows a device
constexpr milliseconds kStint{2'000};             // a task's own, while others wait for its place
constexpr milliseconds kIdle{30'000};             // without an item, then its connections are closed
constexpr milliseconds kReach{10'000};            // in which a new one has been somewhere
constexpr milliseconds kOwedWhenCrowded{60'000};  // words to nodes that are away
constexpr milliseconds kLookWhenCrowded{200};

wire::Locate question_of(const SpoolItem& item) {
  return wire::Locate{item.submit.task, steps::models_of(item.submit.steps)};
}

std::string key_of(const SpoolItem& item) {
  return item.submit.task.empty() ? wire::to_json(question_of(item)) : item.submit.task;
}

}  // namespace

/// Null: it waits for its turn.
TaskPlaces* SpoolUpload::task_of(const SpoolItem& item) {
  std::string key = key_of(item);
  const auto known = tasks_.find(key);
  if (known != tasks_.end()) {
    const bool begins_nothing = known->second.leaving && homes_.count(item.id) == 0;
    return begins_nothing ? nullptr : known->second.places.get();
  }
  if (std::find(queue_.begin(), queue_.end(), key) == queue_.end()) queue_.push_back(key);
  if (queue_.front() != key || places_taken() >= kMostTasks) return nullptr;
  queue_.erase(queue_.begin());
  TaskPlaces::Ends ends;
  ends.changed = [this] { look(); };
  ends.holds = [this](const std::string& node) { return holds(node); };
  Placed& placed = tasks_[key];
  placed.places =
      std::make_unique<TaskPlaces>(dialler_, central_, &identity_, question_of(item), link_settings_, std::move(ends));
  placed.opened = placed.used = Clock::now();
  const auto before = rested_.find(key);
  if (before != rested_.end()) {
    static_cast<Troubles&>(placed.places->main()) = before->second;
    rested_.erase(before);
  }
  return placed.places.get();
}

/// One that waits for nodes that are away takes nobody's place.
bool SpoolUpload::is_away(const Placed& task, Instant now) const {
  return now > after(task.opened, kReach) && !task.places->connected() && (task.holds || task.places->owes());
}

std::size_t SpoolUpload::places_taken() const {
  const Instant now = Clock::now();
  const auto taken =
      std::count_if(tasks_.begin(), tasks_.end(), [&](const auto& each) { return !is_away(each.second, now); });
  return static_cast<std::size_t>(taken) + closing_.running();
}

/// Closes what is idle; while others wait, also what has had its turn.
void SpoolUpload::rest_tasks(Instant* next) {
  const Instant now = Clock::now();
  std::set<std::string> wanted;
  std::set<std::string> holding;
  for (const std::shared_ptr<const Spooled>& item : items_) {
    const std::string key = key_of(item->item);
    wanted.insert(key);
    if (homes_.count(item->item.id) > 0) holding.insert(key);
  }
  std::erase_if(queue_, [&](const std::string& key) { return wanted.count(key) == 0; });
  std::erase_if(rested_, [&](const auto& each) { return wanted.count(each.first) == 0; });
  for (auto& [key, task] : tasks_) task.holds = holding.count(key) > 0;
  const bool crowded = !queue_.empty() && places_taken() >= kMostTasks;
  std::vector<std::string> gone;
  std::size_t leaving = 0;
  for (auto& [key, task] : tasks_) {
    const bool busy = std::any_of(under_way_.begin(), under_way_.end(),
                                  [&](const auto& turn) { return turn->task == task.places.get(); });
    if (busy || wanted.count(key) > 0) task.used = now;
    if (crowded) task.places->forget_owed(kOwedWhenCrowded);
    task.leaving = crowded && leaving < queue_.size() && now >= after(task.opened, kStint) && !is_away(task, now);
    if (task.leaving) ++leaving;
    if (busy || task.holds || task.places->owes()) continue;
    const bool idle = wanted.count(key) == 0 && (crowded || now >= after(task.used, kIdle));
    if (idle || task.leaving) gone.push_back(key);
  }
  for (const std::string& key : gone) rest(key);
  if (crowded) *next = std::min(*next, after(now, kLookWhenCrowded));
}

/// What was refused goes on waiting, and what people were told is not told again.
void SpoolUpload::rest(const std::string& key) {
  const auto at = tasks_.find(key);
  for (const std::shared_ptr<const Spooled>& item : items_) {
    if (key_of(item->item) != key) continue;
    const RequestId& id = item->item.id;
    Waiting sum;
    bool any = false;
    std::erase_if(waiting_, [&](const auto& each) {
      if (each.first.first != id) return false;
      any = true;
      sum.refusals = std::max(sum.refusals, each.second.refusals);
      sum.not_before = std::max(sum.not_before, each.second.not_before);
      return true;
    });
    if (any) waiting_[{id, nullptr}] = sum;
    rested_[key] = at->second.places->main();
  }
  closing_.spawn(close(std::move(at->second.places)));
  tasks_.erase(at);
}

asio::awaitable<void> SpoolUpload::close(std::unique_ptr<TaskPlaces> places) {
  co_await places->finish(milliseconds(1'000));
  look();
}

}  // namespace gearbox::client
