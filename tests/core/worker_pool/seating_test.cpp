// Workers and GPUs: where a process is put before it is started, who waits, and who gets a seat that becomes free.
#include "follow_fixture.hpp"

namespace gearbox::worker_pool {
namespace {

gpu::Look seen(const std::vector<std::uint64_t>& total_mb, const std::vector<std::uint64_t>& used_mb = {}) {
  gpu::Look look;
  look.sight = gpu::Sight::seen;
  look.at = Clock::now() + std::chrono::minutes(10);  // no slow machine makes it old, or older than a worker
  for (std::size_t i = 0; i < total_mb.size(); ++i) {
    gpu::Gpu gpu;
    gpu.index = static_cast<std::uint32_t>(i);
    gpu.uuid = "GPU-" + std::string(1, static_cast<char>('a' + i));
    gpu.total_bytes = total_mb[i] << 20;
    if (i < used_mb.size()) gpu.used_bytes = used_mb[i] << 20;
    look.gpus.push_back(gpu);
  }
  return look;
}

class Seating : public FollowFixture {
 protected:
  Seating() {
    look_at_gpus_ = [this] { ++asked_; };
  }
  /// A version of the echo model that needs so much.
  model::Record& add(const std::string& version, std::uint64_t memory_mb) {
    model::Record& record = add_model("echo", version);
    record.memory_mb = memory_mb;
    return record;
  }
  void want_on(const std::string& devices, std::uint32_t count, const std::string& version = "") {
    want("echo", count, version);
    config_.workers.back().devices = devices;
  }
  /// "GPU-a" of the worker of that version; what it waits for when it waits.
  std::string seat_of(std::string_view version) const {
    const WorkerView worker = only(version);
    if (worker.state == "waiting") return worker.reason;
    return worker.gpus.size() == 1 ? worker.gpus[0] : std::to_string(worker.gpus.size()) + " GPUs";
  }
  /// The value of that variable in the order number `order`; "(unset)".
  std::string variable(std::size_t order, const std::string& name) const {
    for (const std::string& each : by_folder_->orders.at(order).env) {
      if (each.starts_with(name + "=")) return each.substr(name.size() + 1);
    }
    return "(unset)";
  }
  std::string option(std::size_t order, const std::string& name) const {
    const auto& argv = by_folder_->orders.at(order).argv;
    const auto found = std::find(argv.begin(), argv.end(), name);
    return found == argv.end() ? "(unset)" : *(found + 1);
  }

