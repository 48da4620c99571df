// central_lease.hpp: the lease that central keeps: this host's, asked at its control socket; else the one that this
// host's node reports to, through that node.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/json/object.hpp>

#include <string>

#include "config/state_dir.hpp"
#include "gear_facts/times.hpp"
#include "scheduler/lease.hpp"

namespace gearbox::scheduler {

class CentralLease final : public Lease {
 public:
  /// `name`: of the lease.
  CentralLease(boost::asio::any_io_executor executor, config::StateDir state, std::string name)
      : executor_(std::move(executor)),
        state_(std::move(state)),
        name_(std::move(name)),
        question_(static_cast<std::uint64_t>(gear_facts::boot_ms()) * 1000) {}

  boost::asio::awaitable<Outcome<LeaseAnswer>> ask(std::string holder, milliseconds ttl,
                                                   std::optional<std::uint64_t> term, std::uint64_t above) override;
  boost::asio::awaitable<void> release(std::string holder, std::uint64_t term) override;

 private:
  boost::asio::awaitable<Outcome<boost::json::object>> ask_somebody(boost::json::object command, milliseconds within);
  boost::asio::awaitable<Outcome<boost::json::object>> ask_node(boost::json::object command, milliseconds within);

  boost::asio::any_io_executor executor_;
  config::StateDir state_;
  std::string name_;
  /// Of the last question to the node. Higher than those of the scheduler before it: the node may still know one.
  std::uint64_t question_;
};

}  // namespace gearbox::scheduler
