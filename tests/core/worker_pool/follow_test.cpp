#include "follow_fixture.hpp"

#include <fstream>

namespace gearbox::worker_pool {
namespace {

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}
/// Shared memory of ours that a process has mapped.
std::size_t mapped_arenas(int pid) {
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:") != std::string::npos) ++count;
  }
  return count;
}

TEST_F(FollowFixture, MoreWorkersAreStartedBesideThoseThatRunAndFewerEndTheIdleOnes) {
  add_model("echo", "1");
  want("echo", 1);
  begin();
  ASSERT_TRUE(becomes("1", "ready"));
  const WorkerId first_one = first();

  config_.workers[0].count = 3;
  reload();
  ASSERT_TRUE(becomes("1", "ready", 3));
  EXPECT_EQ(first(), first_one);

  const WorkerView busy = pool_->workers()[1];
  ::kill(busy.pid, SIGSTOP);
  bool answered = false;
  ASSERT_TRUE(
      pool_->call(busy.id, small_call(), [&](const CallAnswer& answer) { answered = answer.outputs.has_value(); }));
  config_.workers[0].count = 1;
  reload();
  ASSERT_TRUE(becomes("1", "", 1));
  EXPECT_EQ(first(), busy.id);
  ::kill(busy.pid, SIGCONT);
  EXPECT_TRUE(until([&] { return answered; }));
  EXPECT_EQ(by_folder_->stopped.size(), 2U);
  EXPECT_FALSE(by_folder_->stopped.contains(busy.pid));
}

TEST_F(FollowFixture, AnotherMemoryLimitHoldsForTheWorkerThatRuns) {
  add_model("echo", "1");
  want("echo", 1);
  begin();
  ASSERT_TRUE(becomes("1", "ready"));
  const WorkerId before = first();
  ASSERT_TRUE(until([&] { return pool_->workers()[0].memory_bytes > 0; }));
  config_.workers[0].memory_limit_bytes = 1U << 30;
  reload();
  ASSERT_TRUE(until([&] { return pool_->workers()[0].memory_limit_bytes == 1U << 30; }));
  EXPECT_EQ(first(), before);
  config_.workers[0].memory_limit_bytes = 1;
  reload();
  ASSERT_TRUE(until([&] { return pool_->ended().outgrown > 0; }));
  config_.workers[0].memory_limit_bytes = 0;
  reload();
  ASSERT_TRUE(until([&] { return first() != before && pool_->workers().size() == 1; }));
  EXPECT_TRUE(becomes("1", "ready"));
}

TEST_F(FollowFixture, WorkersThatAreNotReadyAreTheFirstToGo) {
  habits_["echo@1"] = "never_attach";
  add_model("echo", "1");
  want("echo", 1);
  begin();
  ASSERT_TRUE(becomes("1", "loading"));
  const int loading = pool_->workers()[0].pid;
  by_folder_->habits.clear();
  config_.workers[0].count = 2;
  reload();
  ASSERT_TRUE(becomes("1", "ready"));
  config_.workers[0].count = 1;
  reload();
  ASSERT_TRUE(becomes("1", "", 1));
  EXPECT_EQ(pool_->workers()[0].state, "ready");
  EXPECT_TRUE(by_folder_->stopped.contains(loading));
}

TEST_F(FollowFixture, TheSameConfigurationAgainChangesNothing) {
  add_model("echo", "1");
  want("echo", 2);
  begin();
  ASSERT_TRUE(becomes("1", "ready", 2));
  const auto before = pool_->workers();
  reload();
  some_time();
  const auto after = pool_->workers();
  ASSERT_EQ(after.size(), 2U);
  EXPECT_EQ(after[0].id, before[0].id);
  EXPECT_EQ(after[1].id, before[1].id);
  EXPECT_EQ(by_folder_->roles.size(), 2U);
}

TEST_F(FollowFixture, ANewVersionIsLoadedBesideAndTheOldOneServesUntilItIsReady) {
  add_model("echo", "1");
  want("echo", 1);
  begin();
  ASSERT_TRUE(becomes("1", "ready"));

  by_folder_->habits["echo@2"] = "never_attach";
  drop_model("echo", "1");
  add_model("echo", "2");
  reload();
  ASSERT_TRUE(becomes("2", "loading"));
  some_time();
  EXPECT_EQ(only("1").state, "ready");
  EXPECT_TRUE(only("1").retired);
  EXPECT_TRUE(answer_to(only("1").id, small_call()).outputs.has_value());

  by_folder_->habits.clear();
  ::kill(only("2").pid, SIGKILL);  // and this time it loads
  ASSERT_TRUE(becomes("2", "ready"));
  ASSERT_TRUE(leaves("1"));
  EXPECT_TRUE(answer_to(only("2").id, small_call()).outputs.has_value());
}

