#include "gearbox/shm/ring.hpp"
#include "pool_fixture.hpp"

#include <poll.h>

#include <csignal>
#include <fstream>

#include "gearbox/shm/attach.hpp"
#include "gearbox/shm/ring.hpp"

namespace gearbox::worker_pool {

namespace {
std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}
}  // namespace

TEST_F(PoolFixture, AWorkerKilledInACallEndsItsCallsAndIsReplaced) {
  ASSERT_TRUE(create(1, {"--do", "hang"}));
  ASSERT_TRUE(all_ready(1));
  const WorkerId lost = first();
  std::vector<Errc> heard;
  std::string detail;
  const auto hear = [&](const CallAnswer& answer) {
    heard.push_back(answer.outputs ? Errc::internal : answer.outputs.error().code);
    if (!answer.outputs) detail = answer.outputs.error().detail;
  };
  ASSERT_TRUE(pool_->call(lost, spec_with(64), hear));
  ASSERT_TRUE(pool_->call(lost, spec_with(64), hear));
  ::kill(pool_->workers()[0].pid, SIGKILL);
  ASSERT_TRUE(until([&] { return heard.size() == 2; }));
  EXPECT_EQ(heard, (std::vector<Errc>{Errc::worker_lost, Errc::worker_lost}));
  EXPECT_EQ(detail, "worker 1: its process ended: killed by signal 9");
  EXPECT_EQ(pool_->workers()[0].reason, "its process ended: killed by signal 9");
  ASSERT_TRUE(all_ready(1));
  EXPECT_NE(first(), lost);
  EXPECT_EQ(pool_->workers()[0].restarts, 1U);
  EXPECT_FALSE(pool_->call(lost, spec_with(64), hear));
  EXPECT_EQ(pool_->memory().output_used, 0U);
  EXPECT_EQ(pool_->memory().input_used, 0U);
}

TEST_F(PoolFixture, OnlyTheCallThatAWorkerHadBegunIsSuspected) {
  record().prefetch = 9;
  ASSERT_TRUE(create(1, {"--do", "die"}));
  ASSERT_TRUE(all_ready(1));
  // Seen by the worker at once; it takes eight of them, and dies in the first.
  const int pid = pool_->workers()[0].pid;
  ::kill(pid, SIGSTOP);
  std::vector<bool> begun(10);
  std::size_t heard = 0;
  for (std::size_t i = 0; i < begun.size(); ++i) {
    ASSERT_TRUE(pool_->call(first(), spec_with(64), [&, i](const CallAnswer& answer) {
      EXPECT_FALSE(answer.outputs);
      begun[i] = answer.begun;
      ++heard;
    }));
  }
  ::kill(pid, SIGCONT);
  ASSERT_TRUE(until([&] { return heard == begun.size(); }));
  std::vector<bool> expected(10, true);
  expected[8] = expected[9] = false;
  EXPECT_EQ(begun, expected);
}

TEST_F(PoolFixture, AWorkerThatDiesInEachCallIsReplacedEachTime) {
  ASSERT_TRUE(create(1, {"--do", "die"}));
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(all_ready(1)) << pool_->workers()[0].reason;
    const CallAnswer answer = answer_to(first(), spec_with(64));
    ASSERT_FALSE(answer.outputs);
    EXPECT_EQ(answer.outputs.error().code, Errc::worker_lost);
  }
  ASSERT_TRUE(all_ready(1));
}

TEST_F(PoolFixture, SlabsOfAKilledCallAreKeptUntilTheProcessIsGone) {
  ASSERT_TRUE(create(1, {"--do", "lie:request"}));
  ASSERT_TRUE(all_ready(1));
  std::optional<CallAnswer> got;
  std::uint64_t held = 0;
  ASSERT_TRUE(pool_->call(first(), spec_with(64), [&](CallAnswer answer) {
    got = std::move(answer);
    held = pool_->workers()[0].pid != 0 ? pool_->memory().output_used : 1;
  }));
  ASSERT_TRUE(until([&] { return got.has_value(); }));
  EXPECT_EQ(got->outputs.error().code, Errc::bad_result) << describe(got->outputs.error());
  EXPECT_GT(held, 0U);
  ASSERT_TRUE(all_ready(1));
  EXPECT_EQ(pool_->memory().output_used, 0U);
}

