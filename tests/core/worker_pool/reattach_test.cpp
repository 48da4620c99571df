// Workers that outlive their pool: the next one takes those that fit and tells the others to end.
#include "pool_fixture.hpp"

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sys/wait.h>

#include <csignal>
#include <set>
#include <sstream>

#include "gearbox/shm/attach.hpp"
#include "support/gate.hpp"
#include "worker_pool/pool.hpp"

namespace gearbox::worker_pool {
namespace {

std::size_t entries_of(const std::string& folder) {
  std::error_code gone;
  std::size_t count = 0;
  for (std::filesystem::directory_iterator at(folder, gone), end; !gone && at != end; at.increment(gone)) ++count;
  return count;
}
std::size_t maps_of(int pid) {
  std::FILE* const file = std::fopen(("/proc/" + std::to_string(pid) + "/maps").c_str(), "re");
  if (file == nullptr) return 0;
  std::size_t lines = 0;
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) lines += c == '\n' ? 1 : 0;
  std::fclose(file);
  return lines;
}

class Reattach : public PoolFixture {
 protected:
  Reattach() {
    config_.node.reattach = milliseconds(20'000);
    timing_.frozen = timing_.late = timing_.silent = milliseconds(60'000);  // a busy machine is none of these tests'
  }
  /// Gone without a word, as after kill -9: sockets close, workers and their launcher stay.
  void node_dies() { pool_.reset(); }
  /// The next node, with the configuration as it stands.
  void next_node(std::shared_ptr<Launcher> launcher = nullptr) {
    WorkerPool::Setup setup;
    setup.io = &io_;
    setup.state.root = root_;
    setup.config = std::make_shared<const config::Config>(config_);
    setup.launcher = launcher ? std::move(launcher) : launcher_;
    setup.shim = ECHO_WORKER;
    setup.timing = timing_;
    auto pool = WorkerPool::create(std::move(setup));
    ASSERT_TRUE(pool) << describe(pool.error());
    pool_ = std::move(pool).value();
    pool_->start_workers();
  }
  std::set<int> pids() const {
    std::set<int> all;
    for (const WorkerView& worker : pool_->workers()) all.insert(worker.pid);
    return all;
  }
  bool ended(int pid) {
    return until([&] {
      siginfo_t info{};
      return ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == pid;
    });
  }
};

TEST_F(Reattach, TheNextNodeServesWithTheProcessesOfTheLast) {
  ASSERT_TRUE(create(2, {"--stay", "20000"}));
  ASSERT_TRUE(all_ready(2));
  const std::set<int> before = pids();
  node_dies();
  next_node();
  ASSERT_TRUE(all_ready(2));
  EXPECT_EQ(pids(), before);
  EXPECT_EQ(launcher_->orders.size(), 2U);  // nothing was started
  for (const WorkerView& worker : pool_->workers()) {
    EXPECT_TRUE(worker.reattached);
    EXPECT_EQ(worker.restarts, 0U);
    EXPECT_TRUE(answer_to(worker.id, spec_with(1000)).outputs);
  }
  EXPECT_EQ(pool_->came_back().taken, 2U);
  stop();
}

TEST_F(Reattach, WhoHasComeIsNotWaitedForAnyMore) {
  ASSERT_TRUE(create(1, {"--stay", "20000"}));
  ASSERT_TRUE(all_ready(1));
  node_dies();
  next_node();
  std::vector<std::string> said;  // of the worker while it is probed
  pool_->on_change([&] {
    const WorkerView worker = pool_->workers()[0];
    if (worker.state == "probing") said.push_back(worker.reason);
  });
  ASSERT_TRUE(all_ready(1));
  ASSERT_FALSE(said.empty());
  for (const std::string& reason : said) EXPECT_EQ(reason, "");
  stop();
}

TEST_F(Reattach, TheLogNamesTheCallsThatNobodyWillBeAnswered) {
  std::ostringstream log;
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log)));
  test_support::Gate gate(root_);
  ASSERT_TRUE(create(1, {"--stay", "20000", "--do", "pace"}));
  ASSERT_TRUE(all_ready(1));
  const auto call =
      pool_->call(first(), spec_with(64, std::byte{test_support::kHeld}), [](const CallAnswer&) { FAIL(); });
  ASSERT_TRUE(call);
  ASSERT_TRUE(until([&] { return gate.is_reached(); }));
  node_dies();
  gate.open();
  next_node();
  EXPECT_TRUE(all_ready(1));
  EXPECT_EQ(pool_->came_back().taken, 1U);
  spdlog::set_default_logger(before);
  const std::string line = "event=worker_taken_back worker=worker-1 pid=" + std::to_string(*pids().begin()) +
                           " model=echo version=1 unfinished=1 calls=" + std::to_string(call.value()) + "\n";
  EXPECT_NE(log.str().find(line), std::string::npos) << log.str();
  stop();
}