TEST_F(FollowFixture, AChangedModelFolderIsReplacedLikeANewVersion) {
  add_model("echo", "1", "aaaa");
  want("echo", 2);
  begin();
  ASSERT_TRUE(becomes("1", "ready", 2));
  config_.models[0].digest = "bbbb";
  reload();
  EXPECT_EQ(count_of("1", ""), 4U);
  ASSERT_TRUE(until([&] {
    const auto workers = pool_->workers();
    return workers.size() == 2 && workers[0].digest == "bbbb" && workers[0].state == "ready";
  }));
  EXPECT_EQ(pool_->workers()[1].digest, "bbbb");
}

TEST_F(FollowFixture, AnotherEnvironmentIsAnotherWorker) {
  add_model("echo", "1");
  want("echo", 1);
  begin();
  ASSERT_TRUE(becomes("1", "ready"));
  const WorkerId before = first();
  config_.envs["none"].python = "new/bin/python";
  reload();
  ASSERT_TRUE(until([&] { return pool_->workers().size() == 1 && first() != before; }));
  EXPECT_EQ(only("1").state, "ready");
}

TEST_F(FollowFixture, ARequestThatHoldsTheOldSnapshotKeepsTheOldVersion) {
  add_model("echo", "1");
  want("echo", 1);
  begin();
  ASSERT_TRUE(becomes("1", "ready"));
  config::Snapshot of_a_request = snapshot();
  pool_->apply(of_a_request);  // equal, and in force: a request may hold it
  drop_model("echo", "1");
  add_model("echo", "2");
  reload();
  ASSERT_TRUE(becomes("2", "ready"));
  some_time();
  EXPECT_EQ(only("1").state, "ready");
  EXPECT_EQ(pool_->resolve(*of_a_request, "echo", "latest").record->version, "1");
  of_a_request.reset();
  EXPECT_TRUE(leaves("1"));
}

