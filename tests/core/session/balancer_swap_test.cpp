// A balancer that fails, or is replaced while requests flow.
#include "core/session/node_fixture.hpp"

namespace gearbox::session {
namespace {

using wire::FrameType;

/// Does as it is told, and notices when it is destroyed while it is called.
class Told final : public plugin::Balancer {
 public:
  using Answer = std::function<Outcome<plugin::CandidateId>(std::span<const plugin::CandidateView>)>;
  explicit Told(Answer answer) : answer_(std::move(answer)) {}
  ~Told() override { EXPECT_FALSE(called_) << "destroyed inside its own call"; }
  Outcome<plugin::CandidateId> pick(const plugin::RequestView&, std::span<const plugin::CandidateView> candidates,
                                    Instant) override {
    called_ = true;
    ++calls;
    auto answer = answer_(candidates);
    called_ = false;
    return answer;
  }
  int calls = 0;

 private:
  Answer answer_;
  bool called_ = false;
};
std::shared_ptr<Told> told(Told::Answer answer) {
  return std::make_shared<Told>(std::move(answer));
}
Outcome<plugin::CandidateId> first_of(std::span<const plugin::CandidateView> candidates) {
  return candidates.front().id;
}

class BalancerSwap : public NodeFixture {};

TEST_F(BalancerSwap, AFaultOfTheBalancerIsNotTheRequests) {
  start({"echo", "echo"});
  const DevicePtr device = log_in();
  dispatcher_->use(told([](auto) -> Outcome<plugin::CandidateId> { return Error{Errc::plugin_fault, "it threw"}; }));
  EXPECT_EQ(ask(device, "echo", some_bytes(10), id_of(1)).header.type, FrameType::result);
  EXPECT_EQ(dispatcher_->own_picks(), 1U);
  dispatcher_->use(told([](auto) -> Outcome<plugin::CandidateId> { return plugin::CandidateId{4711}; }));
  EXPECT_EQ(ask(device, "echo", some_bytes(10), id_of(2)).header.type, FrameType::result);
  EXPECT_EQ(dispatcher_->own_picks(), 2U);
}

TEST_F(BalancerSwap, TheLeastBusyCandidateStandsInForAPickThatFailed) {
  for (model::Record& record : config_.models) record.max_output_bytes = 1000;
  start({"hang", "hang"});
  const DevicePtr device = log_in();
  dispatcher_->use(told([](auto) -> Outcome<plugin::CandidateId> { return Error{Errc::plugin_fault, "it threw"}; }));
  for (unsigned char i = 1; i <= 4; ++i) {
    send(device, FrameType::submit, id_of(i), submit_of("hang", some_bytes(10)), some_bytes(10), 0,
         wire::kInlinePayload);
  }
  ASSERT_TRUE(until([&] { return dispatcher_->load()["hang"].running == 4; }));
  for (const auto& worker : pool_->workers()) EXPECT_EQ(worker.running, 2U);
}

TEST_F(BalancerSwap, OverloadedMeansWait) {
  start({"echo"});
  const DevicePtr device = log_in();
  bool full = true;
  dispatcher_->use(told([&](auto candidates) -> Outcome<plugin::CandidateId> {
    if (full) return Error{Errc::overloaded, "at its limit"};
    return candidates.front().id;
  }));
  send(device, FrameType::submit, id_of(1), submit_of("echo", some_bytes(10)), some_bytes(10), 0, wire::kInlinePayload);
  ASSERT_TRUE(until([&] { return dispatcher_->load()["echo"].queued == 1; }));
  EXPECT_EQ(dispatcher_->own_picks(), 0U);
  full = false;
  dispatcher_->pump();
  EXPECT_EQ(next_final(device).header.type, FrameType::result);
}

TEST_F(BalancerSwap, UnderLoadEachPickIsMadeByTheOneInForce) {
  start({"echo", "echo"});
  const DevicePtr device = log_in();
  std::shared_ptr<Told> before;
  for (unsigned char round = 1; round <= 60; ++round) {
    const auto now = told(first_of);
    const std::weak_ptr<Told> replaced = before;
    const int calls = before ? before->calls : 0;
    dispatcher_->use(now);
    for (unsigned char i = 0; i < 4; ++i) {
      RequestId id = id_of(round);
      id.bytes[1] = std::byte{i};
      send(device, FrameType::submit, id, submit_of("echo", some_bytes(10)), some_bytes(10), 0, wire::kInlinePayload);
    }
    for (int i = 0; i < 4; ++i) {
      const wire::Frame frame = next_final(device);
      ASSERT_EQ(frame.header.type, FrameType::result) << frame.json;
      send(device, FrameType::result_ack, frame.header.request, {});
    }
    EXPECT_GE(now->calls, 4);
    if (before) {
      EXPECT_EQ(before->calls, calls);
    }
    before = now;
    EXPECT_TRUE(replaced.expired());
  }
}

TEST_F(BalancerSwap, ABalancerThatIsReplacedDuringItsOwnCallOutlivesIt) {
  start({"echo"});
  const DevicePtr device = log_in();
  const auto next_one = told(first_of);
  dispatcher_->use(told([&](auto candidates) {
    dispatcher_->use(next_one);
    return first_of(candidates);
  }));
  EXPECT_EQ(ask(device, "echo", some_bytes(10), id_of(1)).header.type, FrameType::result);
  EXPECT_EQ(ask(device, "echo", some_bytes(10), id_of(2)).header.type, FrameType::result);
  EXPECT_EQ(next_one->calls, 1);
}

}  // namespace
}  // namespace gearbox::session