TEST_F(PoolFixture, AWorkerThatCannotStartFailsAfterACountWithItsReason) {
  timing_.start_tries = 3;
  ASSERT_TRUE(create(1, {"--do", "no_start"}));
  ASSERT_TRUE(state_is("failed"));
  // Its end may be noticed before its words.
  const std::string words = "ModuleNotFoundError: No module named 'cheese'";
  EXPECT_TRUE(until([&] { return pool_->workers()[0].reason == words; })) << pool_->workers()[0].reason;
  EXPECT_EQ(launcher_->orders.size(), 3U);
}

TEST_F(PoolFixture, AFailedWorkerIsTriedAgainWhenItsModelsFolderChanges) {
  timing_.start_tries = 1;
  record().folder = root_ / "model";
  std::filesystem::create_directories(root_ / "model");
  ASSERT_TRUE(create(1, {"--do", "no_start"}));
  ASSERT_TRUE(state_is("failed"));
  launcher_->set_more({});
  std::ofstream(root_ / "model/model.py") << "mended";
  EXPECT_TRUE(all_ready(1));
}

TEST_F(PoolFixture, AFailedWorkerIsTriedAgainAfterAWhile) {
  timing_.start_tries = 1;
  timing_.retry_failed = milliseconds(300);
  ASSERT_TRUE(create(1, {"--do", "no_start"}));
  ASSERT_TRUE(state_is("failed"));
  launcher_->set_more({});
  EXPECT_TRUE(all_ready(1));
}

TEST_F(PoolFixture, WantOfMemoryOrDescriptorsIsNoFaultOfTheModel) {
  timing_.start_tries = 2;
  const auto silent = std::make_shared<SilentLauncher>();
  ASSERT_TRUE(create(1, {}, silent));
  for (std::size_t i = 0; i < 5; ++i) {
    ASSERT_TRUE(until([&] { return silent->waiting.size() == i + 1; })) << i;
    silent->waiting[i](Error{i % 2 == 0 ? Errc::no_space : Errc::overloaded, "not now"});
    EXPECT_NE(pool_->workers()[0].state, "failed");
  }
  for (std::size_t i = 5; i < 7; ++i) {
    ASSERT_TRUE(until([&] { return silent->waiting.size() == i + 1; })) << i;
    silent->waiting[i](Error{Errc::bad_input, "no such program"});
  }
  EXPECT_EQ(pool_->workers()[0].state, "failed");
  EXPECT_EQ(pool_->workers()[0].reason, "cannot be started: bad_input: no such program");
}

TEST_F(PoolFixture, AWorkerThatExitsBeforeItAttachesFailsToo) {
  timing_.start_tries = 2;
  ASSERT_TRUE(create(1, {"--do", "exit"}));
  ASSERT_TRUE(state_is("failed"));
  EXPECT_EQ(pool_->workers()[0].reason, "its process ended: exit code 3");
}

/// Its processes have ended, and are reaped, before anybody hears of them.
class DeadOnArrival final : public Launcher {
 public:
  explicit DeadOnArrival(boost::asio::io_context& io) : io_(io) {}
  void launch(Order, std::function<void(Outcome<int>)> started) override {
    const int pid = ::fork();
    if (pid == 0) ::_exit(127);
    ::waitpid(pid, nullptr, 0);
    boost::asio::post(io_, [started = std::move(started), pid] { started(pid); });
  }
  void how_ended(int, std::function<void(End)> told) override {
    boost::asio::post(io_, [told = std::move(told)] { told({.how = "exit code 127", .outgrown = false}); });
  }
  void stop(int, milliseconds) override {}
  void cancel_all() override {}

 private:
  boost::asio::io_context& io_;
};

TEST_F(PoolFixture, AWorkerThatEndsAtOnceFailsWithItsExitCode) {
  timing_.start_tries = 2;
  ASSERT_TRUE(create(1, {}, std::make_shared<DeadOnArrival>(io_)));
  ASSERT_TRUE(state_is("failed"));
  EXPECT_EQ(pool_->workers()[0].reason, "its process ended: exit code 127");
  stop();
}

