// pool_fixture.hpp: a pool with echo workers in a folder of its own; everything is gone at the end.
#pragma once

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "support/fork_launcher.hpp"
#include "worker_pool/worker_pool.hpp"

/// For limits that a worker shall pass by a little: under ThreadSanitizer its shadow memory counts as the worker's.
#if defined(__SANITIZE_THREAD__)
#define NEEDS_PLAIN_MEMORY() GTEST_SKIP() << "NOT RUN: ThreadSanitizer's own memory counts as the worker's"
#else
#define NEEDS_PLAIN_MEMORY() static_cast<void>(0)
#endif

namespace gearbox::worker_pool {

/// A supervisor that is away for ever, and a launcher that does not even give up when told to.
class SilentLauncher final : public Launcher {
 public:
  void launch(Order, std::function<void(Outcome<int>)> started) override { waiting.push_back(std::move(started)); }
  void stop(int pid, milliseconds) override { stopped.push_back(pid); }
  void cancel_all() override { cancelled = true; }
  std::vector<std::function<void(Outcome<int>)>> waiting;
  std::vector<int> stopped;
  bool cancelled = false;
};

class PoolFixture : public ::testing::Test {
 protected:
  PoolFixture() {
    std::string folder = (std::filesystem::temp_directory_path() / "gearbox-pool-XXXXXX").string();
    root_ = ::mkdtemp(folder.data());
    std::filesystem::create_directories(root_ / "run");
    model::Record record;
    record.name = "echo";
    record.version = "1";
    record.folder = root_;
    record.max_output_bytes = 1 << 16;
    config_.models = {record};
    config_.node.limits.input_arena_bytes = 8 << 20;
    config_.node.limits.output_arena_bytes = 4 << 20;
    timing_.heartbeat = milliseconds(50);
    timing_.silent = milliseconds(400);
    timing_.memory_look = milliseconds(50);
    timing_.backoff_first = milliseconds(20);
    timing_.backoff_most = milliseconds(200);
  }
  ~PoolFixture() override {
    pool_.reset();
    launcher_.reset();
    std::filesystem::remove_all(root_);
  }

  model::Record& record() { return config_.models[0]; }

  Outcome<void> create(std::uint32_t workers, std::vector<std::string> more = {},
                       std::shared_ptr<Launcher> launcher = nullptr) {
    config::WorkerConfig worker;
    worker.model = "echo";
    worker.env = "none";
    worker.count = workers;
    worker.memory_limit_bytes = memory_limit_;
    worker.devices = devices_;
    config_.workers = {worker};
    launcher_ = std::make_shared<test_support::ForkLauncher>(io_, std::move(more));
    WorkerPool::Setup setup;
    setup.io = &io_;
    setup.state.root = root_;
    setup.config = std::make_shared<const config::Config>(config_);
    setup.launcher = launcher ? std::move(launcher) : launcher_;
    setup.shim = ECHO_WORKER;
    setup.timing = timing_;
    setup.look_at_gpus = look_at_gpus_;
    BOOST_OUTCOME_TRY(pool_, WorkerPool::create(std::move(setup)));
    pool_->start_workers();
    return done();
  }

  /// Runs the node's loop until `holds`, at most 20 s.
  bool until(const std::function<bool()>& holds) {
    const Instant limit = Clock::now() + seconds(20);
    while (!holds()) {
      if (Clock::now() > limit) return false;
      pool_->poll();
      io_.run_for(std::chrono::microseconds(200));
    }
    return true;
  }
  bool all_ready(std::size_t workers) {
    return until([&] { return pool_->ready("echo", "1").size() == workers; });
  }
  bool state_is(std::string_view state, std::size_t worker = 0) {
    return until([&] { return pool_->workers()[worker].state == state; });
  }

  SlabPtr filled(std::uint64_t bytes, std::byte with) {
    SlabPtr slab = pool_->allocate(bytes).value();
    std::fill_n(slab->bytes().begin(), bytes, with);
    return slab;
  }
  CallSpec spec_of(const SlabPtr& slab, std::uint64_t bytes) {
    CallSpec spec;
    spec.inputs.push_back({{"x", wire::DType::uint8, {static_cast<std::int64_t>(bytes)}, bytes}, 0, slab, 0});
    spec.deadline = Instant::max();
    spec.grant_bytes = record().max_output_bytes;
    return spec;
  }
  CallSpec spec_with(std::uint64_t bytes, std::byte with = std::byte{7}) { return spec_of(filled(bytes, with), bytes); }

  /// Hands a call over and runs the loop until it is answered.
  CallAnswer answer_to(WorkerId worker, CallSpec spec) {
    std::optional<CallAnswer> got;
    auto call = pool_->call(worker, std::move(spec), [&](CallAnswer answer) { got = std::move(answer); });
    if (!call) {
      CallAnswer refused;
      refused.outputs = call.error();
      return refused;
    }
    EXPECT_TRUE(until([&] { return got.has_value(); }));
    return got ? *got : CallAnswer{};
  }
  WorkerId first() { return pool_->workers().front().id; }

  void stop() {
    bool stopped = false;
    pool_->stop([&] { stopped = true; });
    EXPECT_TRUE(until([&] { return stopped; }));
    launcher_->wait_for_all();
  }

  std::filesystem::path root_;
  config::Config config_;
  std::uint64_t memory_limit_ = 0;  // of each worker that create() configures
  std::string devices_;             // of each worker that create() configures
  std::function<void()> look_at_gpus_;
  WorkerPool::Timing timing_;
  boost::asio::io_context io_;
  std::shared_ptr<test_support::ForkLauncher> launcher_;
  std::unique_ptr<WorkerPool> pool_;
};

}  // namespace gearbox::worker_pool