TEST_F(FollowFixture, AnAnswerIsEnoughToNoticeThatASnapshotIsLetGo) {
  timing_.heartbeat = milliseconds(60'000);
  add_model("echo", "1");
  want("echo", 1);
  begin();
  ASSERT_TRUE(becomes("1", "ready"));
  config::Snapshot of_a_request = snapshot();
  pool_->apply(of_a_request);
  drop_model("echo", "1");
  add_model("echo", "2");
  reload();
  ASSERT_TRUE(becomes("2", "ready"));
  ASSERT_TRUE(pool_->call(only("1").id, small_call(), [&](const CallAnswer&) { of_a_request.reset(); }));
  EXPECT_TRUE(leaves("1"));
}

TEST_F(FollowFixture, NoSnapshotIsKeptAliveByTheWorkers) {
  add_model("echo", "1");
  want("echo", 1);
  begin();
  ASSERT_TRUE(becomes("1", "ready"));
  const config::Snapshot held = snapshot();  // keeps version 1 where it is
  pool_->apply(held);
  by_folder_->habits["echo@2"] = "never_attach";
  drop_model("echo", "1");
  add_model("echo", "2");
  config::Snapshot second = snapshot();
  const std::weak_ptr<const config::Config> watched = second;
  pool_->apply(std::move(second));
  ASSERT_TRUE(becomes("2", "loading"));
  reload();
  EXPECT_TRUE(watched.expired());
  EXPECT_EQ(only("1").state, "ready");
}

TEST_F(FollowFixture, ADrainingWorkerAnswersWhatItHasAndGetsNothingNew) {
  add_model("echo", "1");
  want("echo", 1);
  begin();
  ASSERT_TRUE(becomes("1", "ready"));
  const WorkerView old = only("1");
  ::kill(old.pid, SIGSTOP);
  bool answered = false;
  ASSERT_TRUE(
      pool_->call(old.id, small_call(), [&](const CallAnswer& answer) { answered = answer.outputs.has_value(); }));
  config_.workers.clear();
  config_.models.clear();
  reload();
  ASSERT_TRUE(becomes("1", "draining"));
  EXPECT_TRUE(pool_->ready("echo", "1").empty());
  EXPECT_FALSE(pool_->call(old.id, small_call(), [](const CallAnswer&) {}));
  some_time();
  EXPECT_TRUE(by_folder_->stopped.empty()) << "its call is not answered yet";
  ::kill(old.pid, SIGCONT);
  ASSERT_TRUE(until([&] { return answered; }));
  EXPECT_TRUE(leaves("1"));
  EXPECT_TRUE(by_folder_->stopped.contains(old.pid));
}

TEST_F(FollowFixture, ADrainingWorkerThatHangsInACallIsKilledAtTheCallsLimit) {
  habits_["echo@1"] = "hang";
  add_model("echo", "1").call_timeout_ms = 100;
  want("echo", 1);
  begin();
  ASSERT_TRUE(becomes("1", "ready"));
  std::optional<Errc> heard;
  ASSERT_TRUE(pool_->call(only("1").id, small_call(), [&](const CallAnswer& answer) {
    heard = answer.outputs ? Errc::internal : answer.outputs.error().code;
  }));
  config_.workers.clear();
  reload();
  ASSERT_TRUE(until([&] { return heard.has_value(); }));
  EXPECT_EQ(*heard, Errc::worker_lost);
  EXPECT_TRUE(leaves("1"));
}

TEST_F(FollowFixture, ADrainedWorkerThatDoesNotEndIsKilled) {
  timing_.stop_grace = milliseconds(50);
  add_model("echo", "1");
  want("echo", 1);
  begin();
  ASSERT_TRUE(becomes("1", "ready"));
  by_folder_->deaf = true;
  ::kill(only("1").pid, SIGSTOP);  // it does not even hear the goodbye
  config_.workers.clear();
  reload();
  EXPECT_TRUE(leaves("1"));
}

TEST_F(FollowFixture, AVersionThatCannotBeLoadedLeavesTheOldOneServing) {
  timing_.start_tries = 2;
  add_model("echo", "1");
  want("echo", 1);
  begin();
  ASSERT_TRUE(becomes("1", "ready"));
  const WorkerId old = first();
  by_folder_->habits["echo@2"] = "no_start";
  drop_model("echo", "1");
  add_model("echo", "2");
  reload();
  ASSERT_TRUE(becomes("2", "failed"));
  some_time();
  EXPECT_EQ(only("1").id, old);
  const Resolved now = pool_->resolve(config_, "echo", "latest");
  EXPECT_EQ(now.record->version, "1");
  EXPECT_EQ(now.service, Service::ready);
  EXPECT_TRUE(answer_to(old, small_call()).outputs.has_value());
  // The next one loads: the failed one goes without a word, the old one when it is not needed.
  drop_model("echo", "2");
  add_model("echo", "3");
  reload();
  ASSERT_TRUE(becomes("3", "ready"));
  EXPECT_TRUE(leaves("1"));
  EXPECT_TRUE(leaves("2"));
}

TEST_F(FollowFixture, AnOlderVersionThatIsReadyIsNoReasonToDropTheOneThatServes) {
  add_model("echo", "1");
  add_model("echo", "2");
  want("echo", 1);
  begin();
  ASSERT_TRUE(becomes("2", "ready"));
  ASSERT_TRUE(becomes("1", "ready"));
  by_folder_->habits["echo@3"] = "never_attach";
  drop_model("echo", "2");
  add_model("echo", "3");
  reload();
  ASSERT_TRUE(becomes("3", "loading"));
  some_time();
  EXPECT_EQ(only("2").state, "ready");
  // Back to what there was before: the same process goes on.
  const WorkerId old = only("2").id;
  drop_model("echo", "3");
  add_model("echo", "2");
  reload();
  ASSERT_TRUE(leaves("3"));
  EXPECT_EQ(only("2").id, old);
  EXPECT_FALSE(only("2").retired);
}

TEST_F(FollowFixture, ARetiredWorkerThatDiesIsNotStartedAgain) {
  add_model("echo", "1");
  want("echo", 1);
  begin();
  ASSERT_TRUE(becomes("1", "ready"));
  by_folder_->habits["echo@2"] = "never_attach";
  drop_model("echo", "1");
  add_model("echo", "2");
  reload();
  ASSERT_TRUE(becomes("2", "loading"));
  ::kill(only("1").pid, SIGKILL);
  ASSERT_TRUE(leaves("1"));
  some_time();
  EXPECT_EQ(count_of("1", ""), 0U);
  EXPECT_EQ(by_folder_->roles, (std::vector<std::string>{"worker-1", "worker-2"}));
}

TEST_F(FollowFixture, NamesOfWorkersThatHaveEndedAreGivenAgain) {
  add_model("echo", "1");
  want("echo", 1);
  begin();
  for (int version = 2; version < 6; ++version) {
    ASSERT_TRUE(becomes(std::to_string(version - 1), "ready"));
    drop_model("echo", std::to_string(version - 1));
    add_model("echo", std::to_string(version));
    reload();
    ASSERT_TRUE(leaves(std::to_string(version - 1)));
  }
  EXPECT_EQ(by_folder_->roles, (std::vector<std::string>{"worker-1", "worker-2", "worker-1", "worker-2", "worker-1"}));
}

TEST_F(FollowFixture, AWorkerThatIsStillLoadingIsEndedWhenItIsReplaced) {
  habits_["echo@1"] = "never_attach";
  add_model("echo", "1");
  want("echo", 1);
  begin();
  ASSERT_TRUE(becomes("1", "loading"));
  drop_model("echo", "1");
  add_model("echo", "2");
  reload();
  EXPECT_TRUE(leaves("1"));
  EXPECT_TRUE(becomes("2", "ready"));
}

TEST_F(FollowFixture, StopsWhileWorkersDrain) {
  timing_.stop_grace = milliseconds(50);
  add_model("echo", "1");
  want("echo", 2);
  begin();
  ASSERT_TRUE(becomes("1", "ready", 2));
  for (const WorkerView& worker : pool_->workers()) {
    ::kill(worker.pid, SIGSTOP);
    ASSERT_TRUE(pool_->call(worker.id, small_call(), [](const CallAnswer&) {}));
  }
  config_.workers.clear();
  reload();
  ASSERT_TRUE(becomes("1", "draining", 2));
  bool stopped = false;
  pool_->stop([&] { stopped = true; });
  EXPECT_TRUE(until([&] { return stopped; }));
}

TEST_F(FollowFixture, AnOutputOutlivesTheWorkerThatMadeIt) {
  add_model("echo", "1");
  want("echo", 1);
  add_model("other", "7");
  want("other", 1);
  begin();
  ASSERT_TRUE(becomes("1", "ready"));
  ASSERT_TRUE(becomes("7", "ready"));
  CallAnswer made = answer_to(only("1").id, small_call());
  ASSERT_TRUE(made.outputs.has_value());
  config_.workers.erase(config_.workers.begin());
  reload();
  ASSERT_TRUE(leaves("1"));
  EXPECT_GT(pool_->memory().output_used, 0U) << "it is counted as long as somebody holds it";
  CallSpec next;
  next.inputs = made.outputs.value();
  next.deadline = Instant::max();
  next.grant_bytes = 1000;
  made.outputs = Error{};
  const CallAnswer answer = answer_to(only("7").id, std::move(next));
  ASSERT_TRUE(answer.outputs.has_value()) << describe(answer.outputs.error());
  EXPECT_EQ(answer.outputs.value()[0].bytes()[63], std::byte{7});
  EXPECT_EQ(pool_->memory().output_bytes, config_.node.limits.output_arena_bytes);
}

TEST_F(FollowFixture, NothingGrowsWithEachReload) {
  add_model("other", "100");
  want("other", 1);
  add_model("echo", "1");
  want("echo", 1);
  begin();
  ASSERT_TRUE(becomes("100", "ready"));
  ASSERT_TRUE(becomes("1", "ready"));
  const int other = only("100").pid;
  const std::size_t descriptors = open_descriptors();
  const std::size_t own = mapped_arenas(::getpid());
  const std::size_t theirs = mapped_arenas(other);
  for (int version = 2; version < 22; ++version) {
    // The worker that stays is shown an output of the one that goes.
    CallAnswer made = answer_to(only(std::to_string(version - 1)).id, small_call());
    ASSERT_TRUE(made.outputs.has_value());
    CallSpec next;
    next.inputs = made.outputs.value();
    next.deadline = Instant::max();
    next.grant_bytes = 1000;
    made = CallAnswer{};
    ASSERT_TRUE(answer_to(only("100").id, std::move(next)).outputs.has_value());
    drop_model("echo", std::to_string(version - 1));
    add_model("echo", std::to_string(version));
    reload();
    ASSERT_TRUE(becomes(std::to_string(version), "ready"));
    ASSERT_TRUE(leaves(std::to_string(version - 1)));
  }
  EXPECT_EQ(open_descriptors(), descriptors);
  EXPECT_EQ(mapped_arenas(::getpid()), own);
  EXPECT_TRUE(until([&] { return mapped_arenas(other) == theirs; })) << mapped_arenas(other) << " of " << theirs;
  EXPECT_EQ(pool_->memory().output_bytes, 2 * config_.node.limits.output_arena_bytes);
}

}  // namespace
}  // namespace gearbox::worker_pool
