// Whose calls a worker of a pool takes, around real C++ workers that are stopped and go on: who holds a place is seen
// while nobody answers.
#include <csignal>

#include "core/worker_pool/follow_fixture.hpp"
#include "dispatch/dispatcher.hpp"
#include "support/first_one.hpp"

namespace gearbox::dispatch {
namespace {

using test_support::FirstOne;

/// Puts the calls of a tenant off.
class Reluctant final : public plugin::Balancer {
 public:
  static constexpr std::uint32_t kPutOff = 7;
  Outcome<plugin::CandidateId> pick(const plugin::RequestView& request,
                                    std::span<const plugin::CandidateView> candidates, Instant) override {
    if (request.tenant == kPutOff) return Error{Errc::overloaded, "not now"};
    return candidates.front().id;
  }
};

/// Two workers with two places each: one of pool "vip", one of none.
class Pools : public worker_pool::FollowFixture {
 protected:
  ~Pools() override {
    go_on();
    dispatcher_.reset();
  }
  void start(std::uint32_t lends_percent) {
    model::Record& record = add_model("echo", "1");
    record.max_batch = 2;
    record.prefetch = 0;
    config_.gears.pools = {{.name = "vip", .models = {}, .gears = {}, .tenants = {7}, .lends_percent = lends_percent}};
    want("echo", 1);
    want("echo", 1);
    config_.workers[1].pool = "vip";
    begin();
    ASSERT_TRUE(becomes("1", "ready", 2));
    dispatcher_ = std::make_unique<Dispatcher>(*pool_, std::make_shared<FirstOne>(), 64);
    pool_->on_change([this] { dispatcher_->pump(); });
    for (const auto& worker : pool_->workers()) pids_.push_back(worker.pid);
    for (const int pid : pids_) ::kill(pid, SIGSTOP);
  }
  void go_on() const {
    for (const int pid : pids_) ::kill(pid, SIGCONT);
  }
  worker_pool::WorkerView worker_of(std::string_view pool) const {
    for (const auto& worker : pool_->workers()) {
      if (worker.pool.name == pool) return worker;
    }
    ADD_FAILURE() << "no worker of pool '" << pool << "'";
    return {};
  }
  std::uint32_t held_by(std::string_view pool) const { return worker_of(pool).running; }
  std::uint32_t waiting() const { return dispatcher_->load()["echo"].queued; }

  /// Its answer's code: Errc{} of one that was answered with tensors.
  Outcome<Dispatcher::JobId> submit(const std::string& pool, const std::string& name = "", std::uint32_t tenant = 0) {
    Job job;
    job.task = job.model = "echo";
    job.version = "1";
    job.pool = pool;
    job.config = snapshot();
    job.record = std::make_shared<const model::Record>(config_.models.front());
    job.call = small_call();
    job.call.tenant = tenant;
    return dispatcher_->submit(std::move(job), [this, name](const JobResult& result) {
      answered_.push_back(name);
      if (!result.outputs) failed_.push_back(result.outputs.error());
    });
  }

