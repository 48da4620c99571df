#include "observer/arrivals.hpp"

#include <algorithm>
#include <chrono>

namespace gearbox::observer {

namespace {

constexpr milliseconds kFast{8'000};
constexpr milliseconds kSlow{40'000};
constexpr milliseconds kWindow{20'000};
constexpr milliseconds kKept{320'000};  // fifteen windows, and the one that fills
constexpr milliseconds kApart{1'000};   // of points that are kept; the newest one always is
constexpr std::size_t kWindows = 15;

double seconds_between(Instant from, Instant to) {
  return std::chrono::duration<double>(to - from).count();
}

double ratio(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

void Arrivals::add(const gear_facts::EngineLoad& load, Instant now) {
  if (!points_.empty()) {
    const gear_facts::EngineLoad& last_one = points_.back().load;
    if (load.arrived < last_one.arrived || load.finished < last_one.finished ||
        load.prompt_tokens < last_one.prompt_tokens || load.output_tokens < last_one.output_tokens) {
      points_.clear();
    }
  }
  // The last point moves along until it is far enough from the one before it.
  if (points_.size() >= 2 && points_.back().at - points_[points_.size() - 2].at < kApart) points_.pop_back();
  points_.push_back({now, load});
  while (points_.size() > 2 && now - points_.front().at > kKept) points_.pop_front();
}

std::size_t Arrivals::before(Instant at) const {
  const auto later = std::upper_bound(points_.begin(), points_.end(), at,
                                      [](Instant wanted, const Point& point) { return wanted < point.at; });
  return later == points_.begin() ? 0 : static_cast<std::size_t>(later - points_.begin()) - 1;
}

plugin::LoadView Arrivals::between(std::size_t from, std::size_t to) const {
  plugin::LoadView view;
  if (to <= from || to >= points_.size()) return view;
  const gear_facts::EngineLoad& first = points_[from].load;
  const gear_facts::EngineLoad& end = points_[to].load;
  const double span = seconds_between(points_[from].at, points_[to].at);
  if (span <= 0) return view;
  view.requests_per_s = static_cast<double>(end.arrived - first.arrived) / span;
  view.prompt_tokens = ratio(end.prompt_tokens - first.prompt_tokens, end.arrived - first.arrived);
  view.output_tokens = ratio(end.output_tokens - first.output_tokens, end.finished - first.finished);
  // Of a span in which none came or none ended, the lengths are those of all that is known.
  const gear_facts::EngineLoad& oldest = points_.front().load;
  const gear_facts::EngineLoad& newest = points_.back().load;
  if (view.prompt_tokens <= 0)
    view.prompt_tokens = ratio(newest.prompt_tokens - oldest.prompt_tokens, newest.arrived - oldest.arrived);
  if (view.prompt_tokens <= 0) view.prompt_tokens = ratio(newest.prompt_tokens, newest.arrived);
  if (view.output_tokens <= 0)
    view.output_tokens = ratio(newest.output_tokens - oldest.output_tokens, newest.finished - oldest.finished);
  if (view.output_tokens <= 0) view.output_tokens = ratio(newest.output_tokens, newest.finished);
  return view;
}

plugin::LoadView Arrivals::last(milliseconds span) const {
  if (points_.size() < 2) return {};
  return between(before(points_.back().at - span), points_.size() - 1);
}

plugin::LoadView Arrivals::fast() const {
  return last(kFast);
}

plugin::LoadView Arrivals::slow() const {
  return last(kSlow);
}

std::vector<plugin::LoadView> Arrivals::recent() const {
  std::vector<plugin::LoadView> windows;
  if (points_.size() < 2) return windows;
  Instant end = points_.back().at;
  for (std::size_t i = 0; i < kWindows; ++i) {
    const Instant begin = end - kWindow;
    if (begin < points_.front().at) break;
    windows.push_back(between(before(begin), before(end)));
    end = begin;
  }
  std::reverse(windows.begin(), windows.end());
  return windows;
}

}  // namespace gearbox::observer
