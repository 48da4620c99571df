#include "gearbox/wire/messages.hpp"

#include <gtest/gtest.h>

#include "core/link/code_of.hpp"
#include "gearbox/wire/command.hpp"
#include "gearbox/wire/frame.hpp"

namespace gearbox::wire {
namespace {

Submit any_submit() {
  InputSpec first;
  first.tensor = {"image", DType::uint8, {480, 640, 3}, 921600};
  first.wire_bytes = 400000;
  first.codecs = {"image_delta", "zstd"};
  InputSpec second;
  second.tensor = {"depth", DType::uint16, {480, 640}, 614400};
  second.wire_bytes = 614400;
  Submit submit;
  submit.task = "read-text";
  submit.inputs = {first, second};
  submit.digest = "00112233445566778899aabbccddeeff";
  submit.wire_bytes = 1014400;
  return submit;
}

TEST(Messages, EachComesBackAsItWas) {
  Hello hello{
      .role = "device", .user = "ada", .key = {}, .signature = "ab", .ticket = "t.s", .agent = "x \"1\" \\ \n\x01 é"};
  hello.key.bytes.fill(std::byte{0x5A});
  EXPECT_EQ(to_json(parse<Hello>(to_json(hello)).value()), to_json(hello));
  EXPECT_EQ(parse<Hello>(to_json(hello)).value().agent, hello.agent);
  EXPECT_EQ(parse<Hello>(to_json(hello)).value().key, hello.key);

  const HelloOk ok{.name = "barn", .idle_ms = 30000, .max_upload_bytes = UINT64_MAX};
  EXPECT_EQ(parse<HelloOk>(to_json(ok)).value().max_upload_bytes, UINT64_MAX);
  EXPECT_EQ(parse<HelloOk>(to_json(ok)).value().idle_ms, 30000U);

  const Enrol enrol{.user = "ada", .password = "pass wörd", .device = "pi", .key = hello.key, .signature = "00"};
  EXPECT_EQ(to_json(parse<Enrol>(to_json(enrol)).value()), to_json(enrol));

  const Located located{
      .node = "n1", .addresses = {"tcp://a:1", "tcp://[::1]:2"}, .node_key = "aa", .ticket = "t", .ticket_ttl_ms = 9};
  EXPECT_EQ(to_json(parse<Located>(to_json(located)).value()), to_json(located));
  EXPECT_EQ(parse<Locate>(to_json(Locate{"read-text"})).value().task, "read-text");
  EXPECT_EQ(to_json(Locate{"read-text"}), R"({"task":"read-text"})") << "as older centrals know it";
  const Locate locate{.task = "read-text", .node = "barn", .avoid = {"a", "b"}};
  EXPECT_EQ(parse<Locate>(to_json(locate)).value().node, "barn");
  EXPECT_EQ(parse<Locate>(to_json(locate)).value().avoid, locate.avoid);

  const Locate by_models{"", {"cut", "name@>=1,<2"}};
  EXPECT_EQ(to_json(parse<Locate>(to_json(by_models)).value()), to_json(by_models));
  EXPECT_EQ(parse<Locate>(to_json(by_models)).value().models, by_models.models);

  Submit own = any_submit();
  own.task.clear();
  own.steps.resize(2);
  own.steps[0] = {"a", "cut", "~1.2", {{"image", "request.image"}}, "", 0.3, 2};
  own.steps[1] = {"b", "name", "", {{"crop", "a.crops"}, {"x", "request.x"}}, "crop", 0, 0};
  own.result = {{"text", "b.text"}};
  const Submit own_again = parse<Submit>(to_json(own)).value();
  EXPECT_EQ(own_again.steps, own.steps);
  EXPECT_EQ(own_again.result, own.result);
  EXPECT_FALSE(parse<Submit>(R"({"steps":[{"deadline_share":"half"}]})"));
  EXPECT_TRUE(parse<Submit>(R"({"steps":[{"deadline_share":1}]})"));

  const Submit submit = any_submit();
  const Submit again = parse<Submit>(to_json(submit)).value();
  EXPECT_EQ(to_json(again), to_json(submit));
  EXPECT_EQ(again.inputs.at(1).tensor.dtype, DType::uint16);
  EXPECT_EQ(again.inputs.at(0).codecs, (std::vector<std::string>{"image_delta", "zstd"}));

  ResultMessage result;
  result.tensors = {{"text", DType::bytes, {3}, 40}};
  result.bytes = 40;
  result.timing = {.upload_us = 1, .queue_us = 2, .total_us = 3, .steps = {{"detect", "det", "1", 2, 5, 6}}};
  EXPECT_EQ(to_json(parse<ResultMessage>(to_json(result)).value()), to_json(result));

  NodeReport report;
  report.name = "n1";
  report.addresses = {"tcp://a:1"};
  report.draining = true;
  report.models = {{"det", "1", 2, 3, 4, 5}};
  report.tasks = {{"read-text", {"det", "rec@2"}, true}};
  EXPECT_EQ(to_json(parse<NodeReport>(to_json(report)).value()), to_json(report));

  const ReportOk report_ok{.central_unix_ms = -5, .ticket_keys = {{"k1", "aa"}, {"k2", "bb"}}, .revoked = {"cc"}};
  EXPECT_EQ(to_json(parse<ReportOk>(to_json(report_ok)).value()), to_json(report_ok));

  Ticket ticket;
  ticket.tasks = {"*"};
  ticket.expires_unix_ms = INT64_MAX;
  ticket.weight = 7;
  ticket.own_steps = true;
  EXPECT_TRUE(parse<Ticket>(to_json(ticket)).value().own_steps);
  EXPECT_EQ(to_json(parse<Ticket>(to_json(ticket)).value()), to_json(ticket));
}

TEST(Messages, ACommandAndItsAnswerComeBackAsTheyWere) {
  Command command;
  command.number = 1'800'000'000'000;
  command.words = {"set-rate", "two words \\ \"", ""};
  EXPECT_EQ(parse<Command>(to_json(command)).value().number, command.number);
  EXPECT_EQ(parse<Command>(to_json(command)).value().words, command.words);
  const CommandAnswer answer{.number = 7, .ok = true, .text = "rate 5"};
  EXPECT_EQ(to_json(parse<CommandAnswer>(to_json(answer)).value()), to_json(answer));
  EXPECT_FALSE(parse<Command>(R"({"number":0,"words":["x"]})"));
  EXPECT_FALSE(parse<Command>(R"({"number":1,"words":[]})"));
  command.words = {std::string(kMaxCommandBytes + 1, 'x')};
  EXPECT_FALSE(parse<Command>(to_json(command)));
  command.words = std::vector<std::string>(kMaxCommandWords + 1, "x");
  EXPECT_FALSE(parse<Command>(to_json(command)));
  EXPECT_FALSE(parse<CommandAnswer>(to_json(CommandAnswer{1, true, std::string(kMaxCommandAnswerBytes + 1, 'x')})));
}

TEST(Messages, AnUnknownMemberIsSkippedAndAMissingOneTakesItsDefault) {
  const auto ok = parse<HelloOk>(R"({"name":"n","colour":{"deep":[1,2,{"x":null}]},"later":1e300})");
  ASSERT_TRUE(ok.has_value());
  EXPECT_EQ(ok.value().name, "n");
  EXPECT_EQ(ok.value().idle_ms, 0U);
  EXPECT_EQ(parse<Ticket>("{}").value().weight, 1U);
}

void expect_refused(const Outcome<Submit>& outcome, std::string_view member) {
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(code_of(outcome), Errc::bad_frame);
  EXPECT_NE(outcome.error().detail.find("'" + std::string(member) + "'"), std::string::npos) << outcome.error().detail;
}

TEST(Messages, AMemberOfAnotherTypeIsNamedWithItsPath) {
  expect_refused(parse<Submit>(R"({"task":1})"), "task");
  expect_refused(parse<Submit>(R"({"task":null})"), "task");
  expect_refused(parse<Submit>(R"({"wire_bytes":"12"})"), "wire_bytes");
  expect_refused(parse<Submit>(R"({"wire_bytes":-1})"), "wire_bytes");
  expect_refused(parse<Submit>(R"({"wire_bytes":1.5})"), "wire_bytes");
  expect_refused(parse<Submit>(R"({"wire_bytes":18446744073709551616})"), "wire_bytes");
  expect_refused(parse<Submit>(R"({"inputs":{}})"), "inputs");
  expect_refused(parse<Submit>(R"({"inputs":[1]})"), "inputs[0]");
  expect_refused(parse<Submit>(R"({"inputs":[{},{"tensor":{"dtype":"UINT9"}}]})"), "inputs[1].tensor.dtype");
  expect_refused(parse<Submit>(R"({"inputs":[{"tensor":{"shape":[1,"2"]}}]})"), "inputs[0].tensor.shape[1]");
  expect_refused(parse<Submit>(R"({"inputs":[{"codecs":["zstd",5]}]})"), "inputs[0].codecs[1]");
  EXPECT_EQ(code_of(parse<ErrorMessage>(R"({"code":65536})")), Errc::bad_frame);
  EXPECT_EQ(code_of(parse<Hello>(R"({"key":"zz"})")), Errc::bad_frame);
  EXPECT_EQ(code_of(parse<NodeReport>(R"({"draining":1})")), Errc::bad_frame);
}

TEST(Messages, APartSaysWhatItHolds) {
  PartMessage part;
  part.tensors = {{"text", DType::bytes, {1}, 9}, {"score", DType::fp32, {2, 1}, 8}};
  part.bytes = 17;
  const auto read = parse<PartMessage>(to_json(part));
  ASSERT_TRUE(read.has_value()) << read.error().detail;
  EXPECT_EQ(read.value().bytes, 17U);
  ASSERT_EQ(read.value().tensors.size(), 2U);
  EXPECT_EQ(read.value().tensors[1].shape, (std::vector<std::int64_t>{2, 1}));
  const auto unknown = parse<PartMessage>(R"({"tensors":[{"dtype":"UINT9"}]})");
  ASSERT_FALSE(unknown.has_value());
  EXPECT_NE(unknown.error().detail.find("tensors[0].dtype"), std::string::npos) << unknown.error().detail;
}

TEST(Messages, OnlyWhoAsksForPartsOrGetsThemSpeaksOfThem) {
  Submit submit;
  EXPECT_EQ(to_json(submit).find("stream"), std::string::npos);
  submit.stream = true;
  EXPECT_TRUE(parse<Submit>(to_json(submit)).value().stream);
  EXPECT_FALSE(parse<Submit>("{}").value().stream);
  ResultMessage result;
  EXPECT_EQ(to_json(result).find("parts"), std::string::npos);
  result.parts = 7;
  EXPECT_EQ(parse<ResultMessage>(to_json(result)).value().parts, 7U);
}

TEST(Messages, ListsHaveLimits) {
  const auto many = [](std::string_view before, std::string_view item, std::size_t count, std::string_view after) {
    std::string text(before);
    for (std::size_t i = 0; i < count; ++i) text.append(i == 0 ? "" : ",").append(item);
    return text.append(after);
  };
  EXPECT_TRUE(parse<Submit>(many("{\"inputs\":[", "{}", 64, "]}")).has_value());
  expect_refused(parse<Submit>(many("{\"inputs\":[", "{}", 65, "]}")), "inputs");
  expect_refused(parse<Submit>(many("{\"inputs\":[{\"tensor\":{\"shape\":[", "1", 9, "]}}]}")),
                 "inputs[0].tensor.shape");
  EXPECT_FALSE(parse<Enrol>("{\"password\":\"" + std::string(1025, 'x') + "\"}").has_value());
}

std::string nested(std::size_t depth) {  // an object whose deepest array lies `depth` levels down
  return "{\"x\":" + std::string(depth - 1, '[') + std::string(depth - 1, ']') + "}";
}

TEST(Messages, WhatIsNoBoundedJsonObjectIsRefused) {
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("1"), std::string("{"), std::string("{\"a\":1}x"),
        std::string("{\"a\":1,}"), std::string("{\"a\":\"\xFF\xFE\"}"), std::string("{\"task\":\"\xED\xA0\x80\"}"),
        std::string("{\"a\":NaN}"), std::string("{\"a\":\"\x01\"}"), std::string("{\"a\":1}\0", 8),
        std::string(40000, '['), nested(18)}) {
    const auto outcome = parse<Locate>(text);
    ASSERT_FALSE(outcome.has_value()) << text.substr(0, 40);
    EXPECT_EQ(code_of(outcome), Errc::bad_frame);
  }
  EXPECT_TRUE(parse<Locate>(nested(16)).has_value());
}

