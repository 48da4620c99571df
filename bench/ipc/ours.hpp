// ours.hpp: the product's own path: WorkerPool::call to one or more workers, in WorkerPool::run.
#pragma once

#include <boost/asio/io_context.hpp>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "bare.hpp"
#include "support/fork_launcher.hpp"

namespace gearbox::bench {

class Ours {
 public:
  struct Form {
    std::vector<std::string> command;  // the worker's executable and what stands before the pool's own options
    std::vector<std::string> more;     // what stands behind them
    std::filesystem::path model;       // its folder
    std::string python;                // empty: none
    std::uint32_t workers = 1;
    int node_cpu = 0;
  };
  /// Starts the workers and waits until they are ready; exits with a message when they are not within a minute.
  explicit Ours(Form form);
  ~Ours();
  Ours(const Ours&) = delete;
  Ours& operator=(const Ours&) = delete;

  /// Round trips of `bytes`, one in flight; `gap_us` of idle time between two. Large ones are written in
  /// place in the slab each time, and the sum that comes back is checked.
  Samples calls(int times, std::size_t bytes, int gap_us = 0);
  /// CPU time of node and workers, in percent of one core, while nothing happens for `how_long`.
  double idle_percent(std::chrono::seconds how_long);

 private:
  Form form_;
  std::filesystem::path root_;
  boost::asio::io_context io_;
  std::shared_ptr<test_support::ForkLauncher> launcher_;
  std::unique_ptr<worker_pool::WorkerPool> pool_;
};

}  // namespace gearbox::bench
