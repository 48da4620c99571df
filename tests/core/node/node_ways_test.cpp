#include "node/node_ways.hpp"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>

#include <string>

namespace gearbox::node {
namespace {

std::string located(const std::string& node) {
  wire::Located way;
  way.node = node;
  return wire::to_json(way);
}

TEST(NodeWays, AnswersComeInTheOrderOfTheQuestions) {
  boost::asio::io_context io;
  NodeWays ways;
  const auto first = ways.ask(io.get_executor(), {.node = "north", .ranks = "story"}).value();
  const auto second = ways.ask(io.get_executor(), {.node = "south", .ranks = "story"}).value();
  EXPECT_EQ(*ways.to_send(), R"({"node":"north","group":"story"})");
  EXPECT_TRUE(ways.to_send().has_value());
  EXPECT_FALSE(ways.to_send().has_value());
  ways.told(located("north"));
  ways.told(wire::to_json(wire::to_message(Error{Errc::no_node, "node 'south' is not there"})));
  EXPECT_EQ(first->answer->value().node, "north");
  ASSERT_FALSE(second->answer->has_value());
  EXPECT_EQ(second->answer->error().code, Errc::no_node);
  EXPECT_EQ(second->answer->error().detail, "node 'south' is not there");
}

TEST(NodeWays, TheWayToANodesGroupsNamesNoGroup) {
  boost::asio::io_context io;
  NodeWays ways;
  const auto question = ways.ask(io.get_executor(), {.node = "north", .gears = true}).value();
  EXPECT_EQ(*ways.to_send(), R"({"node":"north","gears":true})");
}

TEST(NodeWays, AQuestionThatNobodyWaitsForIsNotSentAndTakesNobodysAnswer) {
  boost::asio::io_context io;
  NodeWays ways;
  auto sent = ways.ask(io.get_executor(), {.node = "north", .ranks = "story"}).value();
  ASSERT_TRUE(ways.to_send().has_value());
  sent.reset();
  ways.ask(io.get_executor(), {.node = "west", .ranks = "story"}).value();
  const auto last = ways.ask(io.get_executor(), {.node = "south", .ranks = "story"}).value();
  EXPECT_NE(ways.to_send()->find("south"), std::string::npos);
  ways.told(located("north"));
  EXPECT_FALSE(last->answer.has_value());
  ways.told(located("south"));
  EXPECT_EQ(last->answer->value().node, "south");
}

TEST(NodeWays, ALostCentralAnswersWhatWasSentAndNotWhatWaits) {
  boost::asio::io_context io;
  NodeWays ways;
  const auto sent = ways.ask(io.get_executor(), {.node = "north", .ranks = "story"}).value();
  ASSERT_TRUE(ways.to_send().has_value());
  const auto waiting = ways.ask(io.get_executor(), {.node = "south", .ranks = "story"}).value();
  ways.not_told(Error{Errc::closed, {}});
  EXPECT_EQ(sent->answer->error().code, Errc::closed);
  EXPECT_FALSE(waiting->answer.has_value());
  ways.told(located("north"));  // of nobody
  EXPECT_FALSE(waiting->answer.has_value());
}

TEST(NodeWays, TooManyAreRefused) {
  boost::asio::io_context io;
  NodeWays ways;
  std::vector<std::shared_ptr<NodeWays::Question>> kept;
  for (std::size_t i = 0; i < NodeWays::kMost; ++i)
    kept.push_back(ways.ask(io.get_executor(), {.node = "n", .ranks = "g"}).value());
  EXPECT_EQ(ways.ask(io.get_executor(), {.node = "n", .ranks = "g"}).error().code, Errc::overloaded);
}

}  // namespace
}  // namespace gearbox::node
