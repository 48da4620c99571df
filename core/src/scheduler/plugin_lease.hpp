// plugin_lease.hpp: the lease that a coordination plugin keeps, asked for on a thread of its own.
#pragma once

#include <boost/asio/thread_pool.hpp>

#include <memory>
#include <string>

#include "scheduler/lease.hpp"

namespace gearbox::scheduler {

class PluginLease final : public Lease {
 public:
  /// `name`: of the lease. `home`: see plugin::LeaseWish.
  PluginLease(std::shared_ptr<plugin::Coordination> store, std::string name, std::string home)
      : store_(std::move(store)), name_(std::move(name)), home_(std::move(home)) {}
  ~PluginLease() override { PluginLease::close(); }

  boost::asio::awaitable<Outcome<LeaseAnswer>> ask(std::string holder, milliseconds ttl,
                                                   std::optional<std::uint64_t> term, std::uint64_t above) override;
  boost::asio::awaitable<void> release(std::string holder, std::uint64_t term) override;
  void close() override;

 private:
  std::shared_ptr<plugin::Coordination> store_;
  std::string name_, home_;
  boost::asio::thread_pool thread_{1};
};

}  // namespace gearbox::scheduler
