#include "core/session/node_fixture.hpp"

namespace gearbox::session {
namespace {

using wire::FrameType;

class Session : public NodeFixture {};

TEST_F(Session, AnswersARequestThatBringsItsBytesAlong) {
  start({"echo"});
  const DevicePtr device = log_in();
  const Bytes bytes = some_bytes(1000);

  const wire::Frame frame = ask(device, "echo", bytes, id_of(1));

  ASSERT_EQ(frame.header.type, FrameType::result) << frame.json;
  const auto result = wire::parse<wire::ResultMessage>(frame.json);
  ASSERT_TRUE(result);
  ASSERT_EQ(result.value().tensors.size(), 1U);
  EXPECT_EQ(result.value().tensors[0].name, "y");
  EXPECT_EQ(frame.payload, bytes);
  EXPECT_EQ(result.value().timing.steps.at(0).model, "echo");
}

TEST_F(Session, NamesTheTaskThatWasProbablyMeant) {
  start({"echo"});
  const Error error = error_of(ask(log_in(), "ehco", some_bytes(10), id_of(1)));
  EXPECT_EQ(error.code, Errc::unknown_task);
  EXPECT_NE(error.detail.find("did you mean 'echo'"), std::string::npos) << error.detail;
}

TEST_F(Session, RefusesAnUploadOverTheLimitBeforeItIsReceived) {
  start({"echo"});
  const DevicePtr device = log_in();
  wire::Submit submit = wire::parse<wire::Submit>(submit_of("echo", some_bytes(10))).value();
  submit.wire_bytes = submit.inputs[0].wire_bytes = submit.inputs[0].tensor.bytes = 5 << 20;
  submit.inputs[0].tensor.shape = {5 << 20};
  send(device, FrameType::submit, id_of(1), wire::to_json(submit));
  EXPECT_EQ(error_of(next(device)).code, Errc::too_large);
  EXPECT_EQ(pool_->memory().input_used, 0U);
  EXPECT_EQ(ask(device, "echo", some_bytes(10), id_of(2)).header.type, FrameType::result);
}

TEST_F(Session, FailsARequestAtItsDeadlineWhileTheWorkerStillRuns) {
  start({"hang"});
  const DevicePtr device = log_in();
  const Bytes bytes = some_bytes(10);
  send(device, FrameType::submit, id_of(1), submit_of("hang", bytes), bytes, 0, wire::kInlinePayload, 1000);
  EXPECT_EQ(next(device).header.type, FrameType::accepted) << "bytes that came along are not asked for";
  EXPECT_EQ(error_of(next_final(device)).code, Errc::deadline_exceeded);
  EXPECT_EQ(requests_->open(), 0U);
}

TEST_F(Session, EndsACancelledRequestAtOnce) {
  start({"hang"});
  const DevicePtr device = log_in();
  const Bytes bytes = some_bytes(10);
  send(device, FrameType::submit, id_of(1), submit_of("hang", bytes), bytes, 0, wire::kInlinePayload);
  ASSERT_TRUE(until([&] { return requests_->counters().accepted == 1; }));
  send(device, FrameType::cancel, id_of(1), {});
  ASSERT_TRUE(until([&] { return requests_->open() == 0; }));
  EXPECT_EQ(dispatcher_->load()["hang"].running, 0U);
}

TEST_F(Session, GivesARepeatedSubmitTheFirstResultWithoutRunningAgain) {
  start({"echo"});
  const DevicePtr first = log_in();
  const Bytes bytes = some_bytes(100);
  ASSERT_EQ(ask(first, "echo", bytes, id_of(1)).header.type, FrameType::result);
  const std::uint64_t before = calls();
  first->stream->close();

  const wire::Frame again = ask(log_in(), "echo", bytes, id_of(1));

  EXPECT_EQ(again.header.type, FrameType::result);
  EXPECT_EQ(again.payload, bytes);
  EXPECT_EQ(calls(), before);
  EXPECT_EQ(requests_->counters().repeated, 1U);
}

TEST_F(Session, RefusesAnotherRequestUnderAnIdThatIsInUse) {
  start({"echo"});
  const DevicePtr device = log_in();
  ASSERT_EQ(ask(device, "echo", some_bytes(100), id_of(1)).header.type, FrameType::result);
  EXPECT_EQ(error_of(ask(device, "echo", some_bytes(100, 9), id_of(1))).code, Errc::bad_input);
}

TEST_F(Session, ForgetsAnAcknowledgedAnswer) {
  start({"echo"});
  const DevicePtr device = log_in();
  ASSERT_EQ(ask(device, "echo", some_bytes(100), id_of(1)).header.type, FrameType::result);
  send(device, FrameType::result_ack, id_of(1), {});
  // The same id is free again: a sign that nothing of it is left.
  EXPECT_EQ(ask(device, "echo", some_bytes(100, 9), id_of(1)).header.type, FrameType::result);
  send(device, FrameType::result_ack, id_of(1), {});
  ASSERT_TRUE(until([&] { return pool_->memory().input_used == 0 && pool_->memory().output_used == 0; }));
}

TEST_F(Session, AFailureThatIsSaidAgainIsFinal) {
  start({"hang"});
  const DevicePtr device = log_in();
  const Bytes bytes = some_bytes(10);
  const auto told = [&] {
    const wire::Frame frame = next_final(device);
    EXPECT_EQ(error_of(frame).code, Errc::shutting_down);
    return wire::parse<wire::ErrorMessage>(frame.json).value().retry_after_ms;
  };
  send(device, FrameType::submit, id_of(1), submit_of("hang", bytes), bytes, 0, wire::kInlinePayload);
  ASSERT_TRUE(until([&] { return requests_->counters().accepted == 1; }));
  requests_->end_all(Error{Errc::shutting_down, "the node stops"});
  EXPECT_GT(told(), 0U) << "as another request";
  send(device, FrameType::submit, id_of(1), submit_of("hang", bytes), bytes, 0, wire::kInlinePayload);
  EXPECT_EQ(told(), 0U) << "this one is not run again";
}

TEST_F(Session, KeepsAnAnswerForADeviceThatWentAwayOutsideTheArenas) {
  start({"echo"});
  const DevicePtr device = log_in();
  const Bytes bytes = some_bytes(50'000);
  send(device, FrameType::submit, id_of(1), submit_of("echo", bytes), bytes, 0, wire::kInlinePayload);
  ASSERT_TRUE(until([&] { return requests_->counters().answered == 1; }));
  device->stream->close();
  ASSERT_TRUE(until([&] { return pool_->memory().output_used == 0; }));
  EXPECT_EQ(ask(log_in(), "echo", bytes, id_of(1)).payload, bytes);
}

TEST_F(Session, AnIdWhoseUploadWasRefusedMayBeUsedAgain) {
  start({"echo"});
  const DevicePtr device = log_in();
  Bytes bytes = some_bytes(100);
  const std::string announced = submit_of("echo", bytes);
  Bytes spoilt = bytes;
  spoilt[50] ^= std::byte{1};
  send(device, FrameType::submit, id_of(1), announced, spoilt, 0, wire::kInlinePayload);
  EXPECT_EQ(error_of(next(device)).code, Errc::digest_mismatch);
  EXPECT_EQ(ask(device, "echo", bytes, id_of(1)).payload, bytes);
}

TEST_F(Session, ASmallAnswerDoesNotHoldTheWorkersArenaUntilItIsAcknowledged) {
  start({"echo"});
  const DevicePtr device = log_in();
  ASSERT_EQ(ask(device, "echo", some_bytes(1000), id_of(1)).header.type, FrameType::result);
  EXPECT_TRUE(until([&] { return pool_->memory().output_used == 0; }));
}

TEST_F(Session, WhileItDrainsWaitsForAnswersToBeAcknowledged) {
  start({"echo"});
  const DevicePtr device = log_in();
  ASSERT_EQ(ask(device, "echo", some_bytes(100), id_of(1)).header.type, FrameType::result);
  bool idle = false;
  requests_->drain([&] { idle = true; });
  send(device, FrameType::ping, {}, {});
  ASSERT_EQ(next(device).header.type, FrameType::pong);
  EXPECT_FALSE(idle) << "the device may not have the answer yet";
  send(device, FrameType::result_ack, id_of(1), {});
  EXPECT_TRUE(until([&] { return idle; }));
}

TEST_F(Session, RemembersABoundedNumberOfAnswersForEachDevice) {
  config_.node.limits.max_requests_per_device = 2;
  start({"echo"});
  const DevicePtr device = log_in();
  for (unsigned char i = 1; i <= 6; ++i) {
    ASSERT_EQ(ask(device, "echo", some_bytes(100, i), id_of(i)).header.type, FrameType::result);
  }
  const std::uint64_t before = calls();
  EXPECT_EQ(ask(device, "echo", some_bytes(100, 6), id_of(6)).header.type, FrameType::result);
  EXPECT_EQ(calls(), before) << "one of the last four is remembered";
  EXPECT_EQ(ask(device, "echo", some_bytes(100, 1), id_of(1)).header.type, FrameType::result);
  EXPECT_EQ(calls(), before + 1) << "the oldest was forgotten";
}

TEST_F(Session, LimitsTheOpenRequestsOfOneDevice) {
  config_.node.limits.max_requests_per_device = 2;
  start({"hang", "echo"});
  const DevicePtr device = log_in();
  const Bytes bytes = some_bytes(10);
  for (unsigned char i = 1; i <= 2; ++i) {
    send(device, FrameType::submit, id_of(i), submit_of("hang", bytes), bytes, 0, wire::kInlinePayload);
  }
  ASSERT_TRUE(until([&] { return requests_->counters().accepted == 2; }));
  send(device, FrameType::submit, id_of(3), submit_of("echo", bytes), bytes, 0, wire::kInlinePayload);
  const wire::Frame refusal = next_final(device);
  EXPECT_EQ(error_of(refusal).code, Errc::overloaded);
  EXPECT_GT(wire::parse<wire::ErrorMessage>(refusal.json).value().retry_after_ms, 0U);
}

TEST_F(Session, ReportsAModelsFailureWithTheStep) {
  start({"fail"});
  const Error error = error_of(ask(log_in(), "fail", some_bytes(10), id_of(1)));
  EXPECT_EQ(error.code, Errc::model_failed);
  EXPECT_NE(error.detail.find("step 'run'"), std::string::npos) << error.detail;
  EXPECT_NE(error.detail.find("ValueError: as it was told"), std::string::npos) << error.detail;
}

TEST_F(Session, QuarantinesARequestThatKillsTwoWorkers) {
  start({"die", "die", "echo"});
  const DevicePtr device = log_in();
  EXPECT_EQ(error_of(ask(device, "die", some_bytes(10), id_of(1))).code, Errc::quarantined);
  EXPECT_EQ(dispatcher_->retries(), 1U);
  EXPECT_EQ(ask(device, "echo", some_bytes(10), id_of(2)).header.type, FrameType::result);
}

TEST_F(Session, ARequestInQuarantineIsRefusedUntilItIsReleased) {
  start({"die", "die"});
  const DevicePtr device = log_in();
  const Bytes bytes = some_bytes(10);
  ASSERT_EQ(error_of(ask(device, "die", bytes, id_of(1))).code, Errc::quarantined);
  ASSERT_EQ(requests_->quarantine().all().size(), 1U);
  const Quarantined& held = requests_->quarantine().all().front();
  EXPECT_EQ(held.task, "die");
  EXPECT_EQ(held.deadly.model, "die");
  EXPECT_EQ(held.deadly.version, "1");
  EXPECT_EQ(held.deadly.step, "run");
  EXPECT_EQ(held.input_bytes, 10U);
  ASSERT_EQ(held.deadly.ends.size(), 2U);
  EXPECT_NE(held.deadly.ends[0], held.deadly.ends[1]);  // two workers, each named
  const RequestKey key = held.key;
  requests_->acknowledge(key);  // the device knows; nothing but the quarantine remembers it now
  const std::uint64_t before = calls();
  const Error refused = error_of(ask(device, "die", bytes, id_of(1)));
  EXPECT_EQ(refused.code, Errc::quarantined);
  EXPECT_NE(refused.detail.find("broker quarantine release"), std::string::npos) << refused.detail;
  EXPECT_EQ(calls(), before);

  EXPECT_EQ(requests_->release("01").error().code, Errc::bad_input);
  EXPECT_EQ(requests_->release("ffff").error().code, Errc::not_found);
  ASSERT_TRUE(requests_->release(to_text(key.id).substr(0, 8)));
  EXPECT_TRUE(requests_->quarantine().all().empty());
  EXPECT_EQ(error_of(ask(device, "die", bytes, id_of(1))).code, Errc::quarantined);
  EXPECT_GT(calls(), before);
  // Released while its failure is still remembered: it runs as well.
  const std::uint64_t again = calls();
  ASSERT_TRUE(requests_->release(to_text(key.id)));
  EXPECT_EQ(error_of(ask(device, "die", bytes, id_of(1))).code, Errc::quarantined);
  EXPECT_GT(calls(), again);
}

TEST_F(Session, TheQuarantineHoldsTheLastOnes) {
  Quarantine quarantine;
  for (std::uint32_t i = 0; i < Quarantine::kMost + 1; ++i) {
    Quarantined held;
    held.key.id.bytes[0] = static_cast<std::byte>(i);
    held.key.id.bytes[1] = static_cast<std::byte>(i >> 8);
    quarantine.add(std::move(held));
  }
  EXPECT_EQ(quarantine.all().size(), Quarantine::kMost);
  EXPECT_EQ(quarantine.all().front().key.id.bytes[0], std::byte{1});
  EXPECT_EQ(quarantine.release("0000").error().code, Errc::not_found);  // the oldest went
  EXPECT_TRUE(quarantine.release("0001"));
}

TEST_F(Session, SaysThatNoWorkerRunsTheModel) {
  start({"echo"});
  EXPECT_EQ(error_of(ask(log_in(), "hang", some_bytes(10), id_of(1))).code, Errc::model_unavailable);
}

TEST_F(Session, EndsAConnectionThatDoesNotSayHello) {
  start({"echo"});
  const DevicePtr device = connect();
  asio::co_spawn(io_, listen(device), asio::detached);
  send(device, FrameType::submit, id_of(1), submit_of("echo", some_bytes(10)));
  EXPECT_EQ(error_of(next(device)).code, Errc::bad_frame);
  EXPECT_TRUE(until([&] { return device->ended; }));
}

TEST_F(Session, AnswersControlCommandsOnTheLocalSocket) {
  start({"echo"});
  const DevicePtr device = connect();
  asio::co_spawn(io_, listen(device), asio::detached);
  for (int i = 0; i < 2; ++i) {
    send(device, FrameType::control, {}, "{\"command\":\"status\"}");
    const wire::Frame answer = next(device);
    EXPECT_EQ(answer.header.type, FrameType::control_answer);
    EXPECT_EQ(answer.json, "{\"heard\":{\"command\":\"status\"}}");
  }
}

TEST_F(Session, SkipsFramesOfALaterVersionAndAnswersPings) {
  start({"echo"});
  const DevicePtr device = log_in();
  send(device, static_cast<FrameType>(200), id_of(9), "{\"later\":true}", some_bytes(100));
  send(device, FrameType::ping, {}, {});
  EXPECT_EQ(next(device).header.type, FrameType::pong);
}

TEST_F(Session, TakesNothingNewWhileItDrainsAndSaysWhenItIsDone) {
  start({"hang", "echo"});
  const DevicePtr device = log_in();
  const Bytes bytes = some_bytes(10);
  send(device, FrameType::submit, id_of(1), submit_of("hang", bytes), bytes, 0, wire::kInlinePayload);
  ASSERT_TRUE(until([&] { return requests_->counters().accepted == 1; }));
  bool idle = false;
  requests_->drain([&] { idle = true; });
  EXPECT_EQ(error_of(ask(device, "echo", bytes, id_of(2))).code, Errc::shutting_down);
  EXPECT_FALSE(idle);
  const Requests::Rest rest = requests_->end_all(Error{Errc::shutting_down, "stopped"});
  EXPECT_EQ(rest.failed, 1U);
  EXPECT_EQ(rest.kept, 0U) << "there is no journal";
  EXPECT_TRUE(until([&] { return idle; }));
  const Error last = error_of(next_final(device));
  EXPECT_EQ(last.code, Errc::shutting_down);
  EXPECT_NE(last.detail.find("keeps no journal"), std::string::npos) << last.detail;
}

TEST_F(Session, AnAnswerThatNobodyKeepsAndItsDeviceHasNotTakenCountsAsFailed) {
  start({"echo"});
  const DevicePtr device = log_in();
  ASSERT_EQ(ask(device, "echo", some_bytes(10), id_of(1)).header.type, FrameType::result);
  const Requests::Rest rest = requests_->end_all(Error{Errc::shutting_down, "stopped"});
  EXPECT_EQ(rest.failed, 1U);
  EXPECT_EQ(rest.kept, 0U);
}

TEST_F(Session, RefusesATicketThatIsNotGood) {
  const link::ChannelKeys keys = link::make_channel_keys();
  service_.channel_keys = &keys;
  service_.check_ticket = [](std::string_view ticket, const PublicKey&) -> Outcome<wire::Ticket> {
    if (ticket != "good") return Error{Errc::bad_ticket, "not signed by central"};
    wire::Ticket checked;
    checked.user = "anna";
    checked.tasks = {"echo"};
    return checked;
  };
  start({"echo", "hang"});
  const link::SigningKeys device_keys = link::make_signing_keys();
  const auto talk = [&](const std::string& ticket, bool forge) {
    const DevicePtr device = connect(DeviceSession::Door::sealed);
    asio::co_spawn(io_, seal(device, keys.public_key), asio::detached);
    EXPECT_TRUE(until([&] { return !device->stream->h().empty(); }));
    wire::Hello hello;
    hello.role = "device";
    hello.ticket = ticket;
    link::sign_hello(device_keys, device->stream->h(), hello);
    if (forge) hello.key = link::make_signing_keys().public_key;  // somebody else's key under a signature of ours
    send(device, FrameType::hello, {}, wire::to_json(hello));
    return device;
  };
  EXPECT_EQ(error_of(next(talk("stolen", false))).code, Errc::bad_ticket);
  EXPECT_EQ(error_of(next(talk("good", true))).code, Errc::auth_failed);
  const DevicePtr device = talk("good", false);
  ASSERT_EQ(next(device).header.type, FrameType::hello_ok);
  EXPECT_EQ(ask(device, "echo", some_bytes(10), id_of(1)).header.type, FrameType::result);
  EXPECT_EQ(error_of(ask(device, "hang", some_bytes(10), id_of(2))).code, Errc::not_allowed);
  // A device that opens one connection after the other takes places from nobody else.
  std::vector<DevicePtr> more;
  for (int i = 1; i < 8; ++i) {
    more.push_back(talk("good", false));
    ASSERT_EQ(next(more.back()).header.type, FrameType::hello_ok) << i;
  }
  EXPECT_EQ(error_of(next(talk("good", false))).code, Errc::overloaded);
  more.front()->stream->close();
  EXPECT_TRUE(until([&] {
    const DevicePtr again = talk("good", false);
    return next(again).header.type == FrameType::hello_ok;
  }));
  // An expired ticket ends the session at its next request.
  expired_ = true;
  EXPECT_EQ(error_of(ask(more.back(), "echo", some_bytes(10), id_of(3))).code, Errc::expired_ticket);
  EXPECT_TRUE(until([&] { return more.back()->ended; }));
  send(device, FrameType::control, {}, "{\"command\":\"status\"}");
  EXPECT_TRUE(until([&] { return device->ended; })) << "control frames are for this host only";
}

}  // namespace
}  // namespace gearbox::session
