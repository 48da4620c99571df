// What devices notice of a configuration that changes under their requests: nothing.
#include <csignal>
#include <set>

#include "core/session/node_fixture.hpp"

namespace gearbox::session {
namespace {

using wire::FrameType;

class Following : public NodeFixture {
 protected:
  Following() { config_.node.limits.max_requests_per_device = 1000; }

  RequestId fresh_id() {
    RequestId id;
    const std::uint64_t number = ++last_id_;
    std::memcpy(id.bytes.data(), &number, sizeof number);
    id.bytes[15] = std::byte{1};
    return id;
  }
  /// The model is there at that version only, in a folder of its own.
  void only_version(const std::string& model, const std::string& version, const std::string& digest = "") {
    for (model::Record& record : config_.models) {
      if (record.name != model) continue;
      record.version = version;
      record.digest = digest;
      record.folder = folder_.path() / (model + "@" + version);
    }
  }
  std::size_t workers_of(const std::string& model, const std::string& version, const std::string& state = "") const {
    const auto workers = pool_->workers();
    return static_cast<std::size_t>(std::count_if(workers.begin(), workers.end(), [&](const auto& worker) {
      return worker.model == model && worker.version == version && (state.empty() || worker.state == state);
    }));
  }
  bool is_ready(const std::string& model, const std::string& version) {
    return until([&] { return workers_of(model, version, "ready") > 0; });
  }
  bool has_left(const std::string& model, const std::string& version) {
    return until([&] { return workers_of(model, version) == 0; });
  }
  int pid_of(const std::string& model, const std::string& version) const {
    for (const auto& worker : pool_->workers()) {
      if (worker.model == model && worker.version == version) return worker.pid;
    }
    return 0;
  }
  RequestId send_request(const DevicePtr& device, const std::string& task, const Bytes& bytes) {
    const RequestId id = fresh_id();
    send(device, FrameType::submit, id, submit_of(task, bytes), bytes, 0, wire::kInlinePayload);
    return id;
  }
  /// The next answer; its bytes must be `bytes`. Returns the version that did `step`, or "" and a failed test.
  std::string version_in_answer(const DevicePtr& device, const Bytes& bytes, std::size_t step = 0) {
    const wire::Frame frame = next_final(device);
    if (frame.header.type != FrameType::result) {
      ADD_FAILURE() << frame.json;
      return {};
    }
    EXPECT_EQ(frame.payload, bytes);
    send(device, FrameType::result_ack, frame.header.request, {});
    return wire::parse<wire::ResultMessage>(frame.json).value().timing.steps.at(step).version;
  }