TEST_F(Reattach, OneThatDiesAfterItCameBackIsReplaced) {
  ASSERT_TRUE(create(1, {"--stay", "20000"}));
  ASSERT_TRUE(all_ready(1));
  const int old = *pids().begin();
  node_dies();
  next_node();
  ASSERT_TRUE(all_ready(1));
  ::kill(old, SIGKILL);
  ASSERT_TRUE(until([&] { return pool_->workers()[0].state == "ready" && pool_->workers()[0].pid != old; }));
  EXPECT_FALSE(pool_->workers()[0].reattached);
  EXPECT_EQ(pool_->workers()[0].restarts, 1U);
  stop();
}

TEST_F(Reattach, WhatChangedMeanwhileIsToldToEndAndStartedAnew) {
  record().digest = "1111";
  ASSERT_TRUE(create(1, {"--stay", "20000", "--digest", "1111"}));
  ASSERT_TRUE(all_ready(1));
  const int old = *pids().begin();
  node_dies();
  record().digest = "2222";  // the model was edited
  launcher_->set_more({"--digest", "2222"});
  next_node();
  ASSERT_TRUE(all_ready(1));
  EXPECT_NE(*pids().begin(), old);
  EXPECT_TRUE(ended(old));
  EXPECT_EQ(pool_->came_back().refused, 1U);
  EXPECT_EQ(pool_->came_back().taken, 0U);
  stop();
}

TEST_F(Reattach, MoreThanAreWantedEnd) {
  ASSERT_TRUE(create(3, {"--stay", "20000"}));
  ASSERT_TRUE(all_ready(3));
  const std::set<int> before = pids();
  node_dies();
  config_.workers[0].count = 1;
  next_node();
  ASSERT_TRUE(all_ready(1));
  EXPECT_TRUE(before.contains(*pids().begin()));
  for (const int pid : before) {
    if (pid == *pids().begin()) continue;
    EXPECT_TRUE(ended(pid));
  }
  EXPECT_EQ(launcher_->orders.size(), 3U);
  stop();
}

TEST_F(Reattach, AnotherEnvironmentIsKnownFromTheListAndWaitsForNobody) {
  ASSERT_TRUE(create(1, {"--stay", "20000"}));
  ASSERT_TRUE(all_ready(1));
  const int old = *pids().begin();
  node_dies();
  config_.workers[0].env = "other";
  next_node();
  ASSERT_TRUE(all_ready(1));
  EXPECT_NE(*pids().begin(), old);
  EXPECT_TRUE(ended(old));
  stop();
}

TEST_F(Reattach, OneThatDoesNotComeInTimeIsEndedAndReplaced) {
  ASSERT_TRUE(create(1, {"--stay", "20000"}));
  ASSERT_TRUE(all_ready(1));
  const int old = *pids().begin();
  ::kill(old, SIGSTOP);
  node_dies();
  config_.node.reattach = milliseconds(300);
  next_node();
  EXPECT_TRUE(until([&] { return pool_->workers()[0].reason.find(std::to_string(old)) != std::string::npos; }));
  EXPECT_EQ(launcher_->orders.size(), 1U);  // no second process while it may come
  ASSERT_TRUE(all_ready(1));
  EXPECT_NE(*pids().begin(), old);
  EXPECT_EQ(pool_->came_back().late, 1U);
  ::kill(old, SIGCONT);  // it was told to end meanwhile
  EXPECT_TRUE(ended(old));
  stop();
}

