#include "supervisor/orders.hpp"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

namespace gearbox::supervisor {
namespace {

boost::json::object object(const char* text) {
  return boost::json::parse(text).as_object();
}

TEST(Orders, ReadsALaunch) {
  const auto order = read_launch(object(R"({"role":"worker-3","argv":["/bin/x","y"],"env":["A=b"],"order":"7"})"));
  ASSERT_TRUE(order);
  EXPECT_EQ(order.value().role, "worker-3");
  EXPECT_EQ(order.value().argv, (std::vector<std::string>{"/bin/x", "y"}));
  EXPECT_EQ(order.value().env, std::vector<std::string>{"A=b"});
  EXPECT_EQ(order.value().order, "7");
}

TEST(Orders, ReadsALimitOfMemory) {
  const auto order = read_launch(object(R"({"role":"worker-3","argv":["/bin/x"],"memory_limit_bytes":1048576})"));
  ASSERT_TRUE(order);
  EXPECT_EQ(order.value().memory_limit, 1048576U);
  EXPECT_EQ(read_launch(object(R"({"role":"worker-3","argv":["/bin/x"]})")).value().memory_limit, 0U);
  EXPECT_FALSE(read_launch(object(R"({"role":"worker-3","argv":["/bin/x"],"memory_limit_bytes":-1})")));
  EXPECT_FALSE(read_launch(object(R"({"role":"worker-3","argv":["/bin/x"],"memory_limit_bytes":"all"})")));

  const auto later = read_limit(object(R"({"pid":7,"memory_limit_bytes":5})"));
  ASSERT_TRUE(later);
  EXPECT_EQ(later.value().pid, 7);
  EXPECT_EQ(later.value().memory_limit, 5U);
  EXPECT_FALSE(read_limit(object(R"({"pid":7})")));
  EXPECT_FALSE(read_limit(object(R"({"pid":1,"memory_limit_bytes":5})")));
  EXPECT_FALSE(read_pid(object("{}")));
}

TEST(Orders, StartsWorkersOnlyUnderAllowedNames) {
  for (const char* role : {"node", "central", "worker-../../x", "worker-a/b", ""}) {
    boost::json::object request = object(R"({"argv":["/bin/x"]})");
    request["role"] = role;
    const auto order = read_launch(request);
    ASSERT_FALSE(order) << role;
    EXPECT_EQ(order.error().code, Errc::bad_name) << role;
  }
}

TEST(Orders, RefusesWhatCannotBeACommandLine) {
  for (const char* rest : {R"({"argv":[]})", R"({"argv":["x"]})", R"({"argv":"/bin/x"})", R"({"argv":["/bin/x",1]})",
                           R"({"argv":["/bin/x\u0000y"]})", R"({"argv":["/bin/x"],"env":"A=b"})", "{}"}) {
    boost::json::object request = object(rest);
    request["role"] = "worker-1";
    EXPECT_FALSE(read_launch(request)) << rest;
  }
}

TEST(Orders, BoundsAStop) {
  EXPECT_EQ(read_stop(object(R"({"pid":77,"grace_ms":500})")).value().grace, milliseconds(500));
  EXPECT_EQ(read_stop(object(R"({"pid":77,"grace_ms":99999999999})")).value().grace, milliseconds(600000));
  for (const char* text :
       {"{}", R"({"pid":77})", R"({"pid":1,"grace_ms":0})", R"({"pid":-5,"grace_ms":0})", R"({"pid":77,"grace_ms":-1})",
        R"({"pid":4294967373,"grace_ms":0})", R"({"pid":"77","grace_ms":0})", R"({"pid":1e300,"grace_ms":0})"}) {
    EXPECT_FALSE(read_stop(object(text))) << text;
  }
}

TEST(Orders, BoundsADrainAndReadsWhatTheNodeSaysOfIt) {
  EXPECT_EQ(read_drain(object(R"({"within_ms":0})")).value(), milliseconds(0));
  EXPECT_EQ(read_drain(object(R"({"within_ms":86400000})")).value(), std::chrono::hours(24));
  for (const char* text : {"{}", R"({"within_ms":-1})", R"({"within_ms":86400001})", R"({"within_ms":"5"})"}) {
    EXPECT_FALSE(read_drain(object(text))) << text;
  }
  const auto unfinished = read_unfinished(object(R"({"failed":2,"kept":3})"));
  ASSERT_TRUE(unfinished);
  EXPECT_EQ(unfinished.value().failed, 2U);
  EXPECT_EQ(unfinished.value().kept, 3U);
  for (const char* text : {"{}", R"({"failed":2})", R"({"failed":-2,"kept":0})"}) {
    EXPECT_FALSE(read_unfinished(object(text))) << text;
  }
}

}  // namespace
}  // namespace gearbox::supervisor