  std::unique_ptr<Dispatcher> dispatcher_;
  std::vector<int> pids_;
  std::vector<std::string> answered_;
  std::vector<Error> failed_;
};

TEST_F(Pools, EachTakesItsOwnFirst) {
  start(50);
  ASSERT_TRUE(submit("vip"));
  EXPECT_EQ(held_by("vip"), 1U);
  ASSERT_TRUE(submit(""));
  ASSERT_TRUE(submit("another"));
  EXPECT_EQ(held_by(""), 2U) << "a pool without a worker for it is none";
  EXPECT_EQ(held_by("vip"), 1U);
  go_on();
  EXPECT_TRUE(until([&] { return answered_.size() == 3; }));
  EXPECT_TRUE(failed_.empty());
}

TEST_F(Pools, IdlePlacesAreLentAsFarAsThePoolSays) {
  start(50);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(submit(""));
  EXPECT_EQ(held_by(""), 2U);
  EXPECT_EQ(held_by("vip"), 1U) << "half of two";
  EXPECT_EQ(waiting(), 2U);
  ASSERT_TRUE(submit("vip"));
  EXPECT_EQ(held_by("vip"), 2U) << "its own finds the place that was kept";
  EXPECT_EQ(waiting(), 2U);
  go_on();
  EXPECT_TRUE(until([&] { return answered_.size() == 6; }));
  EXPECT_TRUE(failed_.empty());
}

TEST_F(Pools, APoolThatLendsNothingKeepsItsPlacesAndMayBorrowAllTheSame) {
  start(0);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(submit("vip"));
  EXPECT_EQ(held_by("vip"), 2U);
  EXPECT_EQ(held_by(""), 1U);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(submit(""));
  EXPECT_EQ(held_by(""), 2U);
  ::kill(worker_of("vip").pid, SIGCONT);
  ASSERT_TRUE(until([&] { return held_by("vip") == 0; }));
  EXPECT_EQ(waiting(), 1U) << "it is idle, and keeps its places";
  go_on();
  EXPECT_TRUE(until([&] { return answered_.size() == 5; }));
  EXPECT_TRUE(failed_.empty());
}

TEST_F(Pools, NobodyBorrowsWhatThePoolWaitsFor) {
  start(100);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(submit("", "first"));
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(submit("vip", "first"));
  ASSERT_TRUE(submit("", "other")) << "it came before, and waits longer";
  ASSERT_TRUE(submit("vip", "own"));
  EXPECT_EQ(waiting(), 2U);
  // The place that is free first is the pool's.
  ::kill(worker_of("vip").pid, SIGCONT);
  ASSERT_TRUE(until([&] { return answered_.size() == 4; }));
  EXPECT_EQ(answered_, (std::vector<std::string>{"first", "first", "own", "other"}));
  go_on();
  EXPECT_TRUE(until([&] { return answered_.size() == 6; }));
}

TEST_F(Pools, WhileOneOfItsOwnWaitsAPoolLendsNothingThoughPlacesAreFree) {
  start(100);
  dispatcher_->use(std::make_shared<Reluctant>());
  ASSERT_TRUE(submit("vip", "own", Reluctant::kPutOff));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(submit(""));
  EXPECT_EQ(held_by("vip"), 0U);
  EXPECT_EQ(waiting(), 2U);
  dispatcher_->use(std::make_shared<FirstOne>());
  dispatcher_->pump();
  EXPECT_EQ(held_by("vip"), 2U) << "its own, and then the other one";
}

TEST_F(Pools, AFullQueueOfOnePoolRefusesNobodyElse) {
  start(0);
  dispatcher_->limit(1);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(submit(""));
  const auto refused = submit("");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::overloaded);
  const model::Record& record = config_.models.front();
  EXPECT_TRUE(dispatcher_->is_full(record, ""));
  EXPECT_FALSE(dispatcher_->is_full(record, "vip"));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(submit("vip")) << i;
  EXPECT_TRUE(dispatcher_->is_full(record, "vip"));
}

TEST_F(Pools, CallsOfAPoolWhoseLastWorkerIsGoneWaitWithAllOthers) {
  start(0);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(submit("", "other"));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(submit("vip", "vip"));
  EXPECT_EQ(waiting(), 1U);
  config_.workers.pop_back();
  reload();
  ASSERT_TRUE(until([&] { return pool_->ready("echo", "1").size() == 1; }));
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(submit("", "late"));
  go_on();
  EXPECT_TRUE(until([&] { return answered_.size() == 9; }));
  EXPECT_TRUE(failed_.empty());
  EXPECT_EQ(answered_.back(), "late") << "who waited longer than those was not left behind";
}

TEST_F(Pools, AnotherPoolIsTheSlotsAndItsProcessGoesOn) {
  start(50);
  go_on();
  const auto before = pool_->workers();
  config_.workers[0].pool = "vip";
  config_.workers[1].pool = "";
  reload();
  EXPECT_EQ(held_by("vip") + held_by(""), 0U);
  auto after = pool_->workers();
  ASSERT_EQ(after.size(), 2U);
  EXPECT_EQ(after[0].pid, before[0].pid);
  EXPECT_EQ(after[1].pid, before[1].pid);
  config_.workers[0].pool = config_.workers[1].pool = "vip";
  config_.gears.pools[0].lends_percent = 10;
  reload();
  after = pool_->workers();
  for (const auto& worker : after) {
    EXPECT_EQ(worker.pool.name, "vip");
    EXPECT_EQ(worker.pool.lends_percent, 10U);
  }
  EXPECT_EQ(after[0].pid, before[0].pid);
  EXPECT_EQ(after[1].pid, before[1].pid);
}

TEST_F(Pools, APoolThatClassesNoRequestsSaysNothingOfWhomToServe) {
  start(50);
  go_on();
  config_.gears.pools[0].tenants.clear();
  reload();
  for (const int pid : pids_) ::kill(pid, SIGSTOP);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(submit(""));
  EXPECT_EQ(held_by("vip"), 2U);
  EXPECT_EQ(held_by(""), 2U);
}

}  // namespace
}  // namespace gearbox::dispatch
