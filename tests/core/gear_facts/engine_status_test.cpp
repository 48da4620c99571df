#include "gear_facts/engine_status.hpp"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include <string>

namespace gearbox::gear_facts {
namespace {

Outcome<EngineStatus> read(const std::string& text) {
  return read_status(boost::json::parse(text).as_object());
}

// As a driver writes it.
const std::string kPlain =
    R"({"ok": true, "phase": "running", "gear": 2, "plan": {"gear": 2, "replicas": []}, "epoch": 3, "term": 4,
        "ranks": [{"rank": 0, "pid": 71, "used_units": 5, "units": 64}], "shift": null, "running": 2, "waiting": 1,
        "tokens": 900, "steps": 80, "evicted": 0, "shifts": 1, "collective": "shared")";

TEST(EngineStatus, IsReadAsADriverWritesIt) {
  const auto status = read(kPlain + "}");
  ASSERT_TRUE(status) << status.error().detail;
  EXPECT_EQ(status.value().gear, 2);
  EXPECT_EQ(status.value().ranks.at(0).pid, 71);
  EXPECT_TRUE(status.value().shift.empty());
  EXPECT_EQ(status.value().shape.layers, 0U) << "not told";
  EXPECT_FALSE(status.value().has_load);
}

TEST(EngineStatus, TellsShapeAndLoadWhereItHasThem) {
  const auto status =
      read(kPlain +
           R"(,"shape": {"layers": 5, "width": 64, "heads": 8, "kv_heads": 4, "head_width": 8, "parameters": 260000},
         "load": {"arrived": 7, "finished": 5, "prompt_tokens": 70, "output_tokens": 500, "oldest_wait_ms": 12.5,
                  "first_token_ms": null, "per_token_ms": 3.5}})");
  ASSERT_TRUE(status) << status.error().detail;
  EXPECT_EQ(status.value().shape.kv_heads, 4U);
  EXPECT_EQ(status.value().shape.bytes_per_number, 4U) << "FP32, unless it says otherwise";
  EXPECT_EQ(status.value().load.arrived, 7U);
  EXPECT_EQ(status.value().load.oldest_wait_ms, 12);
  EXPECT_EQ(status.value().load.first_token_ms, -1) << "null: nothing to take a median of";
  EXPECT_EQ(status.value().load.per_token_ms, 3.5);
}

TEST(EngineStatus, WithoutAGearIsInAPlanOfItsOwn) {
  std::string own = kPlain + "}";
  own.replace(own.find("\"gear\": 2"), 9, "\"gear\": null");
  const auto status = read(own);
  ASSERT_TRUE(status);
  EXPECT_EQ(status.value().gear, 0);
}

TEST(EngineStatus, OfNoSuchFormIsRefused) {
  EXPECT_FALSE(read(R"({"ok": true, "gear": 9})"));
  EXPECT_FALSE(read(R"({"ok": true, "epoch": -1})"));
  EXPECT_FALSE(read(R"({"ok": true, "ranks": 4})"));
  EXPECT_FALSE(read(R"({"ok": true, "shape": {"layers": 5, "width": 64}})"));
}

TEST(EngineStatus, ThatIsANoSaysWhyInOneLine) {
  const auto status = read(R"({"ok": false, "why": "the group\nis being built"})");
  ASSERT_TRUE(status);
  EXPECT_FALSE(status.value().ok);
  EXPECT_EQ(status.value().why, "the group\\x0ais being built");
  EXPECT_EQ(word_of({}).why, "the engine gave no reason");
}

}  // namespace
}  // namespace gearbox::gear_facts
