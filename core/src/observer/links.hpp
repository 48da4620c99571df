// links.hpp: how the links to the other hosts of groups are: probed actively, and cheaply.
#pragma once

#include <boost/asio/awaitable.hpp>

#include <map>
#include <string>
#include <vector>

#include "gearbox/base/clock.hpp"

namespace gearbox::observer {

/// One probe of one peer: a small message there and back, and a larger one.
struct LinkMeasure {
  bool failed = false;
  microseconds latency{0};
  double bytes_per_s = 0;
};

/// Measures the way to other observers. A host alone has no peers.
class LinkProber {
 public:
  virtual ~LinkProber() = default;
  virtual std::vector<std::string> peers() const = 0;
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
class LinkBook {
 public:
  void add(const std::string& peer, const LinkMeasure& measure);
  /// Peers that are no longer there.
  void keep_only(const std::vector<std::string>& peers);

  bool any() const { return !links_.empty(); }
  /// Did the last probe of some peer fail?
  bool failed() const;
  /// Of the worst link, its bandwidth now ÷ usual: 0 dead, 1 as ever; 1 without any.
  double health() const;
  /// The reverse, in times; bounded.
  double slowdown() const;

 private:
  struct Link {
    bool failed = false;
    double usual = 0;  // bytes per second: rises at once, sinks slowly, so that a slow hour does not become usual
    double now = 0;
  };
  std::map<std::string, Link> links_;
};

}  // namespace gearbox::observer
