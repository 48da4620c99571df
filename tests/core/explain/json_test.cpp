#include "explain/json.hpp"

#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value_to.hpp>

#include "gearbox/wire/frame.hpp"

namespace gearbox::explain {
namespace {

const Instant kStart = Instant{} + seconds(100);

Pick full_pick() {
  auto others = std::make_shared<Others>();
  for (std::uint32_t i = 0; i < kWorkers; ++i) {
    others->workers.push_back({{.worker = WorkerId{1000 + i}, .standing = Standing::other_model}, "1.0.0-rc1"});
  }
  Pick pick;
  pick.at = kStart + seconds(2);
  pick.chosen = WorkerId{100'001};
  pick.chooser = std::make_shared<const Chooser>(Chooser{"least_loaded", "1.0", std::string(64, 'a')});
  pick.others = others;
  for (std::uint32_t i = 0; i < 2 * kWorkers; ++i) {
    pick.seen.push_back({.worker = WorkerId{100'000 + i},
                         .slot = i,
                         .pid = 4'000'000,
                         .queued = 4'000'000'000,
                         .running = 1,
                         .capacity = 4'000'000'000,
                         .p95_us = 4'000'000'000,
                         .standing = i < kWorkers ? Standing::candidate : Standing::full});
  }
  pick.error = Errc::worker_lost;
  pick.reason = std::string(kReasonBytes, '"');
  return pick;
}

Call worst_call() {
  Call call;
  call.submitted = kStart;
  call.ended = kStart + seconds(3);
  for (std::size_t i = 0; i < kPicks; ++i) call.add(full_pick());
  return call;
}

TEST(ExplainJson, TheWorstTraceComesInPiecesThatFitIntoAFrameEach) {
  Trace trace;
  trace.arrived = kStart;
  for (int i = 0; i < 20; ++i) {
    Step& step = trace.steps.emplace_back();
    step.name = "step" + std::to_string(i);
    step.started = kStart;
    for (std::size_t n = 0; n < kFirstCalls; ++n) step.first.push_back(worst_call());
    for (std::size_t n = 0; n < kSlowestCalls; ++n) step.slowest.push_back(worst_call());
    for (std::size_t n = 0; n < kOpenCalls; ++n) step.still_open.push_back(worst_call());
    step.answered = kFirstCalls + kSlowestCalls;
    step.open = kOpenCalls;
  }
  std::vector<std::string> names;
  std::uint64_t from = 0;
  int pieces = 0;
  do {
    const boost::json::object facts = to_json(trace, from, kStart);
    ASSERT_LE(boost::json::serialize(facts).size(), wire::kMaxJsonBytes);
    for (const auto& step : facts.at("steps").as_array()) {
      names.emplace_back(step.as_object().at("step").as_string());
      const auto& shown = step.as_object().at("kept").as_array();
      EXPECT_GE(shown.size(), 1U);
      EXPECT_EQ(shown.size() + step.as_object().at("calls").as_object().at("not_shown").to_number<std::size_t>(), 8U);
    }
    from = facts.contains("next") ? facts.at("next").to_number<std::uint64_t>() : 0;
    ASSERT_LT(++pieces, 30);
  } while (from != 0);
  EXPECT_EQ(names.size(), 20U);
  EXPECT_EQ(names.back(), "step19");
  EXPECT_GT(pieces, 1);
}

TEST(ExplainJson, TellsWhoChoseAndWhoWasExcludedAndWhy) {
  Trace trace;
  trace.arrived = kStart;
  Step& step = trace.steps.emplace_back();
  step.started = kStart;
  step.first.push_back(worst_call());
  const boost::json::object facts = to_json(trace, 0, kStart);
  const auto& pick = facts.at("steps").at(0).at("kept").at(0).at("picks").at(0);
  EXPECT_EQ(pick.at("balancer").at("version").as_string(), "1.0");
  EXPECT_EQ(pick.at("balancer").at("checksum").as_string(), "aaaaaaaaaaaa");
  EXPECT_EQ(pick.at("chosen").at("slot").to_number<int>(), 1);
  EXPECT_EQ(pick.at("candidates").as_array().size(), kWorkers);
  const auto& excluded = pick.at("excluded").as_array();
  ASSERT_EQ(excluded.size(), 2 * kWorkers);
  EXPECT_EQ(excluded.front().at("why").as_string(), "full");
  EXPECT_EQ(excluded.back().at("why").as_string(), "runs version 1.0.0-rc1");
  EXPECT_EQ(pick.at("failed").at("code").as_string(), "worker_lost");
}

TEST(ExplainJson, ACallThatWasCutOffTellsHowLongItHadBeenAtItsWorker) {
  Trace trace;
  trace.arrived = kStart;
  trace.ready = kStart + milliseconds(500);
  trace.over = true;
  Step& step = trace.steps.emplace_back();
  step.started = kStart;
  for (const int got_ms : {100, 300}) {
    Call call;
    call.submitted = kStart;
    Pick pick;
    pick.at = kStart + milliseconds(got_ms);
    pick.chosen = WorkerId{1};
    call.add(std::move(pick));
    step.add_open(std::move(call), trace.kept_bytes);
  }
  Call waited;
  waited.submitted = kStart;
  step.add_open(std::move(waited), trace.kept_bytes);
  // Asked for long after its end.
  const boost::json::object facts = to_json(trace, 0, kStart + seconds(60));
  const auto& told = facts.at("steps").at(0);
  EXPECT_EQ(told.at("longest_open_us").to_number<int>(), 400'000);
  const auto& kept = told.at("kept").as_array();
  ASSERT_EQ(kept.size(), 3U);
  EXPECT_EQ(kept[0].at("there_us").to_number<int>(), 400'000);
  EXPECT_EQ(kept[0].at("queue_us").to_number<int>(), 100'000);
  EXPECT_FALSE(kept[0].as_object().contains("run_us")) << "nobody knows";
  EXPECT_EQ(kept[1].at("there_us").to_number<int>(), 200'000);
  EXPECT_FALSE(kept[2].as_object().contains("there_us")) << "no worker had it";
  EXPECT_EQ(kept[2].at("queue_us").to_number<int>(), 500'000);
}

TEST(ExplainJson, AnErrorsTextThatIsNoUtf8StaysJson) {
  Trace trace;
  trace.error = Errc::model_failed;
  trace.reason = shortened(std::string(kReasonBytes - 1, 'a') + "\xC3\xA4");
  const boost::json::object facts = to_json(trace, 0, kStart);
  EXPECT_NE(std::string(facts.at("error").at("detail").as_string()).find("\\x"), std::string::npos);
}

}  // namespace
}  // namespace gearbox::explain
