#include "replay/trace.hpp"

#include <gtest/gtest.h>

#include <filesystem>

namespace gearbox::replay {
namespace {

TEST(Trace, OurOwnFormatComesBackAsItWas) {
  const std::string text =
      "# gearbox-trace 1\nat_us,model,tenant,input_tokens,output_tokens,bytes\n0,,,10,5,40\n1500,story,ann,20,1,80\n"
      "2500,story,,30,2,0\n";
  const auto trace = parse_trace(text, "t");
  ASSERT_TRUE(trace) << trace.error().detail;
  EXPECT_EQ(text_of(trace.value()), text);
  EXPECT_EQ(trace.value().models, (std::vector<std::string>{"", "story"}));
  EXPECT_EQ(trace.value().tenants, (std::vector<std::string>{"", "ann"}));
  EXPECT_EQ(trace.value().arrivals[1].at, 1'500'000);
}

TEST(Trace, AzureAndMooncakeAreRead) {
  const auto azure = parse_trace(
      "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 23:59:59.5000000,374,44\r\n2023-11-17 "
      "00:00:00.7500000,396,109\r\n",
      "a");
  ASSERT_TRUE(azure) << azure.error().detail;
  EXPECT_EQ(azure.value().arrivals[1].at, 1'250'000'000);
  EXPECT_EQ(azure.value().arrivals[1].output_tokens, 109U);
  const auto mooncake = parse_trace(
      "{\"timestamp\": 3000, \"input_length\": 6758, \"output_length\": 500, \"hash_ids\": [0, 1]}\n"
      "{\"timestamp\": 0, \"input_length\": 7, \"output_length\": 3, \"hash_ids\": []}\n",
      "m");
  ASSERT_TRUE(mooncake) << mooncake.error().detail;
  EXPECT_EQ(mooncake.value().arrivals[0].input_tokens, 7U) << "sorted by time";
  EXPECT_EQ(mooncake.value().arrivals[1].at, 3 * kSecond);
}

TEST(Trace, ARecordingOfANodeHasMoreColumnsWhichArePassedOver) {
  const std::string head = "# gearbox-trace 1\nat_us,model,tenant,input_tokens,output_tokens,bytes,latency_us,steps\n";
  const auto trace = parse_trace(head + "7,read,ann,5,6,70,1234,find:1:2:3:4\n", "r");
  ASSERT_TRUE(trace) << trace.error().detail;
  EXPECT_EQ(trace.value().arrivals[0].output_tokens, 6U);
  EXPECT_EQ(trace.value().arrivals[0].bytes, 70U);
  const auto cut = parse_trace(head + "7,read,ann,5,6,70\n", "r");
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().detail, "r:3: it has 6 fields instead of 8");
}

TEST(Trace, WhatIsWrongIsToldWithItsLine) {
  const std::string head = "# gearbox-trace 1\nat_us,model,tenant,input_tokens,output_tokens,bytes\n";
  for (const char* line : {"1,,,2", "x,,,1,1,1", "-1,,,1,1,1", "1,,,99999999999,1,1", "1,../x,,1,1,1", "1,,,1,1,1,1",
                           "1e3,,,1,1,1", "9999999999999999,,,1,1,1", "1,,,1,-1,1"}) {
    const auto trace = parse_trace(head + "0,,,1,1,1\n" + line + "\n", "file");
    ASSERT_FALSE(trace) << line;
    EXPECT_EQ(trace.error().code, Errc::bad_input);
    EXPECT_EQ(trace.error().detail.rfind("file:4: ", 0), 0U) << trace.error().detail;
  }
  for (const char* text : {"", "\n", "hello\n", "{\"timestamp\": \"x\"}\n", "{\n", "# gearbox-trace 2\n",
                           "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-13-16 18:17:03,1,1\n"})
    EXPECT_FALSE(parse_trace(text, "file")) << text;
}

TEST(Trace, ThePublicTracesAreReadWhole) {
  const std::filesystem::path folder = GEARBOX_TRACES;
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "NOT RUN: ../shared/data/traces is not here";
  struct Known {
    const char* file;
    std::size_t rows;
    double span_s;
  };
  for (const Known& known : {Known{"AzureLLMInferenceTrace_code.csv", 8819, 3436},
                             {"AzureLLMInferenceTrace_conv.csv", 19366, 3502},
                             {"mooncake_conversation_trace.jsonl", 12031, 3537},
                             {"mooncake_synthetic_trace.jsonl", 3993, 1022}}) {
    const auto trace = read_trace(folder / known.file);
    ASSERT_TRUE(trace) << trace.error().detail;
    EXPECT_EQ(trace.value().arrivals.size() + trace.value().left_out, known.rows) << known.file;
    EXPECT_NEAR(trace.value().span_s(), known.span_s, 1.5) << known.file;
  }
}

}  // namespace
}  // namespace gearbox::replay
