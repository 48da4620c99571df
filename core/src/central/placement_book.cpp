#include "central/placement_book.hpp"

#include <boost/json/array.hpp>

#include <algorithm>
#include <utility>

#include "gearbox/base/text.hpp"

namespace gearbox::central {

namespace json = boost::json;

void PlacementNote::see(NodeSeen node) {
  // Those that could have been chosen tell more than those that could not.
  if (seen.size() < kNodes) return seen.push_back(std::move(node));
  ++left_out;
  if (!node.obstacle.empty()) return;
  const auto excluded = std::find_if(seen.begin(), seen.end(), [](const auto& one) { return !one.obstacle.empty(); });
  if (excluded != seen.end()) *excluded = std::move(node);
}

void PlacementNote::choose(NodeSeen node) {
  chosen = node.node;
  const bool is_kept = std::any_of(seen.begin(), seen.end(), [&](const auto& one) { return one.node == chosen; });
  if (!is_kept) seen.back() = std::move(node);  // of many, it may be among those that were only counted
}

std::uint64_t PlacementBook::add(PlacementNote note) {
  notes_.push_back(std::move(note));
  if (notes_.size() > kMost) notes_.pop_front();
  return next_++;
}

Outcome<json::object> PlacementBook::facts(std::uint64_t number) const {
  if (number >= next_ || next_ - number > notes_.size()) {
    return Error{Errc::not_found, "central does not remember that placement: it knows the last " +
                                      std::to_string(kMost) + " since it was started"};
  }
  const PlacementNote& note = notes_[notes_.size() - static_cast<std::size_t>(next_ - number)];
  json::array candidates;
  json::array excluded;
  for (const NodeSeen& seen : note.seen) {
    json::object each{{"node", seen.node},
                      {"queued", seen.queued},
                      {"running", seen.running},
                      {"offered", seen.offered},
                      {"capacity", seen.capacity},
                      {"p95_us", seen.p95_us},
                      {"report_age_ms", seen.report_age_ms}};
    if (!seen.obstacle.empty()) each["why"] = escaped(seen.obstacle, explain::kReasonBytes);
    (seen.obstacle.empty() ? candidates : excluded).push_back(std::move(each));
  }
  json::object out{{"placement", number},
                   {"at_unix_ms", note.at_unix_ms},
                   {"device", to_text(note.device)},
                   {"user", note.user},
                   {"tenant", note.tenant},
                   {"task", note.task},
                   {"config", note.config},
                   {"chosen", note.chosen},
                   {"candidates", std::move(candidates)},
                   {"excluded", std::move(excluded)}};
  if (note.chooser) {
    out["balancer"] = json::object{{"name", note.chooser->name},
                                   {"version", note.chooser->version},
                                   {"checksum", note.chooser->checksum.substr(0, 12)}};
  }
  if (note.stood_in) out["stood_in"] = true;
  if (note.ignoring_offered) out["ignoring_offered"] = true;
  if (note.left_out > 0) out["left_out"] = note.left_out;
  return out;
}

}  // namespace gearbox::central
