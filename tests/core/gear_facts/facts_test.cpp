#include "gear_facts/facts.hpp"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include <filesystem>
#include <fstream>

#include "gear_facts/pages.hpp"
#include "gear_facts/places.hpp"
#include "serving/unix_socket.hpp"
#include "support/temp_dir.hpp"

namespace gearbox::gear_facts {
namespace {

namespace json = boost::json;

GroupFacts some_group() {
  GroupFacts group;
  group.name = "story-1";
  group.model = "story";
  group.age_ms = 12;
  group.phase = "running";
  group.gear = 3;
  group.epoch = 7;
  group.term = 2;
  group.ranks = 4;
  group.processes = {{0, 100, 5, 50, 0.5, 4096}, {1, 101, 6, 50, -1, -1}};
  group.running = 9;
  group.busy_mean = 0.25;
  group.shape = {.layers = 2, .width = 8, .heads = 4, .kv_heads = 2, .head_width = 2, .parameters = 1000};
  group.has_load = true;
  group.fast = {1.5, 20, 30};
  group.recent = {{1, 2, 3}, {4, 5, 6}};
  group.oldest_wait_ms = 40;
  return group;
}

TEST(GroupFacts, ComeBackAsTheyWere) {
  const auto read = read_group(to_json(some_group()));
  ASSERT_TRUE(read) << read.error().detail;
  const GroupFacts& group = read.value();
  EXPECT_EQ(to_json(group), to_json(some_group()));
  EXPECT_EQ(group.processes.size(), 2U);
  EXPECT_EQ(group.recent.at(1).output_tokens, 6);
  EXPECT_EQ(group.shape.kv_heads, 2U);
}

TEST(GroupFacts, WithoutAShapeAndALoadStayWithoutThem) {
  GroupFacts plain = some_group();
  plain.shape = {};
  plain.has_load = false;
  const auto read = read_group(to_json(plain));
  ASSERT_TRUE(read);
  EXPECT_FALSE(read.value().has_load);
  EXPECT_EQ(read.value().shape.layers, 0U);
}

TEST(GroupFacts, ThatAreOutOfRangeAreRefusedWhole) {
  const auto refused = [](const char* member, const json::value& value) {
    json::object object = to_json(some_group());
    object[member] = value;
    return !read_group(object);
  };
  EXPECT_TRUE(refused("name", "../escape"));
  EXPECT_TRUE(refused("gear", 7));
  EXPECT_TRUE(refused("gear", "3"));
  EXPECT_TRUE(refused("running", -1));
  EXPECT_TRUE(refused("load", json::object{{"fast", json::object{{"requests_per_s", -2}}}}));
  EXPECT_FALSE(refused("something_newer", 1));
}

TEST(ShiftOrder, NamesWhoWantsIt) {
  ShiftOrder order{"story", 2, 5, "scheduler", "price: cheaper"};
  const auto read = read_order(to_json(order));
  ASSERT_TRUE(read);
  EXPECT_EQ(read.value().term, 5U);
  order.origin = "somebody";
  EXPECT_FALSE(read_order(to_json(order)));
  order.origin = "person";
  order.gear = 0;
  EXPECT_FALSE(read_order(to_json(order)));
}

TEST(Page, IsFullBeforeItsFrameIs) {
  Page page;
  const json::object large{{"name", "x"}, {"text", std::string(10'000, 'y')}};
  int taken = 0;
  while (page.add(large)) ++taken;
  EXPECT_EQ(taken, 4);
  json::object answer;
  std::move(page).into(answer);
  EXPECT_TRUE(answer["more"].as_bool());
  EXPECT_EQ(answer["list"].as_array().size(), 4U);
  Page one;
  EXPECT_TRUE(one.add({{"text", std::string(100'000, 'z')}})) << "one that is too large alone is an error of its frame";
}

TEST(FindGroups, TakesSocketsWithNamesOnly) {
  const testing::TempDir folder;
  const config::StateDir state{folder.path()};
  std::filesystem::create_directories(state.groups());
  auto one = serving::UnixListener::open(state.groups() / "story.sock");
  auto hidden = serving::UnixListener::open(state.groups() / ".hidden.sock");
  auto odd = serving::UnixListener::open(state.groups() / "a b.sock");
  ASSERT_TRUE(one && hidden && odd);
  std::ofstream(state.groups() / "file.sock") << "no socket";
  EXPECT_EQ(find_groups(state).names, std::vector<std::string>{"story"});
  EXPECT_TRUE(find_groups(config::StateDir{folder.path() / "nowhere"}).names.empty());
}

}  // namespace
}  // namespace gearbox::gear_facts
