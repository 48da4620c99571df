// Requests that bring their own steps.
#include "core/session/ticket_fixture.hpp"

namespace gearbox::session {
namespace {

using wire::FrameType;

class OwnSteps : public TicketFixture {
 protected:
  /// A list of steps in the wrong order: "second" takes what "first" gives.
  static wire::Submit two_steps(ByteView bytes) {
    wire::Submit submit = wire::parse<wire::Submit>(submit_of("", bytes)).value();
    wire::StepSpec second;
    second.name = "second";
    second.model = "echo";
    second.inputs = {{"x", "first.x"}};
    wire::StepSpec first = second;
    first.name = "first";
    first.inputs = {{"x", "request.x"}};
    submit.steps = {second, first};
    submit.result = {{"answer", "second.x"}};
    return submit;
  }
  wire::Frame ask_for(const DevicePtr& device, const wire::Submit& submit, unsigned char id = 1) {
    const Bytes bytes = some_bytes(30);
    send(device, FrameType::submit, id_of(id), wire::to_json(submit), bytes, 0, wire::kInlinePayload);
    return next_final(device);
  }
};

TEST_F(OwnSteps, RunWhenTheTicketAllowsThem) {
  start({"echo"});
  ticket("trusted", 1).own_steps = true;
  tickets_["trusted"].tasks = {};
  const Bytes bytes = some_bytes(30);
  const wire::Frame frame = ask_for(log_in_as("trusted"), two_steps(bytes));
  ASSERT_EQ(frame.header.type, FrameType::result) << frame.json;
  EXPECT_EQ(frame.payload, bytes);
  const auto result = wire::parse<wire::ResultMessage>(frame.json).value();
  EXPECT_EQ(result.tensors.at(0).name, "answer");
  ASSERT_EQ(result.timing.steps.size(), 2U);
  EXPECT_EQ(result.timing.steps[0].step, "first") << "each behind what feeds it";
  EXPECT_EQ(book_.find(to_text(id_of(1))).value()->task, "(own steps)");
}

TEST_F(OwnSteps, AreForbiddenToOthers) {
  start({"echo"});
  ticket("plain", 1);  // every task
  const Error error = error_of(ask_for(log_in_as("plain"), two_steps(some_bytes(30))));
  EXPECT_EQ(error.code, Errc::not_allowed);
  EXPECT_EQ(calls(), 0U);
}

TEST_F(OwnSteps, ATicketForThemIsNoneForATask) {
  start({"echo"});
  ticket("trusted", 1).own_steps = true;
  tickets_["trusted"].tasks = {};
  EXPECT_EQ(error_of(ask(log_in_as("trusted"), "echo", some_bytes(30), id_of(1))).code, Errc::not_allowed);
}

TEST_F(OwnSteps, AreForWhoeverMayOpenTheLocalSocket) {
  start({"echo"});
  EXPECT_EQ(ask_for(log_in(), two_steps(some_bytes(30))).header.type, FrameType::result);
}

TEST_F(OwnSteps, ThatAreWrongAreRefusedWithTheirPlaces) {
  start({"echo"});
  const DevicePtr device = log_in();
  unsigned char id = 0;
  const auto refused = [&](const std::function<void(wire::Submit&)>& spoil, const std::string& place) {
    wire::Submit submit = two_steps(some_bytes(30));
    spoil(submit);
    const Error error = error_of(ask_for(device, submit, ++id));
    EXPECT_EQ(error.code, Errc::bad_input) << place;
    EXPECT_NE(error.detail.find(place), std::string::npos) << "expected '" << place << "' in: " << error.detail;
  };
  refused([](auto& submit) { submit.steps[1].inputs["x"] = "second.x"; }, "in a circle: second -> first -> second");
  refused([](auto& submit) { submit.steps[0].inputs["x"] = "first.y"; },
          "step 1 'second', inputs.x: 'first.y' is neither");
  refused([](auto& submit) { submit.steps[1].model = "ecco"; },
          "step 2 'first', model: no folder in models/ has a model called 'ecco'; did you mean 'echo'?");
  refused([](auto& submit) { submit.steps[1].version = ">=7"; },
          "step 2 'first', version: model 'echo' has no version in");
  refused([](auto& submit) { submit.steps[1].name = "a b"; }, "step 2 'a b', name: 'a b' is no name");
  refused([](auto& submit) { submit.steps[0].retry = 60; }, "step 1 'second', retry: 60 is out of range (0 to 5)");
  refused([](auto& submit) { submit.steps[0].for_each = "x"; }, "step 1 'second', inputs.x: for_each needs a list");
  refused([](auto& submit) { submit.result = {{"answer", "first.x"}}; }, "step 'second' feeds nothing");
  refused([](auto& submit) { submit.result.clear(); }, "result: is missing");
  refused([](auto& submit) { submit.task = "echo"; }, "not both");
  EXPECT_EQ(calls(), 0U);
  EXPECT_EQ(requests_->open(), 0U);
}

TEST_F(OwnSteps, AreFewAtMost) {
  start({"echo"});
  wire::Submit submit = two_steps(some_bytes(30));
  submit.steps.resize(wire::kMaxOwnSteps + 1, submit.steps[0]);
  const DevicePtr device = log_in();
  const Error error = error_of(ask_for(device, submit));
  EXPECT_EQ(error.code, Errc::bad_frame);
  EXPECT_NE(error.detail.find("steps"), std::string::npos) << error.detail;
}

TEST_F(OwnSteps, TheSameIdWithOtherStepsIsAnotherRequest) {
  start({"echo"});
  const DevicePtr device = log_in();
  wire::Submit submit = two_steps(some_bytes(30));
  EXPECT_EQ(ask_for(device, submit).header.type, FrameType::result);
  submit.steps[0].retry = 1;
  EXPECT_EQ(error_of(ask_for(device, submit)).code, Errc::bad_input);
}

}  // namespace
}  // namespace gearbox::session
