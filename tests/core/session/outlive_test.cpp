// Requests and answers that outlive the process of their node: what was acknowledged is finished by the next one, once.
#include <fstream>
#include <future>
#include <thread>

#include "core/session/node_fixture.hpp"
#include "session/written.hpp"
#include "support/gate.hpp"

namespace gearbox::session {
namespace {

using wire::FrameType;

class Outlive : public NodeFixture {
 protected:
  Outlive() {
    for (const char* name : {"pace", "stream", "steady"}) add_model(name);
    for (auto at = config_.models.end() - 2; at != config_.models.end(); ++at) {
      at->stream = true;
      at->prefetch = 5;
      at->max_output_bytes = 64 << 10;
    }
    config_.models.back().repeatable = true;
    habits_["steady"] = "stream";
    add_task("pace", {{"run", "pace"}});
    add_task("stream", {{"tell", "stream"}});
    add_task("steady", {{"tell", "steady"}});
    config_.tasks["pace"].deadline = seconds(60);
    setup_.folder = folder_.path() / "journal";
  }
  ~Outlive() override { end_process(); }

  void begin(const std::vector<std::string>& models) {
    auto opened = journal::Journal::open(setup_);
    ASSERT_TRUE(opened) << describe(opened.error());
    journal_ = std::move(opened).value();
    service_.journal = journal_.get();
    auto store = store::ResultStore::open(folder_.path() / "store", {});
    ASSERT_TRUE(store) << describe(store.error());
    store_ = std::move(store).value();
    service_.store = store_.get();
    config_.workers.clear();
    start(models);
  }
  /// Nothing is finished or told, as when it is killed; what was asked of the journal is done.
  void end_process() {
    devices_.clear();
    journal_.reset();
    store_.reset();
    service_.journal = nullptr;
    service_.store = nullptr;
    for (int i = 0; i < 100; ++i) io_.poll();
    requests_.reset();
    for (int i = 0; i < 100; ++i) io_.poll();  // what the pool says of cancelled calls finds its dispatcher
    dispatcher_.reset();
    pool_.reset();
    for (int i = 0; i < 100; ++i) io_.poll();
    gate_.open();
  }
  void next_process(const std::vector<std::string>& models) {
    end_process();
    begin(models);
  }
  /// Only the announcement: the bytes are known there.
  wire::Frame ask_again(const DevicePtr& device, const std::string& task, ByteView bytes, RequestId id) {
    send(device, FrameType::submit, id, submit_of(task, bytes));
    return next_final(device);
  }
  static Bytes slow(std::size_t count = 4000) {
    Bytes bytes = some_bytes(count);
    bytes[0] = static_cast<std::byte>(test_support::kHeld);
    return bytes;
  }
  /// Sends it whole; returns when it is accepted and its call at the gate.
  void hold(const DevicePtr& device, const Bytes& bytes, RequestId id) {
    send(device, FrameType::submit, id, submit_of("pace", bytes), bytes, 0, wire::kInlinePayload);
    EXPECT_EQ(next(device).header.type, FrameType::accepted);
    EXPECT_TRUE(until([&] { return gate_.is_reached(); }));
  }
  void stream(const DevicePtr& device, const std::string& task, RequestId id, std::uint32_t from, bool inlined) {
    const ByteView bytes = view_of(words_);
    wire::Submit submit = wire::parse<wire::Submit>(submit_of(task, bytes)).value();
    submit.stream = true;
    wire::FrameHeader header;
    header.type = FrameType::submit;
    header.request = id;
    header.part = from;
    if (inlined) header.flags = wire::kInlinePayload;
    const Bytes payload = inlined ? Bytes(bytes.begin(), bytes.end()) : Bytes();
    asio::co_spawn(io_, write(device, header, wire::to_json(submit), payload), asio::detached);
  }
  /// Takes parts `from` to 40 and acknowledges each up to `last`; returns when `last` was acknowledged.
  void take_parts(const DevicePtr& device, RequestId id, std::uint32_t from, std::uint32_t last) {
    for (std::uint32_t i = from; i < last; ++i) {
      const wire::Frame frame = next_final(device);
      ASSERT_EQ(frame.header.type, FrameType::result_part) << frame.json;
      ASSERT_EQ(frame.header.part, i);
      wire::FrameHeader header;
      header.type = FrameType::part_ack;
      header.request = id;
      header.part = i + 1;
      asio::co_spawn(io_, write(device, header, {}, {}), asio::detached);
    }
  }
  struct Hold {
    std::promise<void> go;
    std::future<void> there;
  };
  /// The journal's thread comes `there` in its turn, and does nothing more until `go`.
  Hold queue_hold() {
    Hold hold;
    const auto there = std::make_shared<std::promise<void>>();
    hold.there = there->get_future();
    journal_->fetch(id_key(), [go = hold.go.get_future().share(), there](const Outcome<journal::Found>&) {
      there->set_value();
      go.wait();
    });
    return hold;
  }
  std::promise<void> hold_journal() {
    Hold hold = queue_hold();
    hold.there.get();
    return std::move(hold.go);
  }
  static RequestKey id_key() { return RequestKey{{}, id_of(255)}; }
  /// No request is in memory.
  bool book_is_idle() { return requests_->known() == 0; }
  void acknowledge(const DevicePtr& device, RequestId id) {
    send(device, FrameType::result_ack, id, {});
    ASSERT_TRUE(until([&] { return journal_->counters().forgotten == 1; }));
  }

