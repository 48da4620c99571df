// tcp_prober.hpp: probes the links to other hosts' observers: small messages often, a bounded burst seldom.
#pragma once

#include <boost/asio/any_io_executor.hpp>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "observer/links.hpp"

namespace gearbox::observer {

/// Everything on the strand of its executor. One connection to each peer, kept open and dialled again.
class TcpProber final : public LinkProber {
 public:
  /// How long things may take.
  struct Limits {
    milliseconds probe{3'000};  // a whole one; what does not answer by then has failed
    milliseconds burst{1'000};  // after so long no more of a burst is sent: a slow link is measured with less
  };
  TcpProber(boost::asio::any_io_executor executor, const config::LinksConfig& links, const Limits& limits);
  TcpProber(boost::asio::any_io_executor executor, const config::LinksConfig& links)
      : TcpProber(std::move(executor), links, Limits()) {}
  ~TcpProber() override;

  std::vector<std::string> peers() const override { return links_.peers; }
  bool is_due(const std::string& peer, Instant now) const override;
  boost::asio::awaitable<LinkMeasure> probe(std::string peer) override;

 private:
  struct Peer;
  boost::asio::any_io_executor executor_;
  config::LinksConfig links_;
  Limits limits_;
  std::map<std::string, std::shared_ptr<Peer>> peers_;
};

}  // namespace gearbox::observer
