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

}  // namespace
}  // namespace gearbox::supervisor
