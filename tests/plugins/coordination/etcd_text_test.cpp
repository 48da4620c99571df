#include "coordination/etcd_text.hpp"

#include <gtest/gtest.h>

namespace gearbox::coordination {
namespace {

TEST(EtcdText, BytesGoThereAndBack) {
  for (const std::string& text :
       {std::string(), std::string("a"), std::string("gearbox/scheduler"), std::string("\0\xFF", 2)}) {
    EXPECT_EQ(from_base64(base64(text)), text);
  }
  EXPECT_EQ(base64("foo"), "Zm9v");
  EXPECT_FALSE(from_base64("Zm9*"));
  EXPECT_FALSE(from_base64("Zm9vZ"));
}

TEST(EtcdText, NumbersAreTextsOrMissing) {
  const auto object = parse_object(R"({"a": "123", "b": 7, "c": "x", "d": [], "e": "9223372036854775808"})");
  ASSERT_TRUE(object);
  EXPECT_EQ(number_in(object.value(), "a").value(), 123);
  EXPECT_EQ(number_in(object.value(), "b").value(), 7);
  EXPECT_EQ(number_in(object.value(), "none").value(), 0);
  EXPECT_FALSE(number_in(object.value(), "c"));
  EXPECT_FALSE(number_in(object.value(), "d"));
  EXPECT_FALSE(number_in(object.value(), "e"));
}

TEST(EtcdText, OfSeveralLinesTheFirstIsTheAnswer) {
  const auto object = parse_object("{\"result\": {\"TTL\": \"8\"}}\n{\"result\": {}}\n");
  ASSERT_TRUE(object);
  ASSERT_NE(object_in(object.value(), "result"), nullptr);
  EXPECT_EQ(number_in(*object_in(object.value(), "result"), "TTL").value(), 8);
  EXPECT_FALSE(parse_object("[]"));
  EXPECT_FALSE(parse_object(""));
}

TEST(EtcdText, KeysOfARange) {
  const auto range =
      parse_object(R"({"kvs": [{"key": "Zm9v", "mod_revision": "5", "value": "eA==", "lease": "77"}], "count": "1"})");
  const auto keys = keys_in(range.value());
  ASSERT_TRUE(keys);
  ASSERT_EQ(keys.value().size(), 1U);
  EXPECT_EQ(keys.value()[0].key, "foo");
  EXPECT_EQ(keys.value()[0].value, "x");
  EXPECT_EQ(keys.value()[0].mod_revision, 5);
  EXPECT_EQ(keys.value()[0].lease, 77);
  EXPECT_TRUE(keys_in({}).value().empty());
  EXPECT_FALSE(keys_in({{"kvs", "none"}}));
  EXPECT_FALSE(keys_in(parse_object(R"({"kvs": [{"key": "*"}]})").value()));
}

TEST(EtcdText, AHolderIsReadBackAndNothingElseIs) {
  const auto back = read_holder(to_text({"node-1", "boot:/var/lib/\"x\"", 42}));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->holder, "node-1");
  EXPECT_EQ(back->home, "boot:/var/lib/\"x\"");
  EXPECT_EQ(back->term, 42U);
  EXPECT_FALSE(read_holder("somebody's own words"));
  EXPECT_FALSE(read_holder(R"({"holder": "a", "term": 0})"));
  EXPECT_FALSE(read_holder(R"({"holder": "a", "term": -3})"));
}

}  // namespace
}  // namespace gearbox::coordination