TEST_F(PoolFixture, AWorkerThatNeverAttachesIsKilledAtTheLoadLimit) {
  record().load_timeout_ms = 300;
  timing_.start_tries = 1;
  ASSERT_TRUE(create(1, {"--do", "never_attach"}));
  ASSERT_TRUE(state_is("failed"));
  EXPECT_EQ(pool_->workers()[0].reason, "it did not attach within 300 ms");
}

TEST_F(PoolFixture, AWorkerKilledWhileStartingIsStartedAgain) {
  ASSERT_TRUE(create(1, {"--do", "never_attach"}));
  ASSERT_TRUE(state_is("loading"));
  launcher_->set_more({});
  ::kill(pool_->workers()[0].pid, SIGKILL);
  EXPECT_TRUE(all_ready(1));
}

TEST_F(PoolFixture, AStoppedWorkerIsSuspectThenKilledAndReplaced) {
  ASSERT_TRUE(create(1));
  ASSERT_TRUE(all_ready(1));
  const WorkerId stopped = first();
  ::kill(pool_->workers()[0].pid, SIGSTOP);
  ASSERT_TRUE(state_is("suspect"));
  EXPECT_TRUE(pool_->ready("echo", "1").empty());
  ASSERT_TRUE(until([&] { return !pool_->ready("echo", "1").empty() && first() != stopped; }));
}

