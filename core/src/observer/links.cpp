#include "observer/links.hpp"

#include <algorithm>

namespace gearbox::observer {

namespace {

constexpr double kForgetting = 0.001;  // of the usual bandwidth with each slower probe
constexpr double kMostSlowdown = 1000;

}  // namespace

void LinkBook::add(const std::string& peer, const LinkMeasure& measure) {
  Link& link = links_[peer];
  link.failed = measure.failed || measure.bytes_per_s <= 0;
  if (link.failed) return;
  link.now = measure.bytes_per_s;
  link.usual = link.now >= link.usual ? link.now : link.usual + kForgetting * (link.now - link.usual);
}

void LinkBook::keep_only(const std::vector<std::string>& peers) {
  std::erase_if(links_,
                [&](const auto& entry) { return std::find(peers.begin(), peers.end(), entry.first) == peers.end(); });
}

bool LinkBook::failed() const {
  return std::any_of(links_.begin(), links_.end(), [](const auto& entry) { return entry.second.failed; });
}

double LinkBook::health() const {
  double worst = 1;
  for (const auto& [peer, link] : links_) worst = std::min(worst, link.failed ? 0.0 : link.now / link.usual);
  return worst;
}

double LinkBook::slowdown() const {
  const double share = health();
  return share * kMostSlowdown <= 1 ? kMostSlowdown : 1 / share;
}

}  // namespace gearbox::observer