 private:
  std::uint64_t last_id_ = 0;
};

TEST_F(Following, EveryRequestIsAnsweredWhileVersionsComeAndGo) {
  for (model::Record& record : config_.models) record.max_output_bytes = 64 << 10;  // room for many calls
  only_version("echo", "1");
  start({"split", "echo"});
  dispatcher_->limit(1000);
  const DevicePtr device = log_in();
  const Bytes bytes = some_bytes(10);
  std::set<std::string> seen;
  int version = 1;
  for (int round = 0; round < 48; ++round) {
    for (int i = 0; i < 8; ++i) send_request(device, i % 2 == 0 ? "echo" : "scatter", bytes);
    if (round % 6 == 3) {
      // In the middle of it all; now and then back to the version before, or the same folder with another content.
      const bool back = round % 24 == 21;
      only_version("echo", std::to_string(back ? version - 1 : ++version), round % 12 == 3 ? "edited" : "");
      ASSERT_TRUE(until([&] { return !device->inbox.empty(); }));
      reload();
    }
    for (int i = 0; i < 8; ++i) {
      const wire::Frame frame = next_final(device);
      ASSERT_EQ(frame.header.type, FrameType::result) << round << ": " << frame.json;
      EXPECT_EQ(frame.payload, bytes);
      seen.insert(wire::parse<wire::ResultMessage>(frame.json).value().timing.steps.back().version);
      send(device, FrameType::result_ack, frame.header.request, {});
    }
  }
  const std::string last = config_.models[0].version;
  ASSERT_EQ(config_.models[0].name, "echo");
  ASSERT_TRUE(is_ready("echo", last));
  EXPECT_TRUE(until([&] { return pool_->workers().size() == 2; }));
  EXPECT_GT(seen.size(), 2U);
  EXPECT_EQ(requests_->counters().failed, 0U);
}

TEST_F(Following, ARequestThatRunsIsFinishedByTheVersionsItBeganWith) {
  only_version("echo", "1");
  start({"split", "echo"});
  const DevicePtr device = log_in();
  const Bytes bytes = some_bytes(5);
  const int split = pid_of("split", "1");
  ::kill(split, SIGSTOP);  // its second step begins when we say so
  send_request(device, "scatter", bytes);
  ASSERT_TRUE(until([&] { return dispatcher_->load()["split"].running == 1; }));

  only_version("echo", "2");
  reload();
  ASSERT_TRUE(is_ready("echo", "2"));
  send_request(device, "echo", bytes);
  EXPECT_EQ(version_in_answer(device, bytes), "2");
  EXPECT_EQ(workers_of("echo", "1", "ready"), 1U);

  ::kill(split, SIGCONT);
  EXPECT_EQ(version_in_answer(device, bytes, 1), "1");
  EXPECT_TRUE(has_left("echo", "1"));
}

TEST_F(Following, RequestsOfTheNewConfigurationAreServedByTheOldVersionUntilTheNewOneIsReady) {
  only_version("echo", "1");
  start({"echo"});
  const DevicePtr device = log_in();
  const Bytes bytes = some_bytes(5);
  launcher_->habits["echo@2"] = "never_attach";
  only_version("echo", "2");
  reload();
  ASSERT_TRUE(until([&] { return workers_of("echo", "2", "loading") == 1; }));
  send_request(device, "echo", bytes);
  EXPECT_EQ(version_in_answer(device, bytes), "1");
  launcher_->habits.clear();
  ::kill(pid_of("echo", "2"), SIGKILL);
  ASSERT_TRUE(is_ready("echo", "2"));
  send_request(device, "echo", bytes);
  EXPECT_EQ(version_in_answer(device, bytes), "2");
  EXPECT_TRUE(has_left("echo", "1"));
}

TEST_F(Following, CallsThatWaitForAVersionThatIsLostGoToAnother) {
  only_version("echo", "1");
  start({"echo"});
  const DevicePtr device = log_in();
  const Bytes bytes = some_bytes(5);
  const int old = pid_of("echo", "1");
  ::kill(old, SIGSTOP);
  // More than it has room for: others wait in the queue for it.
  for (int i = 0; i < 5; ++i) send_request(device, "echo", bytes);
  ASSERT_TRUE(until([&] {
    const auto load = dispatcher_->load()["echo"];
    return load.running >= 1 && load.queued >= 2 && load.running + load.queued == 5;
  }));
  only_version("echo", "2");
  reload();
  ASSERT_TRUE(is_ready("echo", "2"));
  ::kill(old, SIGKILL);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(version_in_answer(device, bytes), "2");
}

TEST_F(Following, CallsThatWaitForAVersionThatIsStillLoadingAreServedByWhatIsThereFirst) {
  only_version("echo", "1");
  start({"split"});
  launcher_->habits["echo@1"] = "never_attach";
  config::WorkerConfig worker;
  worker.model = "echo";
  worker.env = "none";
  config_.workers.push_back(worker);
  reload();
  const DevicePtr device = log_in();
  const Bytes bytes = some_bytes(5);
  send_request(device, "echo", bytes);
  ASSERT_TRUE(until([&] { return dispatcher_->load()["echo"].queued == 1; }));
  only_version("echo", "2");
  reload();
  EXPECT_EQ(version_in_answer(device, bytes), "2");
}

TEST_F(Following, AModelThatIsTakenAwayAnswersWhatRunsAndRefusesWhatComes) {
  start({"echo"});
  const DevicePtr device = log_in();
  const Bytes bytes = some_bytes(5);
  const int old = pid_of("echo", "1");
  ::kill(old, SIGSTOP);
  send_request(device, "echo", bytes);
  ASSERT_TRUE(until([&] { return dispatcher_->load()["echo"].running == 1; }));
  config_.workers.clear();
  config_.tasks.erase("echo");
  reload();
  EXPECT_EQ(error_of(ask(device, "echo", bytes, fresh_id())).code, Errc::unknown_task);
  ::kill(old, SIGCONT);
  EXPECT_EQ(version_in_answer(device, bytes), "1");
  EXPECT_TRUE(until([&] { return pool_->workers().empty(); }));
  EXPECT_TRUE(until([&] { return pool_->memory().output_bytes == 0; }));
}

TEST_F(Following, NeitherAnAnswerThatWaitsNorAnIdleSessionHoldsASnapshot) {
  start({"echo", "hang", "fail"});
  const DevicePtr device = log_in();
  const DevicePtr idle = log_in();
  const Bytes bytes = some_bytes(600'000);  // too large to be parked at once
  ASSERT_EQ(ask(device, "echo", bytes, fresh_id()).header.type, FrameType::result);
  ASSERT_EQ(error_of(ask(device, "fail", some_bytes(5), fresh_id())).code, Errc::model_failed);
  const RequestId running = send_request(device, "hang", some_bytes(5));
  ASSERT_TRUE(until([&] { return dispatcher_->load()["hang"].running == 1; }));
  const std::weak_ptr<const config::Config> before = snapshot_;

  reload();
  EXPECT_FALSE(before.expired()) << "one runs";
  send(device, FrameType::cancel, running, {});
  EXPECT_TRUE(until([&] { return before.expired(); }));
}

TEST_F(Following, LimitsChangeForTheNextRequest) {
  config_.node.limits.max_requests_per_device = 1;
  start({"hang", "echo"});
  const DevicePtr device = log_in();
  const Bytes bytes = some_bytes(100);
  send_request(device, "hang", bytes);
  ASSERT_TRUE(until([&] { return requests_->counters().accepted == 1; }));
  EXPECT_EQ(error_of(ask(device, "echo", bytes, fresh_id())).code, Errc::overloaded);

  config_.node.limits.max_requests_per_device = 3;
  reload();
  EXPECT_EQ(ask(device, "echo", bytes, fresh_id()).header.type, FrameType::result);

  config_.node.limits.max_upload_bytes = 50;
  reload();
  EXPECT_EQ(error_of(ask(device, "echo", bytes, fresh_id())).code, Errc::too_large);

  config_.node.limits.max_upload_bytes = 1000;
  config_.node.limits.max_requests = 1;
  reload();
  EXPECT_EQ(error_of(ask(device, "echo", bytes, fresh_id())).code, Errc::overloaded);

  config_.node.limits.max_requests = 100;
  config_.node.limits.default_deadline = milliseconds(50);
  reload();
  EXPECT_EQ(error_of(ask(device, "hang", bytes, fresh_id())).code, Errc::deadline_exceeded);

  dispatcher_->limit(0);
  EXPECT_EQ(ask(device, "echo", bytes, fresh_id()).header.type, FrameType::error);
  dispatcher_->limit(64);
  EXPECT_EQ(ask(device, "echo", bytes, fresh_id()).header.type, FrameType::result);
}

TEST_F(Following, MoreUploadsAreLetInAtOnceWhenTheLimitRises) {
  config_.node.limits.max_uploads_at_once = 1;
  start({"echo"});
  const DevicePtr device = log_in();
  const DevicePtr other = log_in();
  const Bytes bytes = some_bytes(100);
  const RequestId first = fresh_id();
  const RequestId second = fresh_id();
  send(device, FrameType::submit, first, submit_of("echo", bytes));
  ASSERT_EQ(next(device).header.type, FrameType::upload_at);
  send(other, FrameType::submit, second, submit_of("echo", bytes));
  ASSERT_TRUE(until([&] { return requests_->counters().announced == 2; }));
  EXPECT_TRUE(other->inbox.empty());
  config_.node.limits.max_uploads_at_once = 16;
  reload();  // as the node does, the pool's change is followed by admit()
  EXPECT_EQ(next(other).header.type, FrameType::upload_at);
}

}  // namespace
}  // namespace gearbox::session
