#include <gtest/gtest.h>

#include "config/config.hpp"
#include "config/versions.hpp"

namespace gearbox::config {
namespace {

Config with_versions(std::initializer_list<const char*> versions) {
  Config config;
  for (const char* version : versions) {
    model::Record record;
    record.name = "m";
    record.version = version;
    config.models.push_back(record);
  }
  return config;
}

TEST(FindModel, LatestIsTheNewestByNumbersNotByLetters) {
  const Config config = with_versions({"1.9", "1.10", "1.2.30"});
  EXPECT_EQ(find_model(config, "m", "latest")->version, "1.10");
  EXPECT_EQ(find_model(config, "m", "")->version, "1.10");
}

TEST(FindModel, AnExactVersionIsThatOneOrNone) {
  const Config config = with_versions({"1.9", "1.10"});
  EXPECT_EQ(find_model(config, "m", "1.9")->version, "1.9");
  EXPECT_EQ(find_model(config, "m", "1.1"), nullptr);
  EXPECT_EQ(find_model(config, "n", "latest"), nullptr);
}

TEST(CompareVersions, TakesNumbersOfAnyLength) {
  EXPECT_TRUE(compare_versions("99999999999999999999999", "100000000000000000000000") < 0);
  EXPECT_TRUE(compare_versions("1.0", "1") == 0);
  EXPECT_TRUE(compare_versions("01", "1") == 0);
  EXPECT_TRUE(compare_versions("1.rc1", "1.0") < 0);
  EXPECT_TRUE(compare_versions("2", "10") < 0);
}

}  // namespace
}  // namespace gearbox::config
