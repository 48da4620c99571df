// Deadlines, priorities, cancellation, fair shares and limits, from a device's frame to the worker.
#include <set>

#include "core/session/ticket_fixture.hpp"
#include "support/gate.hpp"

namespace gearbox::session {
namespace {

using wire::FrameType;

class Sharing : public TicketFixture {
 protected:
  Sharing() {
    for (const char* name : {"pace", "pairs"}) {
      add_model(name);
      add_task(name, {{"run", name}});
    }
    config_.node.limits.max_requests_per_device = 100'000;
  }
  RequestId submit(const DevicePtr& device, const std::string& task, unsigned char first_byte = 0,
                   std::uint32_t remaining_ms = wire::kNoDeadline, std::uint8_t priority = 0) {
    Bytes bytes = some_bytes(10);
    bytes[0] = std::byte{first_byte};
    wire::FrameHeader header;
    header.type = FrameType::submit;
    header.flags = wire::kInlinePayload;
    header.priority = priority;
    header.remaining_ms = remaining_ms;
    const std::uint64_t number = ++last_id_;
    std::memcpy(header.request.bytes.data(), &number, sizeof number);
    header.request.bytes[15] = std::byte{1};
    asio::co_spawn(io_, write(device, header, submit_of(task, bytes), bytes), asio::detached);
    return header.request;
  }
  /// The ids of all answers in the inboxes, in no particular order across devices.
  static std::size_t answers_in(const DevicePtr& device, FrameType type) {
    return static_cast<std::size_t>(std::count_if(device->inbox.begin(), device->inbox.end(),
                                                  [&](const auto& frame) { return frame.header.type == type; }));
  }
  std::size_t queued(const std::string& model) { return dispatcher_->load()[model].queued; }

  test_support::Gate& gate_of(const std::string& model) { return model == "pairs" ? pairs_gate_ : gate_; }
  /// `more`: calls beyond the one that is held until ten of them wait at the node. `batch`: calls that share their
  /// time.
  void fill_a_queue(const std::string& model, int more, double batch) {
    dispatcher_->limit(10);
    const DevicePtr device = log_in();
    submit(device, model, 100);
    const wire::Frame first = next_final(device);
    ASSERT_EQ(first.header.type, FrameType::result);
    const wire::ResultMessage known = wire::parse<wire::ResultMessage>(first.json).value();
    submit(device, model, test_support::kHeld);
    ASSERT_TRUE(until([&] { return gate_of(model).is_reached(); }));
    for (int i = 0; i < more; ++i) submit(device, model, 0);
    ASSERT_TRUE(until([&] { return queued(model) == 10; }));
    const std::uint64_t announced = requests_->counters().announced;
    submit(device, model, 0);
    const wire::Frame frame = next_final(device);
    EXPECT_EQ(error_of(frame).code, Errc::overloaded);
    EXPECT_EQ(requests_->counters().announced, announced) << "refused before a byte was taken";
    // Ten calls for one worker, each as long as the one that is known.
    const double took_ms = static_cast<double>(known.timing.steps.at(0).run_us) / 1000;
    EXPECT_GE(took_ms, 100);
    EXPECT_NEAR(wire::parse<wire::ErrorMessage>(frame.json).value().retry_after_ms, 10 * took_ms / batch, 2);
  }