TEST(Messages, TextOverTheFramesLimitIsRefusedBeforeItIsParsed) {
  const std::string fits = "{\"task\":\"" + std::string(kMaxJsonBytes - 11, 'x') + "\"}";
  ASSERT_EQ(fits.size(), kMaxJsonBytes);
  EXPECT_TRUE(parse<Locate>(fits).has_value());
  const auto over = parse<Locate>(fits + " ");
  ASSERT_FALSE(over.has_value());
  EXPECT_EQ(code_of(over), Errc::bad_frame);
}

TEST(Messages, AnErrorTravelsWithItsNumberAndWhatItQuotesStaysJson) {
  const Error error{Errc::unknown_task, "no task is called '\xFF\x80'"};
  const ErrorMessage sent = to_message(error, 250);
  const auto received = parse<ErrorMessage>(to_json(sent));
  ASSERT_TRUE(received.has_value()) << received.error().detail;
  EXPECT_EQ(received.value().name, "unknown_task");
  EXPECT_EQ(received.value().retry_after_ms, 250U);
  EXPECT_EQ(to_error(received.value()).code, Errc::unknown_task);
  EXPECT_NE(received.value().detail.find("\\xff\\x80"), std::string::npos) << received.value().detail;
}

TEST(Messages, ALongErrorIsCutBetweenCharacters) {
  std::string detail = "x";
  while (detail.size() < 5000) detail += "é";
  const ErrorMessage message = to_message(Error{Errc::internal, detail});
  EXPECT_LE(message.detail.size(), 2048U + 3);
  EXPECT_EQ(parse<ErrorMessage>(to_json(message)).value().detail, message.detail);
}

TEST(Messages, AnErrorOfALaterVersionKeepsItsNumberAndName) {
  const Error error = to_error(ErrorMessage{.code = 999, .name = "too_funny", .detail = "ha", .retry_after_ms = 0});
  EXPECT_EQ(static_cast<int>(error.code), 999);
  EXPECT_EQ(error.detail, "too_funny: ha");
}

}  // namespace
}  // namespace gearbox::wire
