#include "output.hpp"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include "progress.hpp"

namespace gearbox::client {
namespace {

Report text_report(const std::string& line) {
  Report report;
  report.file = "tag.jpg";
  report.task = "read-text";
  report.node = "n1";
  report.request.bytes[0] = std::byte{7};
  wire::TensorSpec spec;
  spec.name = "text";
  spec.dtype = wire::DType::bytes;
  spec.shape = {1};
  spec.bytes = 4 + line.size();
  report.payload.resize(4);
  store_le(report.payload.data(), static_cast<std::uint32_t>(line.size()));
  const ByteView text = view_of(line);
  report.payload.insert(report.payload.end(), text.begin(), text.end());
  report.result.tensors = {spec};
  report.result.bytes = spec.bytes;
  wire::StepTiming step;
  step.step = "recognise";
  step.model = "rec";
  step.version = "4";
  step.calls = 3;
  step.run_us = 12'500;
  report.result.timing.steps = {step};
  report.inputs = {InputNote{"image", {"image_delta", "zstd"}}};
  report.traffic = Traffic{3'000'000, 1'000'000, 1'002'000, 500};
  report.timing.locate = microseconds(1'500);
  return report;
}

boost::json::object parsed(const Report& report) {
  boost::system::error_code failed;
  boost::json::value value = boost::json::parse(to_json(report), failed);
  EXPECT_FALSE(failed) << failed.message() << " in " << to_json(report);
  return failed ? boost::json::object() : value.as_object();
}

TEST(Output, JsonHasTheStableKeys) {
  const boost::json::object json = parsed(text_report("HILL FARM"));
  EXPECT_EQ(json.at("file").as_string(), "tag.jpg");
  EXPECT_TRUE(json.at("ok").as_bool());
  EXPECT_EQ(json.at("request").as_string().size(), 32U);
  EXPECT_EQ(json.at("task").as_string(), "read-text");
  EXPECT_EQ(json.at("node").as_string(), "n1");
  const boost::json::object& text = json.at("outputs").at("text").as_object();
  EXPECT_EQ(text.at("dtype").as_string(), "BYTES");
  EXPECT_EQ(text.at("data").as_array()[0].as_string(), "HILL FARM");
  const boost::json::object& timing = json.at("timing").as_object();
  for (const char* key :
       {"prepare_us", "locate_us", "connect_us", "upload_us", "queue_us", "node_us", "reply_us", "total_us"}) {
    EXPECT_TRUE(timing.contains(key)) << key;
  }
  EXPECT_EQ(timing.at("locate_us").as_int64(), 1'500);
  EXPECT_EQ(timing.at("steps").as_array()[0].at("run_us").as_int64(), 12'500);
  EXPECT_EQ(json.at("bytes").at("plain").as_int64(), 3'000'000);
  EXPECT_EQ(json.at("bytes").at("received").as_int64(), 500);
  EXPECT_EQ(json.at("codecs").at("image").as_array().size(), 2U);
}

TEST(Output, AnErrorHasNumberNameAndDetail) {
  Report report;
  report.file = "a\xFF.jpg";  // a legal file name that is not UTF-8
  report.error = Error{Errc::bad_picture, "cut at byte 3\nX"};
  const boost::json::object json = parsed(report);
  EXPECT_FALSE(json.at("ok").as_bool());
  EXPECT_EQ(json.at("error").at("code").as_int64(), 14);
  EXPECT_EQ(json.at("error").at("name").as_string(), "bad_picture");
  EXPECT_EQ(json.at("error").at("detail").as_string(), "cut at byte 3\nX");
  EXPECT_EQ(json.at("file").as_string(), "a\\xff.jpg");
  EXPECT_EQ(to_json(report).find('\n'), std::string::npos);
  EXPECT_EQ(error_text(report), "pi_client: a\\xff.jpg: bad_picture: cut at byte 3\\x0aX\n");
}

TEST(Output, PeopleGetTheLinesAndNoControlBytes) {
  EXPECT_EQ(result_text(text_report("HILL FARM")), "HILL FARM\n");
  EXPECT_EQ(result_text(text_report("a\x1B[2Jb")), "a\\x1b[2Jb\n");
}

TEST(Output, TheTableTellsTimesAndBytes) {
  const std::string text = table(text_report("x"));
  for (const char* part :
       {"locate", "1.5 ms", "step recognise", "12.5 ms", "3 calls", "3000.0 KB", "3.00 : 1", "image_delta zstd"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " not in\n" << text;
  }
}

TEST(Output, ProgressFitsTheTerminal) {
  Tally tally;
  tally.to_upload = 4'000'000;
  tally.uploaded = 1'000'000;
  tally.requests = 5;
  tally.finished = 2;
  tally.waiting = 1;
  EXPECT_EQ(progress_line(tally, 200),
            "[######------------------]  25 %  1.0 of 4.0 MB up, 2 of 5 done, waiting for 1");
  EXPECT_EQ(progress_line(tally, 10).size(), 10U);
}

}  // namespace
}  // namespace gearbox::client
