#include "recording/recorder.hpp"

#include <gtest/gtest.h>

#include <string>

namespace gearbox::recording {
namespace {

const Instant kBegan = Instant{} + seconds(1000);

explain::Trace trace_at(milliseconds after, const std::string& task = "read") {
  explain::Trace trace;
  trace.task = task;
  trace.user = "ann";
  trace.arrived = kBegan + after;
  trace.verified = trace.arrived + milliseconds(2);
  trace.ready = trace.arrived + milliseconds(30);
  trace.plain_bytes = 3000;
  trace.result_bytes = 40;
  return trace;
}

std::string all_of(const Recorder& recorder, Instant since = kBegan, Instant zero = kBegan) {
  return recorder.piece(0, since, zero, 1 << 20).lines;
}

TEST(Recorder, WritesALineForARequest) {
  Recorder recorder(10, kBegan);
  explain::Trace trace = trace_at(milliseconds(5));
  explain::Step step;
  step.name = "find";
  step.calls = 3;
  step.longest_queue = microseconds(70);
  step.longest_run = microseconds(900);
  step.sum_run = microseconds(2000);
  trace.steps = {step, explain::Step()};  // the second one never ran
  recorder.note(trace);
  EXPECT_EQ(all_of(recorder), "5000,read,ann,0,0,3000,2000,30000,30000,40,,find:3:70:900:2000\n");
}

TEST(Recorder, CountsThePartsOfAStreamAndTellsWhenTheFirstCame) {
  Recorder recorder(10, kBegan);
  explain::Trace trace = trace_at(milliseconds(0));
  explain::Call call;
  call.parts = 12;
  call.input_tokens = 5;
  call.first_part = trace.arrived + milliseconds(7);
  explain::Step step;
  step.name = "tell";
  step.calls = 1;
  step.first = {call};
  trace.steps = {step};
  recorder.note(trace);
  EXPECT_EQ(all_of(recorder), "0,read,ann,5,12,3000,2000,7000,30000,40,,tell:1:0:0:0\n");
}

TEST(Recorder, AFailedRequestNamesItsError) {
  Recorder recorder(10, kBegan);
  explain::Trace trace = trace_at(milliseconds(0));
  trace.error = Errc::deadline_exceeded;
  recorder.note(trace);
  EXPECT_EQ(all_of(recorder),
            "0,read,ann,0,0,3000,2000,30000,30000,40," + std::string(name_of(Errc::deadline_exceeded)) + ",\n");
}

TEST(Recorder, WhatIsNoNameBreaksNoLine) {
  Recorder recorder(10, kBegan);
  recorder.note(trace_at(milliseconds(0), "a,b\nc"));
  EXPECT_EQ(all_of(recorder), "0,,ann,0,0,3000,2000,30000,30000,40,,\n");
}

TEST(Recorder, ForgetsTheOldestAndCountsThem) {
  Recorder recorder(2, kBegan);
  for (int i = 0; i < 5; ++i) recorder.note(trace_at(milliseconds(i)));
  EXPECT_EQ(recorder.size(), 2U);
  EXPECT_EQ(recorder.forgotten(), 3U);
  EXPECT_EQ(all_of(recorder).substr(0, 5), "3000,");
  recorder.limit(0);
  EXPECT_FALSE(recorder.keeps_any());
  EXPECT_EQ(recorder.bytes(), 0U);
  recorder.note(trace_at(milliseconds(9)));
  EXPECT_EQ(recorder.size(), 0U);
}

TEST(Recorder, PiecesAreTheWholeOnceEachThoughMoreEndsMeanwhile) {
  Recorder recorder(100, kBegan);
  for (int i = 0; i < 20; ++i) recorder.note(trace_at(milliseconds(i)));
  const std::string whole = all_of(recorder);
  std::string together;
  std::uint64_t from = 0;
  std::uint64_t requests = 0;
  do {
    const Piece piece = recorder.piece(from, kBegan, kBegan, 150);
    EXPECT_GT(piece.requests, 0U);
    EXPECT_LE(piece.lines.size(), 150U);
    together += piece.lines;
    requests += piece.requests;
    from = piece.next;
  } while (from != 0);
  EXPECT_EQ(together, whole);
  EXPECT_EQ(requests, 20U);
}

TEST(Recorder, ALineThatIsLargerThanAPieceIsOneAllTheSame) {
  Recorder recorder(100, kBegan);
  recorder.note(trace_at(milliseconds(1)));
  recorder.note(trace_at(milliseconds(2)));
  const Piece piece = recorder.piece(0, kBegan, kBegan, 1);
  EXPECT_EQ(piece.requests, 1U);
  EXPECT_EQ(piece.next, 1U);
  EXPECT_EQ(recorder.piece(piece.next, kBegan, kBegan, 1).next, 0U);
}

TEST(Recorder, TellsOfTheLastWhileOnlyAndFromItsFirstArrival) {
  Recorder recorder(100, kBegan);
  recorder.note(trace_at(milliseconds(100)));
  recorder.note(trace_at(milliseconds(5000)));
  recorder.note(trace_at(milliseconds(4000)));  // arrived before, ended after
  const Instant since = kBegan + milliseconds(3000);
  const Instant zero = recorder.earliest(since, kBegan);
  EXPECT_EQ(zero, kBegan + milliseconds(4000));
  const std::string lines = all_of(recorder, since, zero);
  EXPECT_EQ(lines.substr(0, 8), "1000000,");
  EXPECT_NE(lines.find("\n0,read"), std::string::npos) << lines;
  EXPECT_EQ(lines.find("100000,"), std::string::npos) << lines;
  EXPECT_EQ(recorder.earliest(kBegan + seconds(60), kBegan + seconds(90)), kBegan + seconds(90));
}

Payload payload_of(const std::string& text) {
  Payload payload;
  payload.inputs = "image:UINT8:" + std::to_string(text.size());
  payload.bytes.assign(view_of(text).begin(), view_of(text).end());
  return payload;
}

TEST(Recorder, KeepsNoPayloadUnlessItIsAskedFor) {
  Recorder recorder(10, kBegan);
  EXPECT_FALSE(recorder.keeps_payload_of(1));
  recorder.note(trace_at(milliseconds(0)), payload_of("secret"));
  EXPECT_EQ(recorder.payload(0), nullptr);
  EXPECT_EQ(recorder.payload_bytes(), 0U);
  EXPECT_EQ(recorder.piece(0, kBegan, kBegan, 1 << 20, true).lines, "0,read,ann,0,0,3000,2000,30000,30000,40,,,,\n");
}

TEST(Recorder, NamesTheFilesOfPayloadsOnlyToWhomAsksForThem) {
  Recorder recorder(10, kBegan);
  recorder.limit_payloads(10);
  ASSERT_TRUE(recorder.keeps_payload_of(10));
  EXPECT_FALSE(recorder.keeps_payload_of(11));
  EXPECT_FALSE(recorder.keeps_payload_of(0));
  recorder.note(trace_at(milliseconds(0)), payload_of("hello"));
  EXPECT_EQ(all_of(recorder), "0,read,ann,0,0,3000,2000,30000,30000,40,,\n");
  EXPECT_EQ(recorder.piece(0, kBegan, kBegan, 1 << 20, true).lines,
            "0,read,ann,0,0,3000,2000,30000,30000,40,,,00000000.bin,image:UINT8:5\n");
  ASSERT_NE(recorder.payload(0), nullptr);
  EXPECT_EQ(text_of(recorder.payload(0)->bytes), "hello");
}

TEST(Recorder, ForgetsTheOldestPayloadsBeforeTheirLines) {
  Recorder recorder(3, kBegan);
  recorder.limit_payloads(10);
  recorder.note(trace_at(milliseconds(0)), payload_of("aaaa"));
  recorder.note(trace_at(milliseconds(1)));
  recorder.note(trace_at(milliseconds(2)), payload_of("bbbb"));
  EXPECT_EQ(recorder.payload_bytes(), 8U);
  recorder.note(trace_at(milliseconds(3)), payload_of("cccc"));  // the first line has gone, its payload with it
  EXPECT_EQ(recorder.payload_bytes(), 8U);
  EXPECT_EQ(recorder.payload(0), nullptr);
  recorder.limit_payloads(5);
  EXPECT_EQ(recorder.size(), 3U);
  EXPECT_EQ(recorder.payload(2), nullptr);
  ASSERT_NE(recorder.payload(3), nullptr);
  EXPECT_EQ(text_of(recorder.payload(3)->bytes), "cccc");
  EXPECT_EQ(recorder.payload_bytes(), 4U);
  recorder.limit(0);
  EXPECT_EQ(recorder.payload_bytes(), 0U);
  EXPECT_FALSE(recorder.keeps_payload_of(1));
}

}  // namespace
}  // namespace gearbox::recording