TEST_F(Reattach, OneThatDiesBeforeItComesIsReplacedAtOnce) {
  ASSERT_TRUE(create(1, {"--stay", "20000"}));
  ASSERT_TRUE(all_ready(1));
  const int old = *pids().begin();
  ::kill(old, SIGSTOP);
  node_dies();
  config_.node.reattach = milliseconds(60'000);
  next_node();
  ASSERT_TRUE(until([&] { return pool_->workers()[0].reason.find(std::to_string(old)) != std::string::npos; }));
  ::kill(old, SIGKILL);
  ASSERT_TRUE(all_ready(1));  // within 20 s, long before the minute is over
  EXPECT_NE(*pids().begin(), old);
  stop();
}

TEST_F(Reattach, ALateAnswerToTheLastNodeReachesNobody) {
  ASSERT_TRUE(create(1, {"--stay", "20000"}));
  ASSERT_TRUE(all_ready(1));
  const int old = *pids().begin();
  // The call lies in the ring of a worker that stands still while its node dies: it runs it afterwards.
  ::kill(old, SIGSTOP);
  bool answered = false;
  ASSERT_TRUE(pool_->call(first(), spec_with(5000, std::byte{1}), [&](CallAnswer) { answered = true; }));
  node_dies();
  next_node();
  ::kill(old, SIGCONT);
  ASSERT_TRUE(all_ready(1));
  EXPECT_EQ(*pids().begin(), old);
  const CallAnswer own = answer_to(first(), spec_with(4000, std::byte{9}));
  ASSERT_TRUE(own.outputs) << describe(own.outputs.error());
  ASSERT_EQ(own.outputs.value()[0].bytes().size(), 4000U);
  EXPECT_EQ(own.outputs.value()[0].bytes()[0], std::byte{9});
  EXPECT_FALSE(answered);
  EXPECT_EQ(*pids().begin(), old);  // it has not been killed for answering what nobody asked
  stop();
}

TEST_F(Reattach, IsOffAtZero) {
  ASSERT_TRUE(create(1, {"--stay", "20000"}));
  ASSERT_TRUE(all_ready(1));
  const int old = *pids().begin();
  node_dies();
  config_.node.reattach = milliseconds(0);
  next_node();
  ASSERT_TRUE(all_ready(1));
  EXPECT_NE(*pids().begin(), old);
  EXPECT_TRUE(ended(old));
  stop();
}

/// A launcher that cannot say what runs: nobody answers it.
class NoList final : public Launcher {
 public:
  explicit NoList(std::shared_ptr<Launcher> own) : own_(std::move(own)) {}
  void launch(Order order, std::function<void(Outcome<int>)> started) override {
    own_->launch(std::move(order), std::move(started));
  }
  void stop(int pid, milliseconds grace) override { own_->stop(pid, grace); }
  void cancel_all() override { own_->cancel_all(); }
  void list(milliseconds, std::function<void(Outcome<std::vector<Running>>)> listed) override {
    listed(Error{Errc::unreachable, "nobody there"});
  }

 private:
  std::shared_ptr<Launcher> own_;
};

TEST_F(Reattach, TakesWhoComesWhenNobodyKnowsWhoMayCome) {
  ASSERT_TRUE(create(2, {"--stay", "20000"}));
  ASSERT_TRUE(all_ready(2));
  const std::set<int> before = pids();
  node_dies();
  next_node(std::make_shared<NoList>(launcher_));
  ASSERT_TRUE(all_ready(2));
  EXPECT_EQ(pids(), before);
  stop();
}

TEST_F(Reattach, NothingLeaksOverFiftyNodes) {
  ASSERT_TRUE(create(1, {"--stay", "20000"}));
  ASSERT_TRUE(all_ready(1));
  const int pid = *pids().begin();
  const auto measure = [&](int who) {
    return std::pair{entries_of("/proc/" + std::to_string(who) + "/fd"), maps_of(who)};
  };
  std::pair<std::size_t, std::size_t> worker, own;
  for (int node = 0; node < 50; ++node) {
    ASSERT_TRUE(answer_to(first(), spec_with(1000)).outputs);
    node_dies();
    next_node();
    ASSERT_TRUE(all_ready(1)) << node;
    ASSERT_EQ(*pids().begin(), pid) << node;
    if (node == 4) worker = measure(pid), own = measure(::getpid());
  }
  EXPECT_LE(measure(pid).first, worker.first);
#if !defined(__SANITIZE_THREAD__)  // which keeps mappings of its own for each memory that comes and goes
  EXPECT_LE(measure(pid).second, worker.second + 4);  // the heap may have grown by a piece
#endif
  EXPECT_LE(measure(::getpid()).first, own.first);
  EXPECT_LE(measure(::getpid()).second, own.second + 8);
  stop();
}

TEST(Misfit, NamesWhatDoesNotFit) {
  auto record = std::make_shared<model::Record>();
  record->name = "m";
  record->version = "1";
  record->digest = "d";
  record->folder = "/models/m";
  Settings wanted;
  wanted.record = record;
  wanted.env = "e";
  wanted.python = "/p";
  wanted.devices = "cuda:0";
  shm::WorkerHello good;
  good.model = "m";
  good.version = "1";
  good.digest = "d";
  good.folder = "/models/m";
  good.env = "e";
  good.python = "/p";
  good.devices = "cuda:0";
  good.threads = record->threads;
  good.shim = "worker_shim " GEARBOX_VERSION " (Python 3.11.2)";
  EXPECT_EQ(misfit(good, wanted), "");
  const auto with = [&](auto change) {
    shm::WorkerHello hello = good;
    change(hello);
    return misfit(hello, wanted);
  };
  EXPECT_NE(with([](auto& hello) { hello.layout_version = 1; }).find("layout"), std::string::npos);
  EXPECT_NE(with([](auto& hello) { hello.shim = "worker_shim 9.9 (Python 3.11.2)"; }).find("9.9"), std::string::npos);
  EXPECT_NE(with([](auto& hello) { hello.version = "2"; }).find("m 2"), std::string::npos);
  EXPECT_NE(with([](auto& hello) { hello.digest = "x"; }).find("changed"), std::string::npos);
  EXPECT_NE(with([](auto& hello) { hello.folder = "/x"; }).find("folder"), std::string::npos);
  EXPECT_NE(with([](auto& hello) { hello.env = "x"; }).find("environment"), std::string::npos);
  EXPECT_NE(with([](auto& hello) { hello.python = "/x"; }).find("environment"), std::string::npos);
  EXPECT_NE(with([](auto& hello) { hello.devices = "cpu"; }).find("devices"), std::string::npos);
  EXPECT_NE(with([](auto& hello) { hello.threads = 9; }).find("threads"), std::string::npos);
}

}  // namespace
}  // namespace gearbox::worker_pool
