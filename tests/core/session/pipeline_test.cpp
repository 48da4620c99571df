#include <signal.h>

#include "core/session/node_fixture.hpp"

namespace gearbox::pipeline {
namespace {

using session::NodeFixture;
using wire::FrameType;

class Pipeline : public NodeFixture {};

TEST_F(Pipeline, ScattersAListAndGathersTheAnswersInOrder) {
  config_.node.limits.output_arena_bytes = 8 << 20;  // a few grants, in which many small answers must not settle
  start({"split", "echo", "echo"});
  const Bytes bytes = some_bytes(60);
  const wire::Frame frame = ask(log_in(), "scatter", bytes, id_of(1));
  ASSERT_EQ(frame.header.type, FrameType::result) << frame.json;
  const auto result = wire::parse<wire::ResultMessage>(frame.json).value();
  ASSERT_EQ(result.tensors.size(), 1U);
  EXPECT_EQ(result.tensors[0].shape, std::vector<std::int64_t>{60});
  EXPECT_EQ(frame.payload, bytes);
  ASSERT_EQ(result.timing.steps.size(), 2U);
  EXPECT_EQ(result.timing.steps[1].calls, 60U);
}

TEST_F(Pipeline, OfAnEmptyListMakesNoCallAndAnswersWithAnEmptyTensor) {
  start({"split", "echo"});
  const session::NodeFixture::DevicePtr device = log_in();
  send(device, FrameType::submit, id_of(1), submit_of("scatter", {}));
  wire::Frame frame = next(device);
  while (frame.header.type == FrameType::accepted || frame.header.type == FrameType::upload_at) frame = next(device);
  ASSERT_EQ(frame.header.type, FrameType::result) << frame.json;
  const auto result = wire::parse<wire::ResultMessage>(frame.json).value();
  EXPECT_EQ(result.tensors.at(0).shape, std::vector<std::int64_t>{0});
  EXPECT_EQ(result.timing.steps.at(1).calls, 0U);
}

TEST_F(Pipeline, OneFailedItemFailsTheRequestAndNamesIt) {
  config_.tasks["scatter"].steps[1].model = "fail";
  start({"split", "fail"});
  const Error error = error_of(ask(log_in(), "scatter", some_bytes(5), id_of(1)));
  EXPECT_EQ(error.code, Errc::model_failed);
  EXPECT_NE(error.detail.find("step 'each' item"), std::string::npos) << error.detail;
  EXPECT_TRUE(until([&] { return dispatcher_->load().empty(); })) << "the other items are still under way";
}

/// A task in which two steps take the input, and a third takes what both give.
class Diamond : public NodeFixture {
 protected:
  Diamond() {
    add_model("left");
    add_model("right");
    add_model("join");
    model::Record& join = config_.models.back();
    join.inputs = join.outputs = {anything("a", false), anything("b", false)};
    config::TaskConfig& task = add_task("diamond", {{"left", "left"}, {"right", "right"}, {"join", "join"}});
    task.steps[2].inputs = {{"a", {"left", "x"}}, {"b", {"right", "x"}}};
    task.result = {{"a", {"join", "a"}}, {"b", {"join", "b"}}};
  }
};

TEST_F(Diamond, AJoinGetsWhatBothBranchesGave) {
  start({"left", "right", "join"});
  const Bytes bytes = some_bytes(20);
  const wire::Frame frame = ask(log_in(), "diamond", bytes, id_of(1));
  ASSERT_EQ(frame.header.type, FrameType::result) << frame.json;
  const auto result = wire::parse<wire::ResultMessage>(frame.json).value();
  ASSERT_EQ(result.tensors.size(), 2U);
  EXPECT_EQ(ByteView(frame.payload).first(20).size(), 20U);
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), frame.payload.begin()));
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), frame.payload.begin() + 20));
  ASSERT_EQ(result.timing.steps.size(), 3U);
  EXPECT_EQ(result.timing.steps[2].step, "join");
}

TEST_F(Diamond, BranchesRunSideBySide) {
  start({"left", "right", "join"});
  // Both are stopped: neither can answer, and still each has its call.
  std::vector<int> pids;
  for (const auto& worker : pool_->workers()) {
    if (worker.model != "join") pids.push_back(worker.pid);
  }
  for (const int pid : pids) ::kill(pid, SIGSTOP);
  const DevicePtr device = log_in();
  const Bytes bytes = some_bytes(20);
  send(device, FrameType::submit, id_of(1), submit_of("diamond", bytes), bytes, 0, wire::kInlinePayload);
  EXPECT_TRUE(until([&] {
    const auto load = dispatcher_->load();
    return load.contains("left") && load.at("left").running == 1 && load.contains("right") &&
           load.at("right").running == 1;
  })) << "a branch waits for the other";
  EXPECT_FALSE(dispatcher_->load().contains("join"));
  for (const int pid : pids) ::kill(pid, SIGCONT);
  EXPECT_EQ(next_final(device).header.type, FrameType::result);
}

