#include "supervisor/readiness.hpp"

#include <gtest/gtest.h>

namespace gearbox::supervisor {
namespace {

TEST(Readiness, NamesTasksAndModelsOfAReadyNode) {
  const auto out = read_readiness("node", R"({"ready":true,"listen":"tcp://127.0.0.1:7601",
      "models":[{"name":"det","ready":true,"workers":1},{"name":"rec","ready":2,"workers":3}],
      "tasks":[{"name":"read-text","ready":true,"missing":[]}]})");
  ASSERT_TRUE(out);
  EXPECT_TRUE(out.value().ready);
  EXPECT_EQ(out.value().line, "node ready at tcp://127.0.0.1:7601: tasks read-text (det 1 worker, rec 2 workers)");
}

TEST(Readiness, SaysWhatItWaitsForAndWhy) {
  const auto out = read_readiness(
      "node", R"({"ready":false,"models":[{"name":"det","ready":0,"workers":1,"state":"loading","reason":""},
      {"name":"rec","ready":false,"state":"failed","reason":"ImportError: no\nmodule"}]})");
  ASSERT_TRUE(out);
  EXPECT_FALSE(out.value().ready);
  EXPECT_EQ(out.value().line, "node is not ready: waiting for det (loading), rec (ImportError: no\\x0amodule)");
}

TEST(Readiness, IsNeverTakenFromWhatIsNoTruth) {
  for (const char* text : {R"({"ready":1})", R"({"ready":"true"})", "{}", R"({"ready":null,"models":7,"tasks":"x"})"}) {
    const auto out = read_readiness("node", text);
    ASSERT_TRUE(out) << text;
    EXPECT_FALSE(out.value().ready) << text;
  }
  for (const char* text : {"", "[]", "true", "{"}) EXPECT_FALSE(read_readiness("node", text)) << text;
}

}  // namespace
}  // namespace gearbox::supervisor
