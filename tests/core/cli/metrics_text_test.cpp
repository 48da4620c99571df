#include "cli/metrics_text.hpp"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include <set>
#include <sstream>

namespace gearbox::cli {
namespace {

std::string text_of(const char* facts) {
  return metrics_text(boost::json::parse(facts).as_object());
}

bool has_line(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

constexpr const char* kFacts = R"({
  "supervisor": {"children": [{"role": "node", "restarts": 2}], "ready": true},
  "central": null,
  "node": {"version": "0.1.0", "ready": true, "uptime_ms": 1500, "sessions": 3,
    "counters": {"open": 1, "accepted": 7, "wire_bytes": 123456789012},
    "models": [{"name": "he said \"moo\"", "version": "1", "queued": 4, "running": 2, "step_p95_us": 2500}],
    "tasks": [{"name": "read", "ready": false}],
    "workers_ended": {"frozen": 1},
    "memory": {"input_bytes": 1000, "input_used": 10}},
  "groups": [{"name": "story", "gear": 3, "busy_mean": 0.25, "memory_pressure": -1, "tokens": 99, "stale": false,
    "load": {"first_token_ms": 12.5}}],
  "links": [{"peer": "b", "failed": true, "latency_us": -1}],
  "scheduler": {"leads": true, "term": 4, "last_round_us": 80}})";

TEST(MetricsText, TellsWhatTheRolesTold) {
  const std::string text = text_of(kFacts);
  for (const char* line :
       {"gearbox_up{role=\"node\"} 1", "gearbox_up{role=\"central\"} 0", "gearbox_up{role=\"supervisor\"} 1",
        "gearbox_role_restarts_total{role=\"node\"} 2", "gearbox_uptime_seconds{role=\"node\"} 1.5",
        "gearbox_build_info{role=\"node\",version=\"0.1.0\"} 1", "gearbox_node_requests_accepted_total 7",
        "gearbox_node_received_wire_bytes_total 123456789012", "gearbox_task_ready{task=\"read\"} 0",
        "gearbox_workers_ended_total{reason=\"frozen\"} 1", "gearbox_shared_memory_used_bytes{arena=\"input\"} 10",
        "gearbox_group_gear{group=\"story\"} 3", "gearbox_group_busy_ratio{group=\"story\"} 0.25",
        "gearbox_group_stale{group=\"story\"} 0", "gearbox_group_first_token_seconds{group=\"story\"} 0.0125",
        "gearbox_link_failed{peer=\"b\"} 1", "gearbox_scheduler_leads 1", "gearbox_scheduler_round_seconds 8e-05"})
    EXPECT_TRUE(has_line(text, line)) << line << "\n" << text;
}

TEST(MetricsText, ALabelIsQuotedAndUnitsAreSeconds) {
  EXPECT_TRUE(
      has_line(text_of(kFacts), "gearbox_model_step_p95_seconds{model=\"he said \\\"moo\\\"\",version=\"1\"} 0.0025"));
}

TEST(MetricsText, WhatNobodyKnowsIsLeftOut) {
  const std::string text = text_of(kFacts);
  EXPECT_EQ(text.find("memory_pressure"), std::string::npos) << text;
  EXPECT_EQ(text.find("gearbox_link_latency"), std::string::npos) << text;
  EXPECT_EQ(text.find("gearbox_up{role=\"observer\"}"), std::string::npos) << "it is not wanted here";
  EXPECT_EQ(text_of("{}"), "");
}

TEST(MetricsText, EachMetricIsOneBlockWithOneTypeAndCountersEndInTotal) {
  std::istringstream lines(text_of(kFacts));
  std::set<std::string> seen;
  std::string name;
  std::string type;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (word == "#") {
      std::string what;
      words >> what >> name;
      if (what == "TYPE") {
        words >> type;
        EXPECT_TRUE(seen.insert(name).second) << "twice: " << name;
        EXPECT_EQ(type == "counter", name.size() > 6 && name.substr(name.size() - 6) == "_total") << name;
      }
      continue;
    }
    EXPECT_EQ(word.substr(0, word.find('{')), name) << line;
  }
  EXPECT_GT(seen.size(), 15U);
}

}  // namespace
}  // namespace gearbox::cli