TEST_F(Pipeline, AnEmptyListFlowsThroughTwoScatteredStepsInARow) {
  config::TaskConfig& task = add_task("twice", {{"cut", "split"}, {"one", "echo"}, {"two", "echo"}});
  task.steps[1].inputs = {{"x", {"cut", "parts"}}};
  task.steps[1].for_each = "x";
  task.steps[2].inputs = {{"x", {"one", "x"}}};
  task.steps[2].for_each = "x";
  start({"split", "echo"});
  const DevicePtr device = log_in();
  send(device, FrameType::submit, id_of(1), submit_of("twice", {}));
  const wire::Frame frame = next_final(device);
  ASSERT_EQ(frame.header.type, FrameType::result) << frame.json;
  const auto result = wire::parse<wire::ResultMessage>(frame.json).value();
  EXPECT_EQ(result.tensors.at(0).shape, std::vector<std::int64_t>{0});
  EXPECT_EQ(result.timing.steps.at(1).calls, 0U);
  EXPECT_EQ(result.timing.steps.at(2).calls, 0U);
  const Bytes bytes = some_bytes(9);
  EXPECT_EQ(ask(device, "twice", bytes, id_of(2)).payload, bytes) << "and a list that is not empty stays in order";
}

TEST_F(Pipeline, AListAsLongAsAnAnswerHoldsIsScatteredAndGathered) {
  start({"split", "echo"});
  dispatcher_->limit(1000);
  const Bytes bytes = some_bytes(wire::kMaxTensors);
  const wire::Frame frame = ask(log_in(), "scatter", bytes, id_of(1));
  ASSERT_EQ(frame.header.type, FrameType::result) << frame.json;
  EXPECT_EQ(frame.payload, bytes);
  EXPECT_EQ(wire::parse<wire::ResultMessage>(frame.json).value().timing.steps.at(1).calls, wire::kMaxTensors);
}

class Retry : public NodeFixture {
 protected:
  Retry() {
    add_model("flaky");
    add_task("flaky", {{"run", "flaky"}});
  }
};

TEST_F(Retry, AFailedCallIsMadeAgainAsOftenAsTheStepSays) {
  config_.tasks["flaky"].steps[0].retry = 2;
  start({"flaky"});
  const Bytes bytes = some_bytes(12);
  const wire::Frame frame = ask(log_in(), "flaky", bytes, id_of(1));
  ASSERT_EQ(frame.header.type, FrameType::result) << frame.json;
  EXPECT_EQ(frame.payload, bytes);
  const auto result = wire::parse<wire::ResultMessage>(frame.json).value();
  EXPECT_EQ(result.timing.steps.at(0).retries, 2U);
  EXPECT_EQ(result.timing.steps.at(0).calls, 1U);
  const explain::TracePtr trace = book_.find(to_text(id_of(1))).value();
  const explain::Step& step = trace->steps.at(0);
  EXPECT_EQ(step.retried, 1U);
  EXPECT_EQ(step.failed, 0U);
  ASSERT_EQ(step.first.size(), 1U);
  EXPECT_EQ(step.first[0].attempts, 3U);
  ASSERT_EQ(step.first[0].picks.size(), 3U);
  EXPECT_EQ(step.first[0].picks[0].error, Errc::model_failed);
  EXPECT_EQ(step.first[0].picks[1].attempt, 1U);
  EXPECT_EQ(step.first[0].picks[2].attempt, 2U);
  EXPECT_EQ(step.first[0].picks[2].error, Errc{});
}

TEST_F(Retry, AndNoOftener) {
  config_.tasks["flaky"].steps[0].retry = 1;
  start({"flaky"});
  const Error error = error_of(ask(log_in(), "flaky", some_bytes(12), id_of(1)));
  EXPECT_EQ(error.code, Errc::model_failed);
  EXPECT_NE(error.detail.find("step 'run': "), std::string::npos) << error.detail;
  EXPECT_EQ(calls(), 2U);
}

