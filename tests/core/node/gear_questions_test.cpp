#include "node/gear_questions.hpp"

#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>

#include <string>

namespace gearbox::node {
namespace {

std::string passed(const std::string& text) {
  const auto question = read_gear_question(text, "north");
  return question ? boost::json::serialize(question.value().passed) : std::string(name_of(question.error().code));
}

TEST(GearQuestions, WhatASchedulerNeedsPassesWithNothingBesideIt) {
  EXPECT_EQ(passed(R"({"to":"observer","command":"snapshot","after":"a","term":7,"x":{"y":1}})"),
            R"({"command":"snapshot","after":"a"})");
  EXPECT_EQ(passed(R"({"to":"executor","command":"groups","term":7,"group":"story"})"),
            R"({"command":"groups","term":7})");
  EXPECT_EQ(passed(R"({"to":"group","op":"price","group":"story","gear":2,"plan":{}})"), R"({"op":"price","gear":2})");
  const auto price = read_gear_question(R"({"to":"group","op":"price","group":"story","gear":2})", "north");
  EXPECT_EQ(price.value().to, GearQuestion::To::group);
  EXPECT_EQ(price.value().group, "story");
}

TEST(GearQuestions, AnOrderTellsWhoGaveIt) {
  EXPECT_EQ(
      passed(R"({"to":"executor","command":"shift","group":"story","gear":2,"term":7,"origin":"scheduler",)"
             R"("decision":"fixed: gear 2","hold":true})"),
      R"({"group":"story","gear":2,"term":7,"origin":"scheduler","decision":"north: fixed: gear 2","command":"shift"})");
}

TEST(GearQuestions, WhatAPersonMayOrderIsRefused) {
  for (const char* text :
       {R"({"to":"executor","command":"shift","group":"story","gear":2,"term":7,"origin":"person"})",
        R"({"to":"executor","command":"shift","group":"story","gear":2,"term":7,"origin":"node"})",
        R"({"to":"executor","command":"hold","group":"story","held":true})",
        R"({"to":"executor","command":"allow","group":"story","gears":[1]})",
        R"({"to":"executor","command":"history"})", R"({"to":"group","op":"shift","group":"story","gear":2,"term":9})",
        R"({"to":"group","op":"drain","group":"story"})", R"({"to":"observer","command":"groups"})",
        R"({"to":"node","command":"status"})", R"({"command":"snapshot"})",
        R"({"to":"group","command":"price","group":"story","gear":2})", "{}"}) {
    EXPECT_EQ(passed(text), "not_allowed") << text;
  }
}

TEST(GearQuestions, WhatDoesNotReadIsRefused) {
  for (const char* text : {"", "[]", "{", R"({"to":1})", R"({"to":"observer","command":"snapshot","after":[]})",
                           R"({"to":"executor","command":"groups","term":-1})",
                           R"({"to":"executor","command":"shift","group":"story","gear":7,"origin":"scheduler"})",
                           R"({"to":"group","op":"price","group":"story","gear":0})",
                           R"({"to":"observer","command":"snapshot","x":[[[[[[]]]]]]})"}) {
    EXPECT_EQ(passed(text), "bad_frame") << text;
  }
  EXPECT_EQ(passed(R"({"to":"group","op":"price","group":"../story","gear":2})"), "bad_name");
  EXPECT_EQ(passed(R"({"to":"observer","command":"snapshot","after":")" + std::string(65, 'a') + "\"}"), "bad_frame");
}

}  // namespace
}  // namespace gearbox::node
