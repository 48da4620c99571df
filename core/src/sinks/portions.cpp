#include "sinks/portions.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace gearbox::sinks {

void Portions::begin(std::vector<Row> rows, std::size_t most) {
  open_.assign(std::make_move_iterator(rows.begin()), std::make_move_iterator(rows.end()));
  // At the first batch, and when nothing went wrong with the one before, all at once.
  if (size_ == most_) size_ = most;
  most_ = most;
  size_ = std::min(size_, most_);
  singly_ = 0;
}

void Portions::begin_anew() {
  size_ = most_;
  singly_ = failures_ = probes_ = 0;
  suspect_.reset();
}

bool Portions::is_probe_next() const {
  return failures_ >= kTriesWhole && open_.size() > 1 && (failures_ - kTriesWhole) % kProbeEvery == kProbeEvery - 1;
}

Portions::Portion Portions::next() const {
  if (open_.empty()) return {};
  if (is_probe_next()) return {1 + probes_ % (open_.size() - 1), 1};
  if (failures_ >= kTriesWhole || singly_ > 0) return {0, 1};
  return {0, std::min(size_, open_.size())};
}

std::vector<Row> Portions::take(Portion portion) {
  if (portion.first > 0 && suspect_ == open_.front().id) got_through_past_ = suspect_;
  const auto from = open_.begin() + static_cast<std::ptrdiff_t>(portion.first);
  const auto to = from + static_cast<std::ptrdiff_t>(portion.count);
  std::vector<Row> taken(std::make_move_iterator(from), std::make_move_iterator(to));
  open_.erase(from, to);
  if (singly_ > 0) --singly_;
  failures_ = probes_ = 0;
  suspect_.reset();
  size_ = std::min(most_, size_ * 2);
  return taken;
}

void Portions::put_off(Portion portion, bool counts) {
  if (portion.first > 0) ++probes_;
  if (portion.first == 0 && portion.count == 1 && counts) suspect_ = open_.front().id;
  if (counts && ++failures_ >= kTriesWhole) size_ = 1;
}

std::optional<Row> Portions::take_guilty() {
  const std::optional<std::int64_t> guilty = std::exchange(got_through_past_, std::nullopt);
  if (!guilty || open_.empty() || open_.front().id != *guilty) return std::nullopt;
  Row row = std::move(open_.front());
  open_.pop_front();
  return row;
}

}  // namespace gearbox::sinks
