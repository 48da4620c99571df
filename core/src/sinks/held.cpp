#include "sinks/held.hpp"

#include <algorithm>
#include <utility>

namespace gearbox::sinks {

std::optional<Held::Event> Held::add(Row row, std::string reason, milliseconds pause, Instant now) {
  events_.push_back({std::move(row), std::move(reason), pause, after(now, pause)});
  if (events_.size() <= kMost) return std::nullopt;
  Event oldest = std::move(events_.front());
  events_.erase(events_.begin());
  return oldest;
}

std::size_t Held::first_index() const {
  const auto earliest = [](const Event& a, const Event& b) { return a.due < b.due; };
  return static_cast<std::size_t>(std::min_element(events_.begin(), events_.end(), earliest) - events_.begin());
}

const Held::Event* Held::first() const {
  return events_.empty() ? nullptr : &events_[first_index()];
}

void Held::put_off(std::string reason, milliseconds asked, milliseconds most, Instant now) {
  Event& event = events_[first_index()];
  event.reason = std::move(reason);
  event.pause = std::min(most, event.pause * 2);
  event.due = after(now, std::min(most, asked.count() > 0 ? asked : event.pause));
}

Row Held::take_first() {
  const auto at = events_.begin() + static_cast<std::ptrdiff_t>(first_index());
  Row row = std::move(at->row);
  events_.erase(at);
  return row;
}

void Held::hurry(Instant now) {
  for (Event& event : events_) event.due = std::min(event.due, now);
}

std::vector<std::int64_t> Held::ids() const {
  std::vector<std::int64_t> ids;
  for (const Event& event : events_) ids.push_back(event.row.id);
  return ids;
}

}  // namespace gearbox::sinks