  std::uint64_t last_id_ = 0;
  test_support::Gate gate_{folder_.path() / "pace"};
  test_support::Gate pairs_gate_{folder_.path() / "pairs"};
};

/// Behind a call that is held in the worker three others come.
class Prefetch : public Sharing, public ::testing::WithParamInterface<std::uint32_t> {};

TEST_P(Prefetch, SoManyCallsWaitInTheRingOfABusyWorkerAndTheOthersAtTheNode) {
  const std::uint32_t ahead = GetParam();
  for (model::Record& record : config_.models) {
    if (record.name != "pace") continue;
    record.prefetch = ahead;
    record.max_output_bytes = 1 << 16;  // several answers have room in the worker's arena
  }
  start({"pace"});
  const DevicePtr device = log_in();
  submit(device, "pace", test_support::kHeld);
  ASSERT_TRUE(until([&] { return gate_.is_reached(); }));
  EXPECT_EQ(pool_->workers()[0].running, 1U);
  constexpr std::uint32_t kMore = 3;
  for (std::uint32_t i = 0; i < kMore; ++i) submit(device, "pace");
  ASSERT_TRUE(until([&] { return requests_->counters().accepted == 1 + kMore; }));
  EXPECT_EQ(pool_->workers()[0].running, 1 + ahead);
  EXPECT_EQ(queued("pace"), kMore - ahead);
  EXPECT_EQ(answers_in(device, FrameType::result), 0U);
  gate_.open();
  EXPECT_TRUE(until([&] { return answers_in(device, FrameType::result) == 1 + kMore; }));
}
INSTANTIATE_TEST_SUITE_P(Depth, Prefetch, ::testing::Values(0U, 1U, 2U));

TEST_F(Sharing, AThousandQueuedRequestsEndAtTheirDeadlinesWhileTheOnlyWorkerIsBusy) {
  start({"hang"});
  dispatcher_->limit(100'000);
  const DevicePtr device = log_in();
  const RequestId running = submit(device, "hang");
  ASSERT_TRUE(until([&] { return requests_->counters().accepted == 1; }));
  constexpr std::size_t kMany = 1000;
  std::map<RequestId, Instant> due;
  for (std::size_t i = 0; i < kMany; ++i) {
    const auto ms = static_cast<std::uint32_t>(3000 + i % 500);
    const Instant earliest = Clock::now() + milliseconds(ms);
    const RequestId id = submit(device, "hang", 0, ms);
    ASSERT_TRUE(until([&] { return requests_->counters().announced == i + 2; }));
    due[id] = earliest;
  }
  ASSERT_TRUE(until([&] { return requests_->counters().accepted == kMany + 1; }));
  const std::uint64_t before = calls();
  while (!due.empty()) {
    const wire::Frame frame = next_final(device);
    ASSERT_EQ(error_of(frame).code, Errc::deadline_exceeded);
    const auto found = due.find(frame.header.request);
    ASSERT_NE(found, due.end());
    ASSERT_GE(Clock::now(), found->second) << "ended before its time";
    due.erase(found);
  }
  // All of them while the worker is as busy as before: what ends them is their deadline. How soon after it is bounded
  // by next_final() alone: on a busy machine it says nothing of the code.
  EXPECT_EQ(dispatcher_->load()["hang"].running, 1U);
  EXPECT_EQ(queued("hang"), 0U);
  EXPECT_EQ(calls(), before) << "none was handed over later";
  EXPECT_EQ(requests_->open(), 1U);
  EXPECT_EQ(requests_->counters().expired, kMany);
  // Their memory is free but for the running one and those that still lie in the worker's ring.
  EXPECT_TRUE(until([&] { return pool_->memory().input_used < 64 * 1024; })) << pool_->memory().input_used;
  send(device, FrameType::cancel, running, {});
  EXPECT_TRUE(until([&] { return requests_->open() == 0; }));
}

TEST_F(Sharing, AQueuedRequestThatIsLateTellsWhereItWaited) {
  start({"hang"});
  const DevicePtr device = log_in();
  submit(device, "hang");  // its grant fills the worker's arena: the next one waits at the node
  ASSERT_TRUE(until([&] { return dispatcher_->load()["hang"].running == 1; }));
  const RequestId late = submit(device, "hang", 0, 300);
  const wire::Frame frame = next_final(device);
  EXPECT_EQ(frame.header.request, late);
  EXPECT_EQ(error_of(frame).code, Errc::deadline_exceeded);
  const auto trace = book_.find(to_text(late));
  ASSERT_TRUE(trace);
  ASSERT_EQ(trace.value()->steps.size(), 1U);
  const explain::Step& step = trace.value()->steps[0];
  ASSERT_EQ(step.still_open.size(), 1U);
  ASSERT_FALSE(step.still_open[0].picks.empty());
  EXPECT_FALSE(step.still_open[0].picks.back().chosen) << "it waited at the node, for a worker with a place";
  EXPECT_GE(step.still_open[0].waited_at_node(trace.value()->ready), milliseconds(200));
}

TEST_F(Sharing, ARequestWhoseTimeIsUpOnArrivalIsRefusedAtOnce) {
  start({"echo"});
  const DevicePtr device = log_in();
  submit(device, "echo", 0, 0);
  const wire::Frame frame = next(device);
  EXPECT_EQ(error_of(frame).code, Errc::deadline_exceeded);
  EXPECT_EQ(requests_->counters().announced, 0U);
  EXPECT_EQ(requests_->counters().refused, 1U);
}

TEST_F(Sharing, APriorityIsWorthWhatTheAccountAllows) {
  start({"pace"});
  ticket("low", 1);
  ticket("high", 2).max_priority = 5;
  const DevicePtr low = log_in_as("low");
  const DevicePtr high = log_in_as("high");
  submit(low, "pace", test_support::kHeld);
  ASSERT_TRUE(until([&] { return gate_.is_reached(); }));
  for (int i = 0; i < 12; ++i) submit(low, "pace", 10, wire::kNoDeadline, 255);
  ASSERT_TRUE(until([&] { return requests_->counters().accepted == 13; }));
  const RequestId urgent = submit(high, "pace", 10, wire::kNoDeadline, 9);
  ASSERT_TRUE(until([&] { return requests_->counters().accepted == 14; }));
  gate_.open();
  EXPECT_EQ(book_.find(to_text(urgent)).value()->priority, 5);
  EXPECT_EQ(next_final(high).header.type, FrameType::result);
  // Only what the worker held already went before it.
  EXPECT_LE(answers_in(low, FrameType::result), 5U);
}

TEST_F(Sharing, TenantsShareAWorkerByWeight) {
  start({"pace"});
  dispatcher_->limit(100'000);
  ticket("one", 1, 1);
  ticket("three", 2, 3);
  const DevicePtr one = log_in_as("one");
  const DevicePtr three = log_in_as("three");
  const DevicePtr other = log_in();
  submit(other, "pace", test_support::kHeld);
  ASSERT_TRUE(until([&] { return gate_.is_reached(); }));
  for (int i = 0; i < 150; ++i) {
    submit(one, "pace", 3);
    submit(three, "pace", 3);
  }
  ASSERT_TRUE(until([&] { return requests_->counters().accepted == 301; }));
  gate_.open();
  ASSERT_TRUE(until([&] { return answers_in(three, FrameType::result) >= 100; }));
  const auto ones = static_cast<double>(answers_in(one, FrameType::result));
  const auto threes = static_cast<double>(answers_in(three, FrameType::result));
  EXPECT_NEAR(threes / ones, 3, 0.45) << threes << " to " << ones;
}

TEST_F(Sharing, ADeviceThatHangsUpInOrderCancelsWhatIsOpen) {
  start({"hang"});
  ticket("any", 1);
  const DevicePtr device = log_in_as("any");
  submit(device, "hang");
  ASSERT_TRUE(until([&] { return requests_->counters().accepted == 1; }));
  device->stream->close();
  ASSERT_TRUE(until([&] { return requests_->open() == 0; }));
  EXPECT_EQ(dispatcher_->load()["hang"].running, 0U);
}

TEST_F(Sharing, ADeviceThatComesBackOrWasCutKeepsWhatIsOpen) {
  start({"hang"});
  ticket("any", 1);
  const DevicePtr keeps = log_in_as("any", true);
  submit(keeps, "hang");
  const DevicePtr cut = log_in_as("any");
  submit(cut, "hang");
  ASSERT_TRUE(until([&] { return requests_->counters().accepted == 2; }));
  keeps->stream->close();
  ::shutdown(cut->stream->native_handle(), SHUT_RDWR);  // without a word
  ASSERT_TRUE(until([&] { return cut->ended; }));
  log_in_as("any");  // a whole handshake later the node has heard of both ends
  EXPECT_EQ(requests_->open(), 2U);
}

TEST_F(Sharing, ACancelledRequestOfSuchAModelReplacesTheWorkerAndItsNeighboursRunElsewhere) {
  for (model::Record& record : config_.models) {
    if (record.name == "pace") record.cancel_by_restart = true;
  }
  start({"pace"});
  const DevicePtr device = log_in();
  const RequestId unwanted = submit(device, "pace", test_support::kHeld);
  ASSERT_TRUE(until([&] { return gate_.is_reached(); }));
  const RequestId other = submit(device, "pace", 1);
  ASSERT_TRUE(until([&] { return requests_->counters().accepted == 2; }));
  send(device, FrameType::cancel, unwanted, {});
  wire::Frame first = next_final(device);
  if (first.header.request == unwanted) first = next_final(device);
  EXPECT_EQ(first.header.type, FrameType::result) << first.json;
  EXPECT_EQ(first.header.request, other);
  EXPECT_EQ(pool_->ended().cancelled, 1U);
  EXPECT_EQ(dispatcher_->quarantined(), 0U);
}

TEST_F(Sharing, ALateRequestOfSuchAModelReplacesTheWorkerToo) {
  for (model::Record& record : config_.models) {
    if (record.name == "hang") record.cancel_by_restart = true;
  }
  start({"hang"});
  const DevicePtr device = log_in();
  submit(device, "hang", 0, 300);
  EXPECT_EQ(error_of(next_final(device)).code, Errc::deadline_exceeded);
  ASSERT_TRUE(until([&] { return pool_->ended().cancelled == 1; }));
  EXPECT_TRUE(until([&] { return pool_->workers()[0].state == "ready"; }));
}

TEST_F(Sharing, LimitsATenantOverAllItsDevicesAndSaysWhenToTryAgain) {
  config_.node.limits.max_requests_per_tenant = 3;
  start({"hang", "echo"});
  ticket("few", 1).max_requests = 2;
  ticket("many", 2);
  const DevicePtr first = log_in_as("few");
  const DevicePtr second = log_in_as("few");
  submit(first, "hang");
  submit(second, "hang");
  ASSERT_TRUE(until([&] { return requests_->counters().accepted == 2; }));
  submit(second, "echo");
  const wire::Frame refusal = next_final(second);
  EXPECT_EQ(error_of(refusal).code, Errc::overloaded);
  EXPECT_EQ(wire::parse<wire::ErrorMessage>(refusal.json).value().retry_after_ms, Drain::kUnknownWait.count());
  const DevicePtr other = log_in_as("many");
  for (int i = 0; i < 3; ++i) submit(other, "hang");
  ASSERT_TRUE(until([&] { return requests_->counters().accepted == 5; }));
  submit(other, "echo");
  EXPECT_EQ(error_of(next_final(other)).code, Errc::overloaded) << "the node's own limit";
}

TEST_F(Sharing, LimitsTheBytesOfATenant) {
  config_.node.limits.max_tenant_bytes = 25;
  start({"hang", "echo"});
  ticket("any", 1);
  const DevicePtr device = log_in_as("any");
  submit(device, "hang");
  submit(device, "hang");
  ASSERT_TRUE(until([&] { return requests_->counters().accepted == 2; }));
  const RequestId refused = submit(device, "echo");
  const wire::Frame frame = next_final(device);
  EXPECT_EQ(frame.header.request, refused);
  EXPECT_EQ(error_of(frame).code, Errc::overloaded);
}

TEST_F(Sharing, AFullQueueRefusesBeforeTheUploadAndTellsHowLongItWillTake) {
  start({"pace"});
  fill_a_queue("pace", 12, 1);
}

TEST_F(Sharing, ACallOfABatchTakesItsPartOfTheTimeOnly) {
  for (model::Record& record : config_.models) {
    if (record.name == "pairs") record.max_batch = 2;
  }
  start({"pairs"});
  fill_a_queue("pairs", 13, 2);
}

}  // namespace
}  // namespace gearbox::session