TEST_F(Retry, OfAScatteredStepIsEachItemsOwn) {
  config::TaskConfig& task = add_task("each", {{"cut", "split"}, {"run", "flaky"}});
  task.steps[1].inputs = {{"x", {"cut", "parts"}}};
  task.steps[1].for_each = "x";
  task.steps[1].retry = 2;
  start({"split", "flaky"});
  const Bytes bytes = some_bytes(7);
  const wire::Frame frame = ask(log_in(), "each", bytes, id_of(1));
  ASSERT_EQ(frame.header.type, FrameType::result) << frame.json;
  EXPECT_EQ(frame.payload, bytes) << "still in order";
  EXPECT_EQ(wire::parse<wire::ResultMessage>(frame.json).value().timing.steps.at(1).retries, 14U);
}

class Share : public NodeFixture {
 protected:
  wire::Frame ask_within(std::uint32_t ms, const std::string& task) {
    const DevicePtr device = log_in();
    const Bytes bytes = some_bytes(10);
    send(device, FrameType::submit, id_of(1), submit_of(task, bytes), bytes, 0, wire::kInlinePayload, ms);
    return next_final(device);
  }
};

TEST_F(Share, AStepThatRunsOverEndsAndIsNamed) {
  config_.tasks["hang"].steps[0].deadline_share = 0.02;
  start({"hang"});
  const Instant began = Clock::now();
  const Error error = error_of(ask_within(20'000, "hang"));
  EXPECT_EQ(error.code, Errc::deadline_exceeded);
  EXPECT_EQ(error.detail.find("step 'run': its share of the time, 0.02 of 20000 ms, ran out"), 0U) << error.detail;
  EXPECT_LT(Clock::now() - began, seconds(10)) << "the request's own end is later";
  EXPECT_TRUE(until([&] { return dispatcher_->load().empty(); })) << "its call is still under way";
}

TEST_F(Share, IsTheStepsOverAllItsTries) {
  config_.tasks["hang"].steps[0].deadline_share = 0.05;
  config_.tasks["hang"].steps[0].retry = 2;
  start({"hang", "hang"});
  const Instant began = Clock::now();
  const Error error = error_of(ask_within(20'000, "hang"));
  EXPECT_EQ(error.code, Errc::deadline_exceeded);
  EXPECT_EQ(error.detail, "step 'run': its share of the time, 0.05 of 20000 ms, ran out");
  EXPECT_GE(Clock::now() - began, seconds(1));
  EXPECT_LT(Clock::now() - began, milliseconds(2'500)) << "three shares are 3 s";
  const explain::TracePtr trace = book_.find(to_text(id_of(1))).value();
  ASSERT_EQ(trace->steps.at(0).still_open.size(), 1U);
  EXPECT_EQ(trace->steps[0].still_open[0].attempts, 1U);
}

TEST_F(Share, AFastStepHasNothingOfIt) {
  config_.tasks["echo"].steps[0].deadline_share = 0.5;
  start({"echo"});
  EXPECT_EQ(ask_within(20'000, "echo").header.type, FrameType::result);
}

class FixedSlab final : public worker_pool::Slab {
 public:
  explicit FixedSlab(std::size_t bytes) : bytes_(bytes) {}
  ByteSpan bytes() override { return bytes_; }
  shm::ArenaId arena() const override { return shm::kInputArena; }
  std::uint64_t offset() const override { return 0; }

 private:
  Bytes bytes_;
};

Value list_of(std::vector<std::vector<std::int64_t>> shapes) {
  Value value{.list = true, .tensors = {}, .dtype = wire::DType::fp32};
  for (auto& shape : shapes) {
    const std::uint64_t bytes = wire::element_count(shape).value() * 4;
    value.tensors.push_back(
        {{"score", wire::DType::fp32, std::move(shape), bytes}, 0, std::make_shared<FixedSlab>(bytes), 0});
  }
  return value;
}

TEST(Join, ItemsOfOneElementBecomeAVector) {
  const auto joined = join("scores", list_of({{1}, {1}, {1}}));
  ASSERT_EQ(joined.size(), 1U);
  EXPECT_EQ(joined[0].spec.shape, std::vector<std::int64_t>{3});
  EXPECT_EQ(joined[0].spec.bytes, 12U);
}

TEST(Join, ItemsOfOneShapeAreStacked) {
  const auto joined = join("scores", list_of({{4, 2}, {4, 2}}));
  ASSERT_EQ(joined.size(), 1U);
  EXPECT_EQ(joined[0].spec.shape, (std::vector<std::int64_t>{2, 4, 2}));
}

TEST(Join, ItemsOfDifferentShapesStayApart) {
  const auto joined = join("scores", list_of({{4}, {2}}));
  ASSERT_EQ(joined.size(), 2U);
  EXPECT_EQ(joined[1].spec.name, "scores.1");
  EXPECT_EQ(joined[1].spec.shape, std::vector<std::int64_t>{2});
}

}  // namespace
}  // namespace gearbox::pipeline
