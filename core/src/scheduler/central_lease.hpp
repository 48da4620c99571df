// central_lease.hpp: the lease that this host's central keeps.
#pragma once

#include <boost/asio/any_io_executor.hpp>

#include <filesystem>

#include "scheduler/lease.hpp"

namespace gearbox::scheduler {

class CentralLease final : public Lease {
 public:
  CentralLease(boost::asio::any_io_executor executor, std::filesystem::path central_socket)
      : executor_(std::move(executor)), socket_(std::move(central_socket)) {}

  boost::asio::awaitable<Outcome<LeaseAnswer>> ask(std::string holder, milliseconds ttl,
                                                   std::optional<std::uint64_t> term, std::uint64_t above) override;
  boost::asio::awaitable<void> release(std::string holder, std::uint64_t term) override;

 private:
  boost::asio::any_io_executor executor_;
  std::filesystem::path socket_;
};

}  // namespace gearbox::scheduler