TEST_F(PoolFixture, AWorkerThatWasOnlyPausedIsReadyAgain) {
  timing_.silent = timing_.frozen = milliseconds(10'000);
  record().call_timeout_ms = 200;
  ASSERT_TRUE(create(1));
  ASSERT_TRUE(all_ready(1));
  const WorkerView before = pool_->workers()[0];
  ::kill(before.pid, SIGSTOP);
  std::optional<CallAnswer> heard;
  ASSERT_TRUE(pool_->call(before.id, spec_with(64), [&](CallAnswer answer) { heard = std::move(answer); }));
  ASSERT_TRUE(state_is("suspect"));
  // It had not begun: others may do it.
  ASSERT_TRUE(until([&] { return heard.has_value(); }));
  ASSERT_FALSE(heard->outputs);
  EXPECT_EQ(heard->outputs.error().code, Errc::worker_lost);
  EXPECT_FALSE(heard->begun);
  ::kill(before.pid, SIGCONT);
  ASSERT_TRUE(state_is("ready"));
  EXPECT_EQ(first(), before.id);
  EXPECT_TRUE(answer_to(first(), spec_with(64)).outputs);
  EXPECT_EQ(pool_->memory().input_used, 0U);
}

TEST_F(PoolFixture, AHangingCallEndsAndTheWorkerIsReplaced) {
  record().call_timeout_ms = 200;
  ASSERT_TRUE(create(1, {"--do", "hang"}));
  ASSERT_TRUE(all_ready(1));
  const CallAnswer answer = answer_to(first(), spec_with(64));
  ASSERT_FALSE(answer.outputs);
  EXPECT_EQ(answer.outputs.error().code, Errc::worker_lost);
  EXPECT_TRUE(all_ready(1));
}

class LyingWorker : public PoolFixture, public ::testing::WithParamInterface<const char*> {};

TEST_P(LyingWorker, IsEndedAndTheNodeLives) {
  ASSERT_TRUE(create(1, {"--do", std::string("lie:") + GetParam()}));
  ASSERT_TRUE(all_ready(1));
  const WorkerId liar = first();
  std::vector<Errc> heard;
  const auto hear = [&](const CallAnswer& answer) {
    heard.push_back(answer.outputs ? Errc::internal : answer.outputs.error().code);
  };
  ASSERT_TRUE(pool_->call(liar, spec_with(64), hear));
  const auto second = pool_->call(liar, spec_with(64), hear);
  ASSERT_TRUE(until([&] { return !heard.empty() && (!second || heard.size() == 2); }));
  launcher_->set_more({});
  if (std::string_view(GetParam()) == "tail") {
    // The lie stands where the node looks only when it believes the ring is full: hand over until it looks.
    while (first() == liar && pool_->workers()[0].calls < 2 * shm::kRingCapacity) {
      const auto call = pool_->call(liar, spec_with(64), hear);
      const std::size_t target = pool_->workers()[0].calls;
      ASSERT_TRUE(until([&] { return heard.size() >= target || first() != liar || !call; }));
      if (!call) break;
    }
  }
  ASSERT_TRUE(until([&] { return first() != liar && !pool_->ready("echo", "1").empty(); }));
  const CallAnswer good = answer_to(first(), spec_with(64));
  EXPECT_TRUE(good.outputs.has_value());
  EXPECT_EQ(pool_->memory().input_used, 0U);
}
INSTANTIATE_TEST_SUITE_P(Each, LyingWorker,
                         ::testing::Values("head", "head_back", "tail", "request", "attempt", "kind", "block_offset",
                                           "block_bytes", "block_arena", "tensors", "text", "dtype", "rank", "shape",
                                           "tensor_offset", "tensor_bytes", "name"));

TEST_F(PoolFixture, RandomLiesNeverHurtTheNode) {
  timing_.backoff_most = milliseconds(20);
  ASSERT_TRUE(create(1, {"--do", "lie:random", "--seed", "1"}));
  for (int seed = 2; seed < 40; ++seed) {
    ASSERT_TRUE(all_ready(1));
    bool heard = false;
    ASSERT_TRUE(pool_->call(first(), spec_with(64), [&](const CallAnswer&) { heard = true; }));
    launcher_->set_more({"--do", "lie:random", "--seed", std::to_string(seed)});
    RecordProperty("seed", seed);
    // A lie may look like silence; the call's own limit is the last resort, here a kill.
    if (!until([&] { return heard || pool_->workers()[0].running == 0; })) FAIL() << "seed " << seed;
  }
  launcher_->set_more({});
  const WorkerId last = first();
  if (pool_->workers()[0].pid > 0) ::kill(pool_->workers()[0].pid, SIGKILL);
  ASSERT_TRUE(until([&] { return first() != last || pool_->workers()[0].pid == 0; }));
  ASSERT_TRUE(all_ready(1));
  EXPECT_TRUE(answer_to(first(), spec_with(64)).outputs.has_value());
}

TEST_F(PoolFixture, NothingIsLeftAfterManyDeaths) {
  timing_.backoff_most = milliseconds(20);
  ASSERT_TRUE(create(2));
  ASSERT_TRUE(all_ready(2));
  const std::size_t before = open_descriptors();
  for (int i = 0; i < 20; ++i) {
    ::kill(pool_->workers()[0].pid, SIGKILL);
    const std::uint32_t restarts = static_cast<std::uint32_t>(i) + 1;
    ASSERT_TRUE(until([&] {
      std::uint32_t sum = 0;
      for (const WorkerView& worker : pool_->workers()) sum += worker.restarts;
      return sum == restarts && pool_->ready("echo", "1").size() == 2;
    }));
  }
  EXPECT_EQ(open_descriptors(), before);
  stop();
  pool_.reset();
  EXPECT_FALSE(std::filesystem::exists(root_ / "run/workers.sock"));
}

TEST_F(PoolFixture, AStrangerIsRefusedAndSilentPeersDoNotHoldTheSocket) {
  ASSERT_TRUE(create(1));
  ASSERT_TRUE(all_ready(1));
  auto stranger = shm::dial(root_ / "run/workers.sock");
  ASSERT_TRUE(stranger);
  shm::WorkerHello hello;
  hello.model = "echo";
  hello.version = "1";
  hello.slot = 1;
  ASSERT_TRUE(shm::send_message(stranger.value().get(), shm::AttachBody(hello), {}));
  pollfd ready{stranger.value().get(), POLLIN, 0};
  ASSERT_TRUE(until([&] { return ::poll(&ready, 1, 0) == 1; }));
  auto answer = shm::receive_message(stranger.value().get());
  ASSERT_TRUE(answer);
  ASSERT_TRUE(std::holds_alternative<shm::ExitNotice>(answer.value().body));
  EXPECT_EQ(std::get<shm::ExitNotice>(answer.value().body).reason, "no worker with this process id is awaited here");
  EXPECT_TRUE(answer_to(first(), spec_with(64)).outputs);
}

}  // namespace gearbox::worker_pool
