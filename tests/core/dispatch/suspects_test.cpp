// Streams that were lost with their worker: how many run together afterwards, and that the one that kills workers is
// found. Around real C++ workers that stream as their inputs say.
#include <csignal>

#include "core/worker_pool/follow_fixture.hpp"
#include "dispatch/dispatcher.hpp"
#include "support/first_one.hpp"

namespace gearbox::dispatch {
namespace {

using test_support::FirstOne;

class Suspects : public worker_pool::FollowFixture {
 protected:
  ~Suspects() override {
    held_.clear();
    dispatcher_.reset();
  }
  void start() {
    model::Record& record = add_model("echo", "1");
    record.max_batch = 4;  // as many as the worker advances in turn
    record.prefetch = 0;
    record.stream = record.repeatable = true;
    habits_["echo@1"] = "stream";
    timing_.backoff_first = milliseconds(20);
    want("echo", 1);
    begin();
    ASSERT_TRUE(becomes("1", "ready"));
    dispatcher_ = std::make_unique<Dispatcher>(*pool_, std::make_shared<FirstOne>(), 64);
    pool_->on_change([this] { dispatcher_->pump(); });
  }
  void submit(const std::string& words) {
    Job job;
    job.task = job.model = "echo";
    job.version = "1";
    job.config = snapshot();
    job.record = std::make_shared<const model::Record>(config_.models.front());
    const worker_pool::SlabPtr slab = filled(words.size(), std::byte{0});
    std::memcpy(slab->bytes().data(), words.data(), words.size());
    job.call.inputs.push_back(
        {{"x", wire::DType::uint8, {static_cast<std::int64_t>(words.size())}, words.size()}, 0, slab, 0});
    job.call.deadline = Instant::max();
    job.call.grant_bytes = 1 << 16;
    const std::size_t number = parts_.size();
    parts_.push_back(0);
    job.call.on_part = [this, number](worker_pool::StreamPart part) {
      ++parts_[number];
      if (holds_) held_.push_back(std::move(part));
    };
    const auto submitted = dispatcher_->submit(std::move(job), [this](const JobResult& result) {
      result.outputs ? ++done_ : ++failed_[result.outputs.error().code];
    });
    ASSERT_TRUE(submitted);
  }
  std::uint32_t running() const { return dispatcher_->load()["echo"].running; }
  /// Have all that run gone so far that their next part waits for room?
  bool all_wait(std::uint32_t wanted) {
    return until([&] { return running() == wanted && pool_->workers()[0].running == wanted; });
  }
  void kill_worker() const { ::kill(pool_->workers()[0].pid, SIGKILL); }

  std::unique_ptr<Dispatcher> dispatcher_;
  std::vector<std::uint32_t> parts_;
  std::vector<worker_pool::StreamPart> held_;
  bool holds_ = true;
  std::uint32_t done_ = 0;
  std::map<Errc, std::uint32_t> failed_;
};

TEST_F(Suspects, TheSquareRootOfThoseThatWereLostRunTogether) {
  start();
  for (int i = 0; i < 4; ++i) submit("count=12");
  ASSERT_TRUE(until([&] { return std::count(parts_.begin(), parts_.end(), 0U) == 0; }));
  EXPECT_EQ(running(), 4U);
  kill_worker();
  held_.clear();  // of the dead one
  ASSERT_TRUE(all_wait(2));
  submit("count=2");
  EXPECT_EQ(running(), 2U) << "who is no suspect is not put among them";
  holds_ = false;
  std::uint32_t most = 0;
  held_.clear();
  ASSERT_TRUE(until([&] {
    most = std::max(most, running());
    return done_ == 5;
  }));
  EXPECT_EQ(most, 2U);
  EXPECT_TRUE(failed_.empty());
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(parts_[i], 12U) << i;
}

TEST_F(Suspects, TheOneThatKillsWorkersIsFoundAndTheOthersAreAnswered) {
  start();
  for (int i = 0; i < 3; ++i) submit("count=12");
  submit("count=12 die=5");
  ASSERT_TRUE(until([&] { return std::count(parts_.begin(), parts_.end(), 0U) == 0; }));
  holds_ = false;
  held_.clear();
  ASSERT_TRUE(until([&] { return done_ == 3 && failed_[Errc::quarantined] == 1; }));
  EXPECT_LE(pool_->workers()[0].restarts, 3U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(parts_[i], 12U) << i;
}

}  // namespace
}  // namespace gearbox::dispatch