  int asked_ = 0;  // how often a look was asked for
};

TEST_F(Seating, AProcessIsToldItsGpuBeforeItStarts) {
  add("1", 3000);
  want_on("cuda", 1);
  begin();
  EXPECT_EQ(seat_of("1"), "waits for NVML's first answer");
  EXPECT_TRUE(by_folder_->orders.empty());
  pool_->gpus_seen(seen({4000, 8000}));
  ASSERT_TRUE(becomes("1", "ready"));
  EXPECT_EQ(variable(0, "CUDA_VISIBLE_DEVICES"), "GPU-b");
  EXPECT_EQ(variable(0, "CUDA_DEVICE_ORDER"), "PCI_BUS_ID");
  EXPECT_EQ(option(0, "--device"), "cuda:0");
  EXPECT_EQ(option(0, "--devices"), "cuda");
  EXPECT_EQ(seat_of("1"), "GPU-b");
  EXPECT_EQ(only("1").gpu_memory_mb, 3000U);
  const auto gpus = pool_->gpus();
  ASSERT_EQ(gpus.size(), 2U);
  EXPECT_TRUE(gpus[0].workers.empty());
  EXPECT_EQ(gpus[0].left_mb, 4000U);
  EXPECT_EQ(gpus[1].workers, std::vector<WorkerId>{only("1").id});
  EXPECT_EQ(gpus[1].left_mb, 5000U);
}

TEST_F(Seating, CpuWorkersSeeNoneAndOthersAreLeftAlone) {
  add("1", 3000);
  add("2", 3000);
  want_on("cpu", 1, "1");
  want_on("", 1, "2");
  begin();  // nobody has told of GPUs yet: they need none
  ASSERT_TRUE(becomes("1", "ready"));
  ASSERT_TRUE(becomes("2", "ready"));
  EXPECT_EQ(variable(0, "CUDA_VISIBLE_DEVICES"), "");
  EXPECT_EQ(option(0, "--device"), "cpu");
  EXPECT_EQ(variable(1, "CUDA_VISIBLE_DEVICES"), "(unset)");
  EXPECT_EQ(option(1, "--device"), "(unset)");
}

TEST_F(Seating, WithoutNvmlAWorkerStartsAsItIs) {
  add("1", 3000);
  add("2", 3000);
  want_on("cuda", 1, "1");
  want_on("cuda:3,cuda:1", 1, "2");
  begin();
  gpu::Look none;
  none.sight = gpu::Sight::none;
  none.why = "no library";
  none.at = Clock::now();
  pool_->gpus_seen(none);
  ASSERT_TRUE(becomes("1", "ready"));
  ASSERT_TRUE(becomes("2", "ready"));
  EXPECT_EQ(variable(0, "CUDA_VISIBLE_DEVICES"), "(unset)");
  EXPECT_EQ(option(0, "--device"), "cuda");
  EXPECT_EQ(variable(1, "CUDA_VISIBLE_DEVICES"), "3,1");
  EXPECT_EQ(option(1, "--device"), "cuda:0,cuda:1");
}

TEST_F(Seating, OneThatDoesNotFitWaitsAndIsStartedWhenItDoes) {
  add("1", 6000);
  want_on("cuda", 1);
  begin();
  pool_->gpus_seen(seen({8000, 8000}, {3904, 5000}));
  EXPECT_EQ(seat_of("1"), "no GPU has 6000 MB free; most: GPU 0 with 4096");
  EXPECT_EQ(pool_->resolve(config_, "echo", "1").service, Service::coming);
  EXPECT_TRUE(by_folder_->orders.empty());
  pool_->gpus_seen(seen({8000, 8000}, {3904, 1000}));
  ASSERT_TRUE(becomes("1", "ready"));
  EXPECT_EQ(variable(0, "CUDA_VISIBLE_DEVICES"), "GPU-b");
  EXPECT_EQ(only("1").reason, "");
  EXPECT_EQ(only("1").restarts, 0U);
}

TEST_F(Seating, OneThatCanNeverFitIsNotComing) {
  add("1", 9000);
  want_on("cuda", 1);
  begin();
  EXPECT_EQ(pool_->resolve(config_, "echo", "1").service, Service::coming) << "NVML may tell of a large one";
  const auto before = pool_->generation();
  pool_->gpus_seen(seen({8000}));
  EXPECT_EQ(seat_of("1"), "no GPU has 9000 MB; the largest: GPU 0 with 8000");
  EXPECT_EQ(pool_->resolve(config_, "echo", "1").service, Service::none);
  EXPECT_NE(pool_->generation(), before);
}

TEST_F(Seating, AKilledWorkerKeepsItsSeatFromThoseThatWait) {
  timing_.backoff_first = milliseconds(300);
  add("1", 5000);
  add("2", 5000);
  want_on("cuda", 1, "1");
  want_on("cuda", 1, "2");
  begin();
  pool_->gpus_seen(seen({8000}));
  ASSERT_TRUE(becomes("1", "ready"));
  EXPECT_EQ(seat_of("2"), "no GPU has 5000 MB free; most: GPU 0 with 3000");
  const int asked = asked_;
  ::kill(only("1").pid, SIGKILL);
  ASSERT_TRUE(until([&] { return asked_ > asked; })) << "its memory is free: that should be seen soon";
  EXPECT_EQ(only("1").state, "gone");
  pool_->gpus_seen(seen({8000}));
  EXPECT_EQ(only("2").state, "waiting");
  ASSERT_TRUE(becomes("1", "ready"));
  EXPECT_EQ(variable(1, "CUDA_VISIBLE_DEVICES"), "GPU-a");
  EXPECT_EQ(only("2").state, "waiting");
}

TEST_F(Seating, FiguresFromBeforeItsEndDoNotCostAWorkerItsSeat) {
  add("1", 6000);
  add("2", 5000);
  want_on("cuda", 1, "1");
  want_on("cuda", 1, "2");
  begin();
  pool_->gpus_seen(seen({8000}, {2500}));
  EXPECT_EQ(seat_of("1"), "no GPU has 6000 MB free; most: GPU 0 with 5500");
  ASSERT_TRUE(becomes("2", "ready"));
  gpu::Look last = seen({8000}, {5000});
  last.at = Clock::now();
  pool_->gpus_seen(last);
  ::kill(only("2").pid, SIGKILL);
  ASSERT_TRUE(becomes("2", "waiting"));
  EXPECT_EQ(only("2").reason, "no GPU has 5000 MB free; most: GPU 0 with 3000");
  pool_->gpus_seen(seen({8000}));  // the first one is asked first
  EXPECT_EQ(only("1").state, "waiting");
  ASSERT_TRUE(becomes("2", "ready"));
}

TEST_F(Seating, OneThatWasGivenUpLeavesItsSeatToTheNext) {
  timing_.start_tries = 1;
  habits_["echo@1"] = "exit";
  add("1", 5000);
  add("2", 5000);
  want_on("cuda", 1, "1");
  want_on("cuda", 1, "2");
  begin();
  pool_->gpus_seen(seen({8000}));
  ASSERT_TRUE(becomes("1", "failed"));
  EXPECT_EQ(only("1").gpus.size(), 0U);
  ASSERT_TRUE(becomes("2", "ready"));
  EXPECT_EQ(seat_of("2"), "GPU-a");
}

TEST_F(Seating, ARestartAvoidsAGpuThatIsLost) {
  add("1", 5000);
  want_on("cuda", 1);
  begin();
  pool_->gpus_seen(seen({8000, 8000}));
  ASSERT_TRUE(becomes("1", "ready"));
  EXPECT_EQ(seat_of("1"), "GPU-a");
  gpu::Look lost = seen({0, 8000});
  lost.gpus[0].error = "GPU is lost";
  pool_->gpus_seen(lost);
  const int old = only("1").pid;
  ::kill(old, SIGKILL);
  ASSERT_TRUE(until([&] { return only("1").state == "ready" && only("1").pid != old; }));
  EXPECT_EQ(seat_of("1"), "GPU-b");
}

TEST_F(Seating, WhereBothVersionsDoNotFitTheOldOneEndsFirst) {
  add("1", 5000);
  want_on("cuda", 1);
  begin();
  pool_->gpus_seen(seen({8000}));
  ASSERT_TRUE(becomes("1", "ready"));
  const int old = only("1").pid;
  drop_model("echo", "1");
  add("2", 5000);
  reload();
  pool_->gpus_seen(seen({8000}, {5000}));
  EXPECT_EQ(only("2").state, "waiting");
  ASSERT_TRUE(leaves("1"));
  EXPECT_TRUE(by_folder_->stopped.contains(old));
  pool_->gpus_seen(seen({8000}));
  ASSERT_TRUE(becomes("2", "ready"));
  EXPECT_EQ(seat_of("2"), "GPU-a");
}

TEST_F(Seating, WhereTheOldOnesEndWouldNotHelpItStays) {
  add("1", 3000);
  want_on("cuda", 1);
  begin();
  pool_->gpus_seen(seen({8000}));
  ASSERT_TRUE(becomes("1", "ready"));
  pool_->gpus_seen(seen({8000}, {7000}));  // 4,000 of it are somebody else's
  drop_model("echo", "1");
  add("2", 5000);
  reload();
  some_time();
  EXPECT_EQ(count_of("1", "ready"), 1U);
  EXPECT_EQ(seat_of("2"), "no GPU has 5000 MB free; most: GPU 0 with 1000");
}

TEST_F(Seating, OneThatGrewTooLargeIsReplacedThoughAnotherWaitsForItsPlace) {
  NEEDS_PLAIN_MEMORY();
  habits_["echo@1"] = "grow";
  add("1", 5000);
  want_on("cuda", 2);
  config_.workers.back().memory_limit_bytes = 90U << 20;  // four calls of 24 MiB are above it, by less than a quarter
  begin();
  pool_->gpus_seen(seen({8000}));
  ASSERT_TRUE(becomes("1", "ready"));
  EXPECT_EQ(count_of("1", "waiting"), 1U);
  const WorkerView large = pool_->ready("echo", "1").at(0);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(answer_to(large.id, small_call()).outputs);
  ASSERT_TRUE(until([&] {
    const auto ready = pool_->ready("echo", "1");
    return ready.size() == 1 && ready[0].pid != large.pid;
  }));
  EXPECT_EQ(pool_->ended().outgrown, 1U);
}

TEST_F(Seating, ASlotThatWaitsAndIsNotWantedIsGone) {
  add("1", 9000);
  want_on("cuda", 1);
  begin();
  pool_->gpus_seen(seen({8000}));
  EXPECT_EQ(only("1").state, "waiting");
  config_.workers.clear();
  reload();
  ASSERT_TRUE(leaves("1"));
}

class SeatedReattach : public PoolFixture {
 protected:
  SeatedReattach() {
    config_.node.reattach = milliseconds(20'000);
    timing_.frozen = timing_.late = timing_.silent = milliseconds(60'000);
    devices_ = "cuda";
    record().memory_mb = 3000;
    look_at_gpus_ = [] {};
  }
  void next_node() {
    pool_.reset();
    WorkerPool::Setup setup;
    setup.io = &io_;
    setup.state.root = root_;
    setup.config = std::make_shared<const config::Config>(config_);
    setup.launcher = launcher_;
    setup.shim = ECHO_WORKER;
    setup.timing = timing_;
    setup.look_at_gpus = look_at_gpus_;
    auto pool = WorkerPool::create(std::move(setup));
    ASSERT_TRUE(pool) << describe(pool.error());
    pool_ = std::move(pool).value();
  }
};

TEST_F(SeatedReattach, AWorkerThatComesBackKeepsItsGpu) {
  ASSERT_TRUE(create(1, {"--stay", "20000"}));
  pool_->gpus_seen(seen({4000, 8000}));
  ASSERT_TRUE(all_ready(1));
  const int pid = pool_->workers()[0].pid;
  next_node();
  pool_->start_workers();
  ASSERT_TRUE(all_ready(1));  // before NVML has said anything
  EXPECT_EQ(pool_->workers()[0].pid, pid);
  pool_->gpus_seen(seen({9000, 8000}));  // another would be better by now
  EXPECT_EQ(pool_->workers()[0].gpus, std::vector<std::string>{"GPU-b"});
  EXPECT_EQ(pool_->gpus()[1].workers.size(), 1U);
  EXPECT_EQ(pool_->gpus()[1].left_mb, 5000U);
  stop();
}

TEST_F(SeatedReattach, OneWhoseGpuIsNotThereAnyMoreIsStartedAnew) {
  ASSERT_TRUE(create(1, {"--stay", "20000"}));
  pool_->gpus_seen(seen({4000, 8000}));
  ASSERT_TRUE(all_ready(1));
  const int pid = pool_->workers()[0].pid;
  next_node();
  pool_->gpus_seen(seen({4000}));
  pool_->start_workers();
  ASSERT_TRUE(all_ready(1));
  EXPECT_NE(pool_->workers()[0].pid, pid);
  EXPECT_EQ(pool_->came_back().refused, 1U);
  EXPECT_EQ(pool_->workers()[0].gpus, std::vector<std::string>{"GPU-a"});
  stop();
}

}  // namespace
}  // namespace gearbox::worker_pool
