#include "sinks/event.hpp"

#include <gtest/gtest.h>

#include <boost/json.hpp>

namespace gearbox::sinks {
namespace {

namespace json = boost::json;

Bytes bytes_of(std::initializer_list<unsigned> values) {
  Bytes bytes;
  for (const unsigned value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

Event with_output(wire::DType type, std::vector<std::int64_t> shape, Bytes payload) {
  Event event;
  event.user = "anna";
  event.task = "echo";
  event.result.tensors.push_back({"out", type, std::move(shape), payload.size()});
  event.result.bytes = payload.size();
  event.values.emplace_back(0, std::move(payload));
  return event;
}

std::string values_in(const Event& event) {
  const json::value all = json::parse(to_json(event, "node-1", "/state/store"));
  return json::serialize(all.at("result").at("tensors").at(0).at("values"));
}

TEST(SinkEvent, TellsSmallOutputsWithTheirValues) {
  EXPECT_EQ(values_in(with_output(wire::DType::uint8, {3}, bytes_of({1, 0, 255}))), "[1,0,255]");
  EXPECT_EQ(values_in(with_output(wire::DType::int16, {2}, bytes_of({0xFF, 0xFF, 2, 0}))), "[-1,2]");
  EXPECT_EQ(values_in(with_output(wire::DType::boolean, {2}, bytes_of({1, 0}))), "[true,false]");
  EXPECT_EQ(values_in(with_output(wire::DType::fp16, {3}, bytes_of({0, 0x3C, 0, 0xC1, 0, 0x7C}))), "[1E0,-2.5E0,null]");
  EXPECT_EQ(values_in(with_output(wire::DType::fp32, {1}, bytes_of({0, 0, 0x80, 0x3F}))), "[1E0]");
  EXPECT_EQ(values_in(with_output(wire::DType::bytes, {2}, bytes_of({2, 0, 0, 0, 'h', 'i', 1, 0, 0, 0, 0xFF}))),
            R"(["hi","\\xff"])");
}

TEST(SinkEvent, WhatAPluginSeesIsWhatWasWritten) {
  Event event;
  event.key.id.bytes.fill(std::byte{0xAB});
  event.user = "anna";
  event.task = "echo";
  event.tenant = 7;
  event.error = Error{Errc::model_failed, "bad \xFF letter"};
  event.accepted_unix_ms = 1000;
  event.finished_unix_ms = 2000;
  event.input_bytes = 5;
  const ParsedEvent parsed(to_json(event, "node-1", "/state/store"));
  const plugin::EventView& view = parsed.view();
  EXPECT_EQ(view.key, std::string(64, '0') + "/" + to_text(event.key.id) + "/failed");
  EXPECT_EQ(view.state, "failed");
  EXPECT_EQ(view.request, to_text(event.key.id));
  EXPECT_EQ(view.user, "anna");
  EXPECT_EQ(view.tenant, 7U);
  EXPECT_EQ(view.error, "model_failed: bad \\xff letter");
  EXPECT_EQ(view.accepted_unix_ms, 1000);
  EXPECT_EQ(view.finished_unix_ms, 2000);
  EXPECT_EQ(view.input_bytes, 5U);
  EXPECT_EQ(view.stored_in, "/state/store");
  EXPECT_EQ(view.json.find('\n'), std::string_view::npos);
}

TEST(SinkEvent, WhatIsNoEventAnyMoreIsEmpty) {
  const ParsedEvent parsed("not json");
  EXPECT_EQ(parsed.view().key, "");
  EXPECT_EQ(parsed.view().result_json, "{}");
}

}  // namespace
}  // namespace gearbox::sinks
