// follow_fixture.hpp: a pool whose workers load what their model's folder says (NAME@VERSION), and a configuration that
// changes under it.
#pragma once

#include <csignal>
#include <map>
#include <set>

#include "pool_fixture.hpp"

namespace gearbox::worker_pool {

/// A worker says that it loaded what its folder is called, and does what `habits` has for it.
class ByFolder final : public Launcher {
 public:
  explicit ByFolder(boost::asio::io_context& io) : children_(io) {}
  void launch(Order order, std::function<void(Outcome<int>)> started) override {
    const auto folder = std::find(order.argv.begin(), order.argv.end(), "--model") + 1;
    const std::string what = std::filesystem::path(*folder).filename();
    const std::size_t at = what.find('@');
    order.argv.insert(order.argv.end(), {"--name", what.substr(0, at), "--version", what.substr(at + 1)});
    if (habits.contains(what)) order.argv.insert(order.argv.end(), {"--do", habits.at(what)});
    roles.push_back(order.role);
    orders.push_back(order);
    children_.launch(std::move(order), std::move(started));
  }
  void stop(int pid, milliseconds grace) override {
    stopped.insert(pid);
    if (!deaf) children_.stop(pid, grace);
  }
  void cancel_all() override { children_.cancel_all(); }
  void wait_for_all() { children_.wait_for_all(); }

  std::map<std::string, std::string> habits;  // NAME@VERSION → --do
  std::vector<std::string> roles;
  std::vector<Order> orders;
  std::set<int> stopped;
  bool deaf = false;  // stop() is only noted

 private:
  test_support::ForkLauncher children_;
};

class FollowFixture : public PoolFixture {
 protected:
  FollowFixture() {
    config_.models.clear();
    // On a busy machine a worker may be slow, and some are stopped on purpose; none of these tests is about that.
    timing_.silent = timing_.frozen = timing_.late = milliseconds(60'000);
  }
  ~FollowFixture() override {
    pool_.reset();
    by_folder_.reset();
  }

  model::Record& add_model(const std::string& name, const std::string& version, const std::string& digest = "") {
    model::Record record;
    record.name = name;
    record.version = version;
    record.digest = digest;
    record.folder = root_ / (name + "@" + version);
    record.max_output_bytes = 1 << 16;
    return config_.models.emplace_back(record);
  }
  void drop_model(const std::string& name, const std::string& version) {
    std::erase_if(config_.models,
                  [&](const model::Record& record) { return record.name == name && record.version == version; });
  }
  void want(const std::string& model, std::uint32_t count, const std::string& version = "") {
    config::WorkerConfig worker;
    worker.model = model;
    worker.version = version;
    worker.env = "none";
    worker.count = count;
    config_.workers.push_back(worker);
  }
  /// Starts the pool with the configuration as it stands.
  void begin() {
    by_folder_ = std::make_shared<ByFolder>(io_);
    by_folder_->habits = habits_;
    WorkerPool::Setup setup;
    setup.io = &io_;
    setup.state.root = root_;
    setup.config = snapshot();
    setup.launcher = by_folder_;
    setup.shim = ECHO_WORKER;
    setup.timing = timing_;
    setup.look_at_gpus = look_at_gpus_;
    auto pool = WorkerPool::create(std::move(setup));
    ASSERT_TRUE(pool) << describe(pool.error());
    pool_ = std::move(pool).value();
    pool_->start_workers();
  }
  config::Snapshot snapshot() const { return std::make_shared<const config::Config>(config_); }
  void reload() { pool_->apply(snapshot()); }

  std::size_t count_of(std::string_view version, std::string_view state) const {
    const auto workers = pool_->workers();
    return static_cast<std::size_t>(std::count_if(workers.begin(), workers.end(), [&](const WorkerView& worker) {
      return worker.version == version && (state.empty() || worker.state == state);
    }));
  }
  bool becomes(std::string_view version, std::string_view state, std::size_t count = 1) {
    return until([&] { return count_of(version, state) == count; });
  }
  bool leaves(std::string_view version) { return becomes(version, "", 0); }
  WorkerView only(std::string_view version) const {
    for (const WorkerView& worker : pool_->workers()) {
      if (worker.version == version) return worker;
    }
    ADD_FAILURE() << "no worker of version " << version;
    return {};
  }
  /// Some rounds of the loop in which something wrong would have happened.
  void some_time() {
    const Instant end = Clock::now() + 6 * timing_.heartbeat;
    EXPECT_TRUE(until([&] { return Clock::now() > end; }));
  }
  CallSpec small_call() {
    CallSpec spec;
    const SlabPtr slab = filled(64, std::byte{7});
    spec.inputs.push_back({{"x", wire::DType::uint8, {64}, 64}, 0, slab, 0});
    spec.deadline = Instant::max();
    spec.grant_bytes = 1 << 16;
    return spec;
  }

  std::map<std::string, std::string> habits_;
  std::shared_ptr<ByFolder> by_folder_;
};

}  // namespace gearbox::worker_pool
