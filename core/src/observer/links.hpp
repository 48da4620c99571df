// links.hpp: how the links to the other hosts of groups are: probed actively, and cheaply.
#pragma once

#include <boost/asio/awaitable.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "gear_facts/facts.hpp"
#include "gearbox/base/clock.hpp"

namespace gearbox::observer {

/// One probe of one peer: a small message there and back, and now and then a larger one.
struct LinkMeasure {
  bool failed = false;
  microseconds latency{0};
  double bytes_per_s = 0;  // 0: not measured this time
};

/// Measures the way to other observers. A host alone has no peers.
class LinkProber {
 public:
  virtual ~LinkProber() = default;
  virtual std::vector<std::string> peers() const = 0;
  virtual bool is_due(const std::string& /*peer*/, Instant /*now*/) const { return true; }
  /// Bounded by itself; a peer that does not answer is a measure like any other.
  virtual boost::asio::awaitable<LinkMeasure> probe(std::string peer) = 0;
};

/// Of one host.
class NoPeers final : public LinkProber {
 public:
  std::vector<std::string> peers() const override { return {}; }
  boost::asio::awaitable<LinkMeasure> probe(std::string) override { co_return LinkMeasure{}; }
};

/// What was measured, against what is usual. Threads: one at a time.
///
/// What is said of this host is what its better half of links shows: when one of three peers has become slow, it is the
/// peer that suffers; when most of them have, it is this host. With a single peer nobody can tell.
class LinkBook {
 public:
  void add(const std::string& peer, const LinkMeasure& measure, Instant now);
  /// Peers that are no longer there.
  void keep_only(const std::vector<std::string>& peers);

  bool any() const { return !links_.empty(); }
  /// Are more than half of the peers out of reach?
  bool failed() const { return any() && health() <= 0; }
  /// Bandwidth now ÷ usual, of the median link, the better one of two: 0 dead, 1 as ever; 1 without any.
  double health() const;
  /// The reverse, in times; bounded.
  double slowdown() const;
  /// Rises with each measure that says something new of a link: a failure, a bandwidth, a small message over a link
  /// that is as good as ever.
  std::uint64_t samples() const { return samples_; }

  std::vector<gear_facts::LinkFacts> facts(Instant now) const;

 private:
  struct Link {
    bool failed = false;
    microseconds latency{0};
    double usual = 0;  // bytes per second: sinks slowly, so that a slow hour does not become usual
    double now = 0;
    Instant heard;     // of the last measure
    Instant measured;  // of the last bandwidth
    double share() const;
  };
  std::map<std::string, Link> links_;
  std::uint64_t samples_ = 0;
};

}  // namespace gearbox::observer
