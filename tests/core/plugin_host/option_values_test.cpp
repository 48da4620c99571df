#include "plugin_host/option_values.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gearbox::plugin_host {
namespace {

using ::testing::HasSubstr;

const std::vector<OptionInfo> kDeclared = {{"count", "integer", "3", "", "", 1, 10},
                                           {"share", "number", "0.5", "", "", 0, 1},
                                           {"on", "boolean", "true", "", "", 0, 0},
                                           {"word", "text", "hello", "", "", 0, 0}};

std::string fault_of(const Given& given) {
  const auto values = OptionValues::make(kDeclared, given);
  return values ? std::string() : values.error().detail;
}

TEST(OptionValues, GivesTheDeclaredDefaults) {
  const auto values = OptionValues::make(kDeclared, {});
  ASSERT_TRUE(values) << values.error().detail;
  EXPECT_EQ(values.value().integer("count").value(), 3);
  EXPECT_EQ(values.value().number("share").value(), 0.5);
  EXPECT_EQ(values.value().boolean("on").value(), true);
  EXPECT_EQ(values.value().text("word").value(), "hello");
}

TEST(OptionValues, TakesGivenValuesAndAWholeNumberForANumber) {
  const auto values = OptionValues::make(
      kDeclared, {{"count", std::int64_t{10}}, {"share", std::int64_t{1}}, {"word", std::string("x")}});
  ASSERT_TRUE(values) << values.error().detail;
  EXPECT_EQ(values.value().integer("count").value(), 10);
  EXPECT_EQ(values.value().number("share").value(), 1.0);
  EXPECT_EQ(values.value().text("word").value(), "x");
}

TEST(OptionValues, RefusesTypesRangesAndUnknownKeys) {
  EXPECT_THAT(fault_of({{"count", std::int64_t{11}}}), HasSubstr("count: 11 is out of range (1 to 10)"));
  EXPECT_THAT(fault_of({{"count", 3.0}}), HasSubstr("count: expected a value of type integer"));
  EXPECT_THAT(fault_of({{"share", 1.5}}), HasSubstr("share: 1.5 is out of range (0 to 1)"));
  EXPECT_THAT(fault_of({{"on", std::string("true")}}), HasSubstr("on: expected a value of type boolean"));
  EXPECT_THAT(fault_of({{"wrod", std::string("x")}}),
              HasSubstr("wrod: the plugin has no such option; did you mean 'word'?"));
}

TEST(OptionValues, AskingForAnotherTypeOrAnUndeclaredKeyIsAnErrorNotACrash) {
  const auto values = OptionValues::make(kDeclared, {});
  ASSERT_TRUE(values);
  EXPECT_EQ(values.value().integer("word").error().code, Errc::bad_plugin);
  EXPECT_EQ(values.value().text("none").error().code, Errc::bad_plugin);
}

TEST(OptionValues, RefusesATableWhoseOwnDefaultsAreWrong) {
  EXPECT_FALSE(OptionValues::make({{"count", "integer", "3x", "", "", 1, 10}}, {}));
  EXPECT_FALSE(OptionValues::make({{"count", "integer", "11", "", "", 1, 10}}, {}));
  EXPECT_FALSE(OptionValues::make({{"on", "boolean", "yes", "", "", 0, 0}}, {}));
}

}  // namespace
}  // namespace gearbox::plugin_host
