#include "sinks/queue.hpp"

#include <gtest/gtest.h>

#include "support/temp_dir.hpp"

namespace gearbox::sinks {
namespace {

RequestKey key_of(std::uint8_t number) {
  RequestKey key;
  key.id.bytes.fill(std::byte{number});
  return key;
}

class SinkQueue : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = Queue::open(folder_.path() / "queue.db");
    ASSERT_TRUE(opened) << describe(opened.error());
    queue_ = std::move(opened).value();
  }
  gearbox::testing::TempDir folder_;
  Queue queue_;
};

TEST_F(SinkQueue, KnowsAnEventOnce) {
  EXPECT_TRUE(queue_.put(key_of(1), "done", "{}", {"a"}, false).value());
  EXPECT_FALSE(queue_.put(key_of(1), "done", "{}", {"a"}, false).value());
  EXPECT_TRUE(queue_.put(key_of(1), "failed", "{}", {"a"}, false).value());
  EXPECT_EQ(queue_.waiting("a").value().events, 2U);
}

TEST_F(SinkQueue, GivesTheOldestFirstAndNotTooMuchAtOnce) {
  for (std::uint8_t i = 1; i <= 4; ++i) ASSERT_TRUE(queue_.put(key_of(i), "done", std::string(10, 'x'), {"a"}, false));
  EXPECT_EQ(queue_.first("a", 2, 1000).value().size(), 2U);
  EXPECT_EQ(queue_.first("a", 10, 25).value().size(), 2U);
  EXPECT_EQ(queue_.first("a", 10, 1).value().size(), 1U) << "one goes whatever its size";
  const auto rows = queue_.first("a", 10, 1000).value();
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_LT(rows[0].id, rows[3].id);
  EXPECT_TRUE(queue_.first("b", 10, 1000).value().empty());
}

TEST_F(SinkQueue, PassesOverThoseThatAreHeld) {
  for (std::uint8_t i = 1; i <= 5; ++i) ASSERT_TRUE(queue_.put(key_of(i), "done", "{}", {"a"}, false));
  const auto rows = queue_.first("a", 10, 1000).value();
  const auto others = queue_.first("a", 2, 1000, {rows[0].id, rows[2].id}).value();
  ASSERT_EQ(others.size(), 2U);
  EXPECT_EQ(others[0].id, rows[1].id);
  EXPECT_EQ(others[1].id, rows[3].id);
}

TEST_F(SinkQueue, AnEventGoesWhenNobodyWaitsForItAnyMore) {
  ASSERT_TRUE(queue_.put(key_of(1), "done", "body", {"a", "b"}, false));
  const std::int64_t id = queue_.first("a", 1, 1000).value().at(0).id;
  ASSERT_TRUE(queue_.take_out("a", id));
  EXPECT_EQ(queue_.first("b", 1, 1000).value().at(0).body, "body");
  ASSERT_TRUE(queue_.take_out("b", id));
  EXPECT_TRUE(queue_.put(key_of(1), "done", "body", {"a"}, false).value()) << "it is not known any more";
}

TEST_F(SinkQueue, AKeptEventIsKnownUntilItsRequestIsForgotten) {
  ASSERT_TRUE(queue_.put(key_of(1), "done", "body", {"a"}, true));
  ASSERT_TRUE(queue_.take_out("a", queue_.first("a", 1, 1000).value().at(0).id));
  EXPECT_FALSE(queue_.put(key_of(1), "done", "body", {"a"}, true).value());
  EXPECT_EQ(queue_.kept().value(), std::vector<RequestKey>{key_of(1)});
  ASSERT_TRUE(queue_.forget(key_of(1)));
  EXPECT_TRUE(queue_.kept().value().empty());
  EXPECT_TRUE(queue_.put(key_of(1), "done", "body", {"a"}, true).value());
}

TEST_F(SinkQueue, ForgettingLeavesWhatIsStillToBeDelivered) {
  ASSERT_TRUE(queue_.put(key_of(1), "done", "body", {"a"}, true));
  ASSERT_TRUE(queue_.forget(key_of(1)));
  EXPECT_EQ(queue_.first("a", 1, 1000).value().at(0).body, "body");
}

}  // namespace
}  // namespace gearbox::sinks