  std::string words_ = "count=40 size=20";  // what streams are to be like
  journal::Journal::Setup setup_;
  std::unique_ptr<journal::Journal> journal_;
  std::unique_ptr<store::ResultStore> store_;
  test_support::Gate gate_{folder_.path() / "pace"};
};

TEST_F(Outlive, TheNextProcessFinishesWhatWasAcknowledged) {
  for (const std::size_t size : {std::size_t{4000}, std::size_t{300'000}}) {
    SCOPED_TRACE(size);
    begin({"pace"});
    const Bytes bytes = slow(size);
    hold(log_in(), bytes, id_of(1));
    next_process({"pace"});
    EXPECT_EQ(requests_->counters().recovered, 1U);
    ASSERT_TRUE(until([&] { return gate_.is_reached(); })) << "it runs before its device is there";
    const DevicePtr device = log_in();
    send(device, FrameType::submit, id_of(1), submit_of("pace", bytes));
    EXPECT_EQ(next(device).header.type, FrameType::accepted) << "no byte is asked for again";
    gate_.open();
    const wire::Frame answer = next_final(device);
    ASSERT_EQ(answer.header.type, FrameType::result) << answer.json;
    EXPECT_EQ(answer.payload, bytes);
    EXPECT_EQ(calls(), 1U);
    acknowledge(device, id_of(1));
    next_process({"pace"});
    EXPECT_EQ(requests_->counters().recovered, 0U);
    EXPECT_TRUE(journal_->kept().empty());
    end_process();
  }
}

TEST_F(Outlive, AnAnswerWaitsForItsDeviceAndIsNotWorkedOutAgain) {
  begin({"echo", "fail"});
  const Bytes bytes = some_bytes(200'000);
  ASSERT_EQ(ask(log_in(), "echo", bytes, id_of(1)).header.type, FrameType::result);
  const Error failure = error_of(ask(log_in(), "fail", bytes, id_of(2)));
  for (int process = 0; process < 2; ++process) {
    next_process({"echo", "fail"});
    const DevicePtr device = log_in();
    const wire::Frame answer = ask_again(device, "echo", bytes, id_of(1));
    ASSERT_EQ(answer.header.type, FrameType::result) << answer.json;
    EXPECT_EQ(answer.payload, bytes);
    EXPECT_EQ(error_of(ask_again(device, "fail", bytes, id_of(2))).detail, failure.detail);
    // Once more on another connection, from memory now.
    EXPECT_EQ(ask_again(log_in(), "echo", bytes, id_of(1)).payload, bytes);
    EXPECT_EQ(calls(), 0U);
  }
  const DevicePtr device = log_in();
  ASSERT_EQ(ask_again(device, "echo", bytes, id_of(1)).header.type, FrameType::result);
  acknowledge(device, id_of(1));
  next_process({"echo", "fail"});
  ASSERT_EQ(journal_->kept().size(), 1U) << "the failure is not acknowledged";
}

TEST_F(Outlive, AnIdIsNotUsedForAnotherRequest) {
  begin({"echo"});
  ASSERT_EQ(ask(log_in(), "echo", some_bytes(100), id_of(1)).header.type, FrameType::result);
  next_process({"echo"});
  const DevicePtr device = log_in();
  EXPECT_EQ(error_of(ask(device, "echo", some_bytes(100, 2), id_of(1))).code, Errc::bad_input);
  EXPECT_EQ(ask_again(device, "echo", some_bytes(100), id_of(1)).payload, some_bytes(100)) << "that is still there";
  EXPECT_EQ(calls(), 0U);
}

TEST_F(Outlive, WhatCannotBeDoneAnyMoreFailsOnceWithTheReason) {
  begin({"pace"});
  const Bytes bytes = slow();
  hold(log_in(), bytes, id_of(1));
  config_.tasks.erase("pace");
  next_process({"pace"});
  ASSERT_TRUE(until([&] { return journal_->counters().settled == 1; }));
  const DevicePtr device = log_in();
  EXPECT_EQ(error_of(ask_again(device, "pace", bytes, id_of(1))).code, Errc::unknown_task);
  next_process({"pace"});
  EXPECT_EQ(requests_->counters().failed, 0U) << "it has failed before";
  EXPECT_EQ(error_of(ask_again(log_in(), "pace", bytes, id_of(1))).code, Errc::unknown_task);
}

TEST_F(Outlive, ARequestThatMayBeWhatEndsTheNodeIsGivenUp) {
  begin({"pace"});
  const Bytes bytes = slow();
  hold(log_in(), bytes, id_of(1));
  for (int process = 1; process < 8; ++process) {
    next_process({"pace"});
    ASSERT_EQ(requests_->counters().recovered, 1U) << process;
  }
  next_process({"pace"});
  EXPECT_EQ(requests_->counters().recovered, 0U);
  EXPECT_EQ(requests_->quarantine().all().size(), 1U);
  EXPECT_EQ(error_of(ask_again(log_in(), "pace", bytes, id_of(1))).code, Errc::quarantined);
}

TEST_F(Outlive, AStopPastItsBoundLeavesToTheNextProcessWhatWasAcknowledgedAndNothingElse) {
  begin({"pace"});
  const Bytes bytes = slow();
  const DevicePtr first = log_in();
  hold(first, bytes, id_of(1));
  send(first, FrameType::submit, id_of(2), submit_of("pace", bytes));  // its bytes never come
  ASSERT_EQ(next(first).header.type, FrameType::upload_at);
  bool idle = false;
  requests_->drain([&] { idle = true; });
  EXPECT_FALSE(idle);
  const Requests::Rest rest = requests_->end_all(Error{Errc::shutting_down, "the node stops"});
  EXPECT_EQ(rest.kept, 1U);
  EXPECT_EQ(rest.failed, 1U);
  EXPECT_TRUE(until([&] { return idle; }));
  EXPECT_EQ(requests_->open(), 0U);
  const wire::Frame refused = next(first);
  EXPECT_EQ(refused.header.request, id_of(2)) << "of the first one nothing is said";
  EXPECT_EQ(error_of(refused).code, Errc::shutting_down);
  send(first, FrameType::submit, id_of(1), submit_of("pace", bytes));
  const wire::Frame later = next(first);
  EXPECT_EQ(error_of(later).code, Errc::shutting_down);
  EXPECT_GT(wire::parse<wire::ErrorMessage>(later.json).value().retry_after_ms, 0U);
  EXPECT_EQ(journal_->counters().settled, 0U);

  next_process({"pace"});
  EXPECT_EQ(requests_->counters().recovered, 1U);
  const DevicePtr device = log_in();
  send(device, FrameType::submit, id_of(1), submit_of("pace", bytes));
  EXPECT_EQ(next(device).header.type, FrameType::accepted) << "no byte is asked for again";
  ASSERT_TRUE(until([&] { return gate_.is_reached(); }));
  gate_.open();
  const wire::Frame answer = next_final(device);
  ASSERT_EQ(answer.header.type, FrameType::result) << answer.json;
  EXPECT_EQ(answer.payload, bytes);
}

TEST_F(Outlive, WhatIsBeingWrittenAtTheStopIsLeftToTheNextProcessToo) {
  begin({"pace"});
  const Bytes bytes = slow();
  const DevicePtr first = log_in();
  std::promise<void> go = hold_journal();
  send(first, FrameType::submit, id_of(1), submit_of("pace", bytes), bytes, 0, wire::kInlinePayload);
  ASSERT_TRUE(until([&] { return gate_.is_reached(); }));
  EXPECT_EQ(requests_->end_all(Error{Errc::shutting_down, "the node stops"}).kept, 1U);
  go.set_value();
  ASSERT_TRUE(until([&] { return requests_->counters().accepted == 1; }));
  send(first, FrameType::ping, {}, {});
  EXPECT_EQ(next(first).header.type, FrameType::pong) << "it was not told";
  next_process({"pace"});
  EXPECT_EQ(requests_->counters().recovered, 1U);
  const DevicePtr device = log_in();
  send(device, FrameType::submit, id_of(1), submit_of("pace", bytes));
  EXPECT_EQ(next(device).header.type, FrameType::accepted);
  ASSERT_TRUE(until([&] { return gate_.is_reached(); }));
  gate_.open();
  EXPECT_EQ(next_final(device).payload, bytes);
}

TEST_F(Outlive, AStopTellsOfAnswersThatTheirDevicesHaveNotTaken) {
  begin({"echo"});
  const Bytes bytes = some_bytes(10);
  const DevicePtr first = log_in();
  ASSERT_EQ(ask(first, "echo", bytes, id_of(1)).header.type, FrameType::result);
  ASSERT_EQ(ask(first, "echo", bytes, id_of(2)).header.type, FrameType::result);
  acknowledge(first, id_of(1));
  bool idle = false;
  requests_->drain([&] { idle = true; });
  send(first, FrameType::ping, {}, {});
  ASSERT_EQ(next(first).header.type, FrameType::pong);
  EXPECT_FALSE(idle) << "one is not acknowledged";
  const Requests::Rest rest = requests_->end_all(Error{Errc::shutting_down, "the node stops"});
  EXPECT_EQ(rest.kept, 1U);
  EXPECT_EQ(rest.failed, 0U);
  const Requests::Rest again = requests_->end_all(Error{Errc::shutting_down, "the node stops"});
  EXPECT_EQ(again.kept + again.failed, 0U) << "each is counted once";
  next_process({"echo"});
  const wire::Frame answer = ask_again(log_in(), "echo", bytes, id_of(2));
  ASSERT_EQ(answer.header.type, FrameType::result) << answer.json;
  EXPECT_EQ(answer.payload, bytes);
}

TEST_F(Outlive, AStreamIsLeftToTheNextProcessAsWell) {
  words_ = "count=200 size=20";  // more than the node takes ahead of its device
  begin({"steady"});
  const DevicePtr first = log_in();
  stream(first, "steady", id_of(1), 0, true);
  take_parts(first, id_of(1), 0, 10);
  requests_->drain([] {});
  EXPECT_EQ(requests_->end_all(Error{Errc::shutting_down, "the node stops"}).kept, 1U);
  stream(first, "steady", id_of(1), 10, false);
  wire::Frame said = next_final(first);
  while (said.header.type == FrameType::result_part) said = next_final(first);  // on the way already
  EXPECT_EQ(error_of(said).code, Errc::shutting_down) << "not that it is broken";
  next_process({"steady"});
  const DevicePtr device = log_in();
  stream(device, "steady", id_of(1), 10, false);
  take_parts(device, id_of(1), 10, 200);
  EXPECT_EQ(next_final(device).header.type, FrameType::result);
}

TEST_F(Outlive, AQuarantineOutlivesItsNodeToo) {
  service_.quarantine = folder_.path() / "quarantine.json";
  begin({"die"});
  const Bytes bytes = some_bytes(10);
  const DevicePtr first = log_in();
  const Error told = error_of(ask(first, "die", bytes, id_of(1)));
  ASSERT_EQ(told.code, Errc::quarantined);
  acknowledge(first, id_of(1));  // nothing but the quarantine remembers it now
  const Quarantined before = requests_->quarantine().all().at(0);
  next_process({"die"});
  ASSERT_EQ(requests_->quarantine().all().size(), 1U);
  const Quarantined& held = requests_->quarantine().all()[0];
  EXPECT_EQ(held.key, before.key);
  EXPECT_EQ(held.user, before.user);
  EXPECT_EQ(held.task, "die");
  EXPECT_EQ(held.deadly.model, "die");
  EXPECT_EQ(held.deadly.ends, before.deadly.ends);
  EXPECT_EQ(held.reason, before.reason);
  EXPECT_EQ(held.input_bytes, before.input_bytes);
  EXPECT_EQ(held.since_unix_ms, before.since_unix_ms);
  EXPECT_EQ(error_of(ask(log_in(), "die", bytes, id_of(1))).code, Errc::quarantined);
  ASSERT_TRUE(requests_->release(to_text(held.key.id)));
  next_process({"die"});
  EXPECT_TRUE(requests_->quarantine().all().empty());
}

TEST_F(Outlive, AQuarantineThatCannotBeReadIsSetAside) {
  service_.quarantine = folder_.path() / "quarantine.json";
  for (const char* text : {"", "{\"requests\": [{\"device\": \"00\"}]}", "[]", "\0\0\0\0"}) {
    std::ofstream(service_.quarantine) << text;
    begin({"echo"});
    EXPECT_TRUE(requests_->quarantine().all().empty());
    EXPECT_TRUE(std::filesystem::exists(service_.quarantine.string() + ".damaged")) << text;
    EXPECT_EQ(ask(log_in(), "echo", some_bytes(5), id_of(1)).header.type, FrameType::result);
    end_process();
    std::filesystem::remove_all(setup_.folder);
    std::filesystem::remove(service_.quarantine.string() + ".damaged");
  }
}

TEST_F(Outlive, ADeadlineGoesOnWhileNoProcessIsThere) {
  begin({"pace"});
  const Bytes bytes = slow();
  const DevicePtr device = log_in();
  send(device, FrameType::submit, id_of(1), submit_of("pace", bytes), bytes, 0, wire::kInlinePayload, 900);
  ASSERT_EQ(next(device).header.type, FrameType::accepted);
  const Instant over = Clock::now() + milliseconds(950);
  ASSERT_TRUE(until([&] { return gate_.is_reached(); }));
  end_process();
  std::this_thread::sleep_until(over);
  begin({"pace"});
  EXPECT_EQ(error_of(ask_again(log_in(), "pace", bytes, id_of(1))).code, Errc::deadline_exceeded);
  EXPECT_EQ(calls(), 0U);
}

TEST_F(Outlive, ADeviceThatIsLostDoesNotLoseWhatWasAcknowledged) {
  begin({"pace"});
  const Bytes bytes = slow();
  {
    const DevicePtr device = log_in(true);
    hold(device, bytes, id_of(1));
    device->stream->close();
  }
  gate_.open();
  ASSERT_TRUE(until([&] { return journal_->counters().settled == 1; }));
  EXPECT_EQ(ask_again(log_in(), "pace", bytes, id_of(1)).payload, bytes);
  EXPECT_EQ(calls(), 1U);
}

TEST_F(Outlive, WhatTheJournalHasNoRoomForIsRefusedAndMayComeAgain) {
  setup_.max_bytes = 20'000;
  begin({"echo", "pace"});
  const DevicePtr device = log_in();
  ASSERT_EQ(ask(device, "echo", some_bytes(15'000), id_of(1)).header.type, FrameType::result);
  // Held at the gate: an answer that is there sooner than the refusal would be told.
  send(device, FrameType::submit, id_of(2), submit_of("pace", slow(6000)), slow(6000), 0, wire::kInlinePayload);
  const wire::Frame refused = next(device);
  EXPECT_EQ(error_of(refused).code, Errc::no_space) << "and it was not said to be accepted";
  EXPECT_GT(wire::parse<wire::ErrorMessage>(refused.json).value().retry_after_ms, 0U);
  acknowledge(device, id_of(1));
  EXPECT_EQ(ask(device, "echo", some_bytes(6000), id_of(2)).payload, some_bytes(6000));
}

TEST_F(Outlive, AnAnswerGoesToTheShelfAndBack) {
  service_.linger = milliseconds(50);
  begin({"echo"});
  const Bytes bytes = some_bytes(100'000);
  const DevicePtr device = log_in(true);
  ASSERT_EQ(ask(device, "echo", bytes, id_of(1)).header.type, FrameType::result);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(until([&] { return book_is_idle(); }));  // only the journal has it
    const wire::Frame answer = ask_again(log_in(), "echo", bytes, id_of(1));
    ASSERT_EQ(answer.header.type, FrameType::result) << answer.json;
    EXPECT_EQ(answer.payload, bytes);
  }
  EXPECT_EQ(calls(), 1U);
  ASSERT_TRUE(until([&] { return book_is_idle(); }));
  acknowledge(device, id_of(1));  // late, and heard all the same
}

TEST_F(Outlive, ARecoveredStreamEndsAtItsDeadlineAndItsDeviceHearsThat) {
  config_.tasks["steady"].deadline = milliseconds(400);
  begin({"steady"});
  const DevicePtr first = log_in();
  stream(first, "steady", id_of(1), 0, true);
  take_parts(first, id_of(1), 0, 3);
  next_process({"steady"});
  ASSERT_EQ(requests_->counters().recovered, 1U);
  ASSERT_TRUE(until([&] { return journal_->counters().settled == 1; }));
  const DevicePtr device = log_in();
  stream(device, "steady", id_of(1), 3, false);
  EXPECT_EQ(error_of(next_final(device)).code, Errc::deadline_exceeded);
}

TEST_F(Outlive, AStreamWhoseDeviceIsGoneLetsGoOfItsWorkerAndGoesOnLater) {
  service_.linger = milliseconds(50);
  words_ = "count=3000 size=20";  // far more than the window
  begin({"steady"});
  {
    const DevicePtr first = log_in(true);
    stream(first, "steady", id_of(1), 0, true);
    take_parts(first, id_of(1), 0, 5);
    first->stream->close();
  }
  ASSERT_TRUE(until([&] { return pool_->memory().input_used == 0 && pool_->memory().output_used == 0; }));
  ASSERT_EQ(requests_->open(), 1U);
  bool idle = false;
  requests_->drain([&] { idle = true; });
  ASSERT_TRUE(until([&] { return idle; })) << "a stop does not wait for a device that is away";
  const DevicePtr device = log_in();
  stream(device, "steady", id_of(1), 5, false);
  take_parts(device, id_of(1), 5, 3000);
  EXPECT_EQ(next_final(device).header.type, FrameType::result);
}

TEST_F(Outlive, AStreamThatEndedWithoutItsDeviceIsSaidToBeBroken) {
  service_.linger = milliseconds(50);
  begin({"stream"});
  {
    const DevicePtr first = log_in(true);
    stream(first, "stream", id_of(1), 0, true);
    take_parts(first, id_of(1), 0, 40);
    ASSERT_EQ(next_final(first).header.type, FrameType::result);
    first->stream->close();
  }
  ASSERT_TRUE(until([&] { return journal_->counters().settled == 1 && book_is_idle(); }));
  const DevicePtr device = log_in();
  stream(device, "stream", id_of(1), 20, false);
  EXPECT_EQ(error_of(next_final(device)).code, Errc::stream_broken);
}

TEST_F(Outlive, PartsThatWereAcknowledgedAreNotAskedForAgain) {
  begin({"steady"});
  const DevicePtr device = log_in();
  stream(device, "steady", id_of(1), 0, true);
  take_parts(device, id_of(1), 0, 10);
  ASSERT_TRUE(until([&] { return device->inbox.size() >= 20; }));
  device->inbox.clear();
  stream(device, "steady", id_of(1), 3, false);
  wire::Frame frame = next_final(device);
  while (frame.header.type == FrameType::result_part || frame.header.type == FrameType::result)
    frame = next_final(device);
  EXPECT_EQ(error_of(frame).code, Errc::stream_broken);
}

TEST_F(Outlive, NothingIsToldBeforeItIsDurable) {
  begin({"echo", "steady"});
  const DevicePtr device = log_in();
  std::promise<void> disk = hold_journal();
  send(device, FrameType::submit, id_of(1), submit_of("echo", some_bytes(100)), some_bytes(100), 0,
       wire::kInlinePayload);
  stream(device, "steady", id_of(2), 0, true);
  ASSERT_TRUE(until([&] { return requests_->counters().answered == 2; })) << "they run meanwhile";
  send(device, FrameType::ping, {}, {});
  EXPECT_EQ(next(device).header.type, FrameType::pong) << "nothing came before it";
  disk.set_value();
  std::map<RequestId, std::vector<FrameType>> heard;
  while (heard[id_of(1)].size() < 2 || heard[id_of(2)].size() < 42) {
    const wire::Frame frame = next(device);
    ASSERT_NE(frame.header.type, FrameType{}) << "no frame came";
    heard[frame.header.request].push_back(frame.header.type);
  }
  EXPECT_EQ(heard[id_of(1)], (std::vector{FrameType::accepted, FrameType::result}));
  EXPECT_EQ(heard[id_of(2)].front(), FrameType::accepted);
  EXPECT_EQ(heard[id_of(2)].back(), FrameType::result);
}

TEST_F(Outlive, WhatIsCancelledWhileItIsBeingWrittenHearsThat) {
  begin({"pace"});
  const DevicePtr device = log_in();
  std::promise<void> disk = hold_journal();
  send(device, FrameType::submit, id_of(1), submit_of("pace", slow()), slow(), 0, wire::kInlinePayload);
  ASSERT_TRUE(until([&] { return gate_.is_reached(); }));
  send(device, FrameType::cancel, id_of(1), {});
  ASSERT_TRUE(until([&] { return requests_->open() == 0; }));
  disk.set_value();
  EXPECT_EQ(error_of(next_final(device)).code, Errc::cancelled);
  ASSERT_TRUE(until([&] { return journal_->counters().forgotten == 1; }));
}

/// Slabs may be given back on the strand alone, and with its last owner a request gives them back.
TEST_F(Outlive, TheJournalsThreadOwnsNoRequestOnceItHasTold) {
  service_.linger = milliseconds(50);
  begin({"pace"});
  const DevicePtr device = log_in();
  Hold first = queue_hold();
  first.there.get();
  send(device, FrameType::submit, id_of(1), submit_of("pace", slow()), slow(), 0, wire::kInlinePayload);
  ASSERT_TRUE(until([&] { return gate_.is_reached(); }));
  Hold second = queue_hold();  // in one batch with the acceptance, which is told before
  first.go.set_value();
  second.there.get();
  ASSERT_TRUE(until([&] { return requests_->counters().accepted == 1; }));
  send(device, FrameType::cancel, id_of(1), {});
  ASSERT_TRUE(until([&] { return requests_->known() == 0; }));
  const explain::TracePtr trace = book_.find(to_text(id_of(1))).value();
  EXPECT_TRUE(until([&] { return trace.use_count() == 2; })) << trace.use_count() << " owners: book, test, and whom?";
  second.go.set_value();
}

TEST_F(Outlive, ACancelledRequestLeavesNothing) {
  begin({"pace"});
  const DevicePtr device = log_in();
  hold(device, slow(), id_of(1));
  send(device, FrameType::cancel, id_of(1), {});
  EXPECT_EQ(error_of(next_final(device)).code, Errc::cancelled);
  ASSERT_TRUE(until([&] { return journal_->counters().requests == 0; }));
}

TEST_F(Outlive, WhatIsReleasedFromQuarantineIsNotToldFromTheShelf) {
  service_.quarantine = folder_.path() / "quarantine.json";
  begin({"die"});
  ASSERT_EQ(error_of(ask(log_in(), "die", some_bytes(10), id_of(1))).code, Errc::quarantined);
  next_process({"die"});
  ASSERT_TRUE(requests_->release(to_text(id_of(1))));
  ASSERT_TRUE(until([&] { return journal_->counters().requests == 0; }));
}

TEST_F(Outlive, AStreamGoesOnBehindThePartsThatItsDeviceHas) {
  begin({"steady"});
  const DevicePtr first = log_in();
  stream(first, "steady", id_of(1), 0, true);
  take_parts(first, id_of(1), 0, 10);
  next_process({"steady"});
  EXPECT_EQ(requests_->counters().recovered, 1U);
  const DevicePtr device = log_in();
  stream(device, "steady", id_of(1), 10, false);
  take_parts(device, id_of(1), 10, 40);
  const wire::Frame end = next_final(device);
  ASSERT_EQ(end.header.type, FrameType::result) << end.json;
  EXPECT_EQ(wire::parse<wire::ResultMessage>(end.json).value().parts, 40U);
  acknowledge(device, id_of(1));
}

TEST_F(Outlive, AStreamThatIsNotRepeatableBreaksUnlessNothingOfItWasDelivered) {
  begin({"stream"});
  const DevicePtr first = log_in();
  stream(first, "stream", id_of(1), 0, true);
  take_parts(first, id_of(1), 0, 10);
  stream(first, "stream", id_of(2), 0, true);
  ASSERT_TRUE(until([&] { return journal_->counters().accepted == 2; }));
  next_process({"stream"});
  EXPECT_EQ(requests_->counters().recovered, 2U);
  const DevicePtr device = log_in();
  stream(device, "stream", id_of(1), 10, false);
  EXPECT_EQ(error_of(next_final(device)).code, Errc::stream_broken);
  stream(device, "stream", id_of(2), 0, false);
  take_parts(device, id_of(2), 0, 40);
  EXPECT_EQ(next_final(device).header.type, FrameType::result);
}

TEST_F(Outlive, AStreamIsNotPutTogetherFromPartsOfTwoVersions) {
  begin({"steady"});
  const DevicePtr first = log_in();
  stream(first, "steady", id_of(1), 0, true);
  take_parts(first, id_of(1), 0, 10);
  stream(first, "steady", id_of(2), 0, true);
  ASSERT_TRUE(until([&] { return journal_->counters().accepted == 2; }));
  end_process();
  for (model::Record& record : config_.models) record.digest = "of another file";
  begin({"steady"});
  const DevicePtr device = log_in();
  stream(device, "steady", id_of(1), 10, false);
  const Error error = error_of(next_final(device));
  EXPECT_EQ(error.code, Errc::stream_broken);
  EXPECT_NE(error.detail.find("replaced by others since its first 10 parts"), std::string::npos) << error.detail;
  stream(device, "steady", id_of(2), 0, false);  // nothing of it was delivered
  take_parts(device, id_of(2), 0, 40);
  EXPECT_EQ(next_final(device).header.type, FrameType::result);
}

TEST(Written, ARequestIsReadAsItWasWritten) {
  WrittenRequest request;
  request.submit =
      wire::parse<wire::Submit>(R"({"task":"a \"b\"","inputs":[],"digest":"00","wire_bytes":7,"stream":true})").value();
  request.identity.ticket.user = "anna";
  request.identity.ticket.tenant = 7;
  request.identity.ticket.tasks = {"a", "b"};
  request.identity.local = true;
  request.priority = 3;
  request.attempt = 5;
  request.deadline = Clock::now() + seconds(10);
  request.models = "one again@1 -\n";
  const auto read = written_request(to_text(request));
  ASSERT_TRUE(read) << describe(read.error());
  EXPECT_EQ(wire::to_json(read.value().submit), wire::to_json(request.submit));
  EXPECT_EQ(wire::to_json(read.value().identity.ticket), wire::to_json(request.identity.ticket));
  EXPECT_EQ(read.value().identity.ticket.user, "anna");
  EXPECT_EQ(read.value().models, request.models);
  EXPECT_TRUE(read.value().identity.local);
  EXPECT_EQ(read.value().priority, 3);
  EXPECT_EQ(read.value().attempt, 5U);
  EXPECT_EQ(read.value().deadline, request.deadline);
}

TEST(Written, AfterAnotherBootTheTimeThatWasLeftIsLeftAgain) {
  WrittenRequest request;
  request.submit = wire::parse<wire::Submit>(R"({"task":"t","inputs":[],"digest":"00","wire_bytes":7})").value();
  request.deadline = Clock::now() + seconds(20);
  std::string text = to_text(request);
  const std::size_t at = text.find("\"boot\":\"");
  ASSERT_NE(at, std::string::npos);
  text[at + 8] = text[at + 8] == 'x' ? 'y' : 'x';
  const std::size_t number = text.find("\"deadline_ns\":");
  text.insert(number + 14, "9");  // of that boot's clock
  const auto read = written_request(text);
  ASSERT_TRUE(read) << describe(read.error());
  const auto left = read.value().deadline - Clock::now();
  EXPECT_GT(left, seconds(15));
  EXPECT_LE(left, seconds(20));
}

TEST(Written, WhatIsCutOrOddIsRefused) {
  WrittenRequest request;
  request.submit = wire::parse<wire::Submit>(R"({"task":"t","inputs":[],"digest":"00","wire_bytes":7})").value();
  const std::string text = to_text(request);
  for (std::size_t length = 0; length < text.size(); ++length) {
    EXPECT_EQ(written_request(text.substr(0, length)).error().code, Errc::corrupt_data) << length;
  }
  EXPECT_FALSE(written_request("[]"));
  EXPECT_FALSE(written_end("{}"));
  WrittenEnd written{{}, Error{Errc::model_failed, "ValueError: \"x\""}};
  written.accepted_unix_ms = 1'700'000'000'000;
  written.finished_unix_ms = 1'700'000'000'070;
  written.input_bytes = 3'000'000;
  const auto end = written_end(to_text(written));
  ASSERT_TRUE(end && end.value().error);
  EXPECT_EQ(end.value().error->code, Errc::model_failed);
  EXPECT_EQ(end.value().error->detail, "ValueError: \"x\"");
  EXPECT_EQ(end.value().accepted_unix_ms, written.accepted_unix_ms);
  EXPECT_EQ(end.value().finished_unix_ms, written.finished_unix_ms);
  EXPECT_EQ(end.value().input_bytes, written.input_bytes);
}

}  // namespace
}  // namespace gearbox::session
