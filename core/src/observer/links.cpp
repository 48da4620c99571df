#include "observer/links.hpp"

#include <algorithm>
#include <functional>

namespace gearbox::observer {

namespace {

constexpr double kForgetting = 0.001;  // of the usual bandwidth with each slower probe
constexpr double kLearning = 0.2;      // and with each faster one: a single lucky one does not make all others slow
constexpr double kMostStep = 2;
constexpr double kMostSlowdown = 1000;

}  // namespace

void LinkBook::add(const std::string& peer, const LinkMeasure& measure, Instant now) {
  Link& link = links_[peer];
  link.failed = measure.failed;
  link.heard = now;
  if (!link.failed) link.latency = measure.latency;
  if (!link.failed && measure.bytes_per_s > 0) {
    link.now = measure.bytes_per_s;
    const bool first = link.usual <= 0;
    const double weight = first ? 1 : link.now >= link.usual ? kLearning : kForgetting;
    // One figure, however large, moves what is usual by a fifth of it at most.
    const double seen = first ? link.now : std::min(link.now, kMostStep * link.usual);
    link.usual += weight * (seen - link.usual);
    link.measured = now;
  }
  // A small message over a link that was slow says nothing of whether it still is.
  // Nor does one link's end say anything new of the others, whose figure the median may be.
  const double now_healthy = health();
  if (measure.bytes_per_s > 0 || (link.failed && now_healthy <= 0) || now_healthy >= gear_facts::kGoodLink) ++samples_;
}

double LinkBook::Link::share() const {
  if (failed) return 0;
  return usual <= 0 ? 1 : std::min(1.0, now / usual);
}

void LinkBook::keep_only(const std::vector<std::string>& peers) {
  std::erase_if(links_,
                [&](const auto& entry) { return std::find(peers.begin(), peers.end(), entry.first) == peers.end(); });
}

double LinkBook::health() const {
  if (links_.empty()) return 1;
  std::vector<double> shares;
  for (const auto& [peer, link] : links_) shares.push_back(link.share());
  const auto median = shares.begin() + static_cast<std::ptrdiff_t>((shares.size() - 1) / 2);
  std::nth_element(shares.begin(), median, shares.end(), std::greater<>());
  return *median;
}

std::vector<gear_facts::LinkFacts> LinkBook::facts(Instant now) const {
  std::vector<gear_facts::LinkFacts> all;
  for (const auto& [peer, link] : links_) {
    gear_facts::LinkFacts facts;
    facts.peer = peer;
    facts.failed = link.failed;
    facts.latency_us = link.latency.count();
    facts.bytes_per_s = link.now;
    facts.usual_bytes_per_s = link.usual;
    facts.age_ms = elapsed(link.heard, now).count() / 1000;
    facts.bandwidth_age_ms = link.usual > 0 ? elapsed(link.measured, now).count() / 1000 : -1;
    all.push_back(std::move(facts));
  }
  return all;
}

double LinkBook::slowdown() const {
  const double share = health();
  return share * kMostSlowdown <= 1 ? kMostSlowdown : 1 / share;
}

}  // namespace gearbox::observer
