#include "cli/plugin_rows.hpp"

#include <gtest/gtest.h>

#include "cli/json_facts.hpp"

namespace gearbox::cli {
namespace {

RolePlugins role(std::string_view name, const std::string& plugins) {
  const auto status = parse_object("{\"plugins\":" + plugins + "}");
  EXPECT_TRUE(status);
  return read_plugins(name, status.value());
}

std::string entry(const std::string& checksum, const std::string& state, const std::string& more = "") {
  return R"({"name":"moody","kind":"balancer","version":"2.0","checksum":")" + checksum + R"(","state":")" + state +
         "\"" + more + "}";
}

TEST(PluginRows, ReadWhatARoleTells) {
  const auto told = role("node", "[" +
                                     entry("abc", "loaded",
                                           R"(,"shipped":true,"since_unix_ms":5,"calls":7,"faults":2,"p99_us":30,)"
                                           R"("options":[{"key":"fill","default":"4"}],"file":"/x/moody.so")") +
                                     ",7]");
  ASSERT_EQ(told.rows.size(), 1U);
  const PluginRow& row = told.rows[0];
  EXPECT_EQ(row.name, "moody");
  EXPECT_EQ(row.kind, "balancer");
  EXPECT_EQ(row.version, "2.0");
  EXPECT_TRUE(row.shipped);
  EXPECT_EQ(row.calls, 7U);
  EXPECT_EQ(row.faults, 2U);
  EXPECT_EQ(row.p99_us, 30U);
  EXPECT_EQ(row.roles, std::vector<std::string>{"node"});
  EXPECT_EQ(boost::json::value(to_json(row)).at("options").at(0).at("default"), "4");
  EXPECT_EQ(boost::json::value(to_json(row)).at("roles").at(0), "node");
}

TEST(PluginRows, WhatIsMissingOrWrongIsEmptyAndTextIsEscaped) {
  EXPECT_TRUE(role("node", "\"none\"").rows.empty());
  const auto told = role("node", R"([{"name":"\u001b[31m","calls":"many","faults":-1}])");
  ASSERT_EQ(told.rows.size(), 1U);
  EXPECT_EQ(told.rows[0].name.find('\x1b'), std::string::npos);
  EXPECT_EQ(told.rows[0].calls, 0U);
  EXPECT_EQ(told.rows[0].faults, 0U);
}

TEST(PluginRows, OneBuildOfTwoRolesIsOneRow) {
  const auto rows = brought_together(
      {role("node", "[" + entry("aaa", "loaded", R"(,"calls":3,"faults":1,"p99_us":9,"since_unix_ms":100)") + "]"),
       role("central", "[" + entry("aaa", "loaded", R"(,"calls":4,"faults":1,"p99_us":5,"since_unix_ms":50)") + "," +
                           entry("bbb", "retiring") + "]")});
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].roles, (std::vector<std::string>{"node", "central"}));
  EXPECT_EQ(rows[0].calls, 7U);
  EXPECT_EQ(rows[0].faults, 2U);
  EXPECT_EQ(rows[0].p99_us, 9U);
  EXPECT_EQ(rows[0].since_unix_ms, 100U);
  EXPECT_EQ(rows[1].roles, std::vector<std::string>{"central"});
}

TEST(PluginRows, RolesWithDifferentBuildsAreToldApart) {
  const auto rows = brought_together(
      {role("node", "[" + entry("aaa", "loaded") + "]"), role("central", "[" + entry("bbb", "loaded") + "]")});
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].checksum, "aaa");
  EXPECT_EQ(rows[1].checksum, "bbb");
}

TEST(PluginRows, FindWhatIsInForceAndWhatIsBarred) {
  const auto node = role("node", "[" + entry("bbb", "barred") + "," + entry("aaa", "loaded") + "]");
  ASSERT_NE(loaded_in(node, "", "moody"), nullptr);
  EXPECT_EQ(loaded_in(node, "balancer", "moody")->checksum, "aaa");
  EXPECT_EQ(loaded_in(node, "codec", "moody"), nullptr);
  EXPECT_EQ(loaded_in(node, "", "other"), nullptr);
  EXPECT_TRUE(barred_in(node, "", "moody"));
  EXPECT_FALSE(barred_in(node, "codec", "moody"));
  EXPECT_FALSE(barred_in(role("node", "[" + entry("aaa", "loaded") + "]"), "", "moody"));
}

TEST(PluginRows, TellTimesForPeople) {
  EXPECT_EQ(latency_text(0), "");
  EXPECT_EQ(latency_text(870), "870 us");
  EXPECT_EQ(latency_text(1240), "1.2 ms");
  EXPECT_EQ(latency_text(3'000'000), "3.0 s");
  EXPECT_EQ(time_text(0), "");
  EXPECT_EQ(time_text(1'796'000'000'000).size(), 19U);
  EXPECT_EQ(short_checksum("3f9a01c2deadbeef"), "3f9a01c2…");
}

}  // namespace
}  // namespace gearbox::cli
