#include "cli/gear_page.hpp"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include <cstdlib>
#include <string>

namespace gearbox::cli {
namespace {

namespace json = boost::json;

class GearPageTest : public ::testing::Test {
 protected:
  GearPageTest() {
    ::setenv("TZ", "UTC", 1);
    ::tzset();
  }
  static bool has(const std::string& page, const std::string& text) { return page.find(text) != std::string::npos; }
};

TEST_F(GearPageTest, GroupsTellWhatTheyAreInAndWhatIsWrong) {
  const auto facts = json::parse(R"({"groups": [
      {"name": "story", "gear": 2, "plan": "2 copies, each tensor ×2", "epoch": 7, "running": 3, "waiting": 1,
       "memory_pressure": 0.3, "memory_bytes": 7000000, "busy_mean": 0.5, "phase": "running", "stale": false,
       "record": {"name": "story", "since_shift_ms": 65000, "held": true, "allowed": [1, 2], "shifting": false}},
      {"name": "tale", "gear": 1, "plan": "x", "epoch": 1, "stale": true, "problem": "nobody answers", "record": {}}],
    "scheduler": {"leads": true, "leader": "node-1", "term": 4, "policy": "cost_model", "mode": "normal", "dry_run": true,
                  "left_out": [{"group": "tale", "why": "its figures are stale"}]},
    "missing": []})")
                         .as_object();
  const std::string page = groups_page(facts, false);
  EXPECT_TRUE(has(page, "1 min 5 s ago")) << page;
  EXPECT_TRUE(has(page, "running, held, only gears 1,2"));
  EXPECT_TRUE(has(page, "7.0 MB"));
  EXPECT_TRUE(has(page, "stale: nobody answers"));
  EXPECT_TRUE(
      has(page, "'node-1' leads (term 4), policy cost_model, mode normal; dry run: it decides and shifts nothing"));
  EXPECT_TRUE(has(page, "not decided on: tale: its figures are stale"));
}

TEST_F(GearPageTest, GroupsOfOtherHostsAndHostsThatAreAwayAreTold) {
  const auto facts = json::parse(R"({"groups": [
      {"name": "story", "host": "north", "gear": 2, "record": {}}, {"name": "story", "host": "south", "gear": 1}],
    "scheduler": {"leads": true, "leader": "north", "term": 4, "policy": "fixed", "mode": "normal", "hosts": [
      {"name": "north", "own": true, "away": "", "groups": 1},
      {"name": "south", "own": false, "away": "", "groups": 1, "trust": 0.75},
      {"name": "west", "own": false, "away": "no_node: node 'west' is not there", "groups": 0}]},
    "missing": []})")
                         .as_object();
  const std::string page = groups_page(facts, false);
  EXPECT_TRUE(has(page, "host   group")) << page;
  EXPECT_TRUE(has(page, "south  story"));
  EXPECT_TRUE(has(page, "host south: 1 groups are decided on as well, trust in it 0.75"));
  EXPECT_TRUE(has(page, "host west: nothing is decided on its groups: no_node: node 'west' is not there"));
}

TEST_F(GearPageTest, WhatIsMissingIsSaidPlainly) {
  const auto facts = json::parse(R"({"groups": [], "scheduler": null,
    "missing": [{"role": "scheduler", "why": "no scheduler runs here, so nothing is decided"}]})")
                         .as_object();
  EXPECT_EQ(groups_page(facts, false), "no group runs here\n\nno scheduler runs here, so nothing is decided\n");
}

TEST_F(GearPageTest, ShiftsTellTheirPauseAndTheirEnd) {
  const auto shifts = json::parse(R"([
    {"number": 2, "group": "story", "from": 2, "to": 3, "origin": "person", "term": 4, "ok": false, "why": "no room",
     "recovered": false, "began_unix_ms": 0, "ended_unix_ms": 40, "report": {}},
    {"number": 1, "group": "story", "from": 1, "to": 2, "origin": "scheduler", "term": 4, "ok": true, "why": "",
     "recovered": true, "began_unix_ms": 0, "ended_unix_ms": 90, "report": {"pause_ms": 9.25, "shift_ms": 80}}])");
  const std::string page = shifts_page(shifts.as_array(), false);
  EXPECT_TRUE(has(page, "1970-01-01 00:00:00")) << page;
  EXPECT_TRUE(has(page, "not done: no room"));
  EXPECT_TRUE(has(page, "gear 1 → 2"));
  EXPECT_TRUE(has(page, "9.2 ms"));
  EXPECT_TRUE(has(page, "told by the engine"));
  EXPECT_EQ(shifts_page({}, false), "no group has shifted yet\n");
}

TEST_F(GearPageTest, ADecisionTellsRuleGovernorBoundsAndPrices) {
  const auto decisions = json::parse(R"([
    {"group": "story", "from": 2, "to": 1, "urgent": true, "rule": "price", "reason": "12 requests/s", "governor": "dwell",
     "why": "3 s since its last shift", "shift_number": 0, "dry_run": false, "runner_up": 2, "times": 14,
     "first_unix_ms": 1000, "last_unix_ms": 15000, "term": 4,
     "priced": [{"gear": 1, "latency_s": 2.5, "capacity_per_s": 40}, {"gear": 2, "latency_s": -1, "capacity_per_s": 9}],
     "assessment": {"compute": 0.2, "memory": 0.7, "communication": 0.05, "rest": 0.05, "figures": "20 rows"},
     "inputs": {"sequence": 9, "age_ms": 12, "pool": "chat", "running": 3, "waiting": 1, "busy_mean": 0.5, "busy_peak": 0.9,
                "memory_pressure": -1, "fast": {"requests_per_s": 12, "prompt_tokens": 400, "output_tokens": 200}}},
    {"group": "story", "from": 1, "to": 2, "rule": "fixed", "reason": "told", "governor": "pass", "shift_number": 5,
     "term": 4, "first_unix_ms": 0, "times": 1}])");
  const std::string page = decisions_page(decisions.as_array(), false);
  EXPECT_TRUE(has(page, "story: gear 2 → 1, urgent, 14 times until 00:00:15")) << page;
  EXPECT_TRUE(has(page, "governor: held back by dwell: 3 s since its last shift"));
  EXPECT_TRUE(has(page, "compute 20 %, memory 70 %, communication 5 %, the rest 5 %\n            20 rows"));
  EXPECT_TRUE(has(page, "does not keep up"));
  EXPECT_TRUE(has(page, "chosen"));
  EXPECT_TRUE(has(page, "now, runner-up"));
  EXPECT_TRUE(has(page, "busy 50 % (peak 90 %), 12 requests/s of 400 + 200 tokens"));
  EXPECT_TRUE(has(page, "pass: ordered as shift 5 in term 4"));
  EXPECT_TRUE(has(page, "not known: the model's shape is not told"));
}

}  // namespace
}  // namespace gearbox::cli
