#include "gearbox/steps/steps_file.hpp"

#include <gmock/gmock.h>

#include <fstream>

#include "support/temp_dir.hpp"

namespace gearbox::steps {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kSteps =
    "[[step]]\nname = \"b\"\nmodel = \"read\"\nversion = \">=1.2,<2\"\nfor_each = \"crop\"\nretry = 2\n"
    "deadline_share = 0.25\ninputs = { crop = \"a.crops\" }\n"
    "[[step]]\nname = \"a\"\nmodel = \"cut\"\ninputs = { image = \"request.image\" }\n"
    "[result]\ntext = \"b.text\"\n";

class StepsFile : public ::testing::Test {
 protected:
  Outcome<StepList> read(const std::string& text) {
    const std::filesystem::path file = temp_.path() / "s.toml";
    std::ofstream(file) << text;
    return read_steps_file(file);
  }
  testing::TempDir temp_;
};

TEST_F(StepsFile, IsReadInItsOwnOrder) {
  const auto list = read(kSteps);
  ASSERT_TRUE(list) << list.error().detail;
  ASSERT_EQ(list.value().steps.size(), 2U);
  const wire::StepSpec& b = list.value().steps[0];
  EXPECT_EQ(b.name, "b");
  EXPECT_EQ(b.version, ">=1.2,<2");
  EXPECT_EQ(b.for_each, "crop");
  EXPECT_EQ(b.retry, 2U);
  EXPECT_DOUBLE_EQ(b.deadline_share, 0.25);
  EXPECT_EQ(b.inputs.at("crop"), "a.crops");
  EXPECT_EQ(list.value().steps[1].version, "");
  EXPECT_EQ(list.value().result.at("text"), "b.text");
  EXPECT_THAT(models_of(list.value().steps), ElementsAre("read@>=1.2,<2", "cut"));
}

TEST_F(StepsFile, ATasksFileCanBeSentAsItIs) {
  const auto list = read(
      "summary = \"reads\"\nallow_lossy = true\ndeadline_ms = 5\n[[input]]\nname = \"image\"\ndtype = \"UINT8\"\n" +
      std::string(kSteps));
  ASSERT_TRUE(list) << list.error().detail;
  EXPECT_EQ(list.value().steps.size(), 2U);
}

TEST_F(StepsFile, FaultsHaveTheirPlaces) {
  EXPECT_THAT(read("[result]\nx = \"a.x\"\n").error().detail, HasSubstr("[[step]] is missing"));
  EXPECT_THAT(read("[[step]]\nname = \"a\"\n").error().detail, HasSubstr("'result' is missing"));
  EXPECT_THAT(read("retries = 3\n" + std::string(kSteps)).error().detail,
              HasSubstr("s.toml:1:1: retries: unknown key"));
  EXPECT_THAT(read("[[step]]\nretry = -1\n[result]\n").error().detail,
              HasSubstr("s.toml:2:9: step[1].retry: -1 is out"));
  EXPECT_THAT(read("[[step]]\nforeach = \"x\"\n[result]\n").error().detail, HasSubstr("did you mean 'for_each'?"));
  std::string many;
  for (std::size_t i = 0; i <= wire::kMaxOwnSteps; ++i) many += "[[step]]\nname = \"a\"\n";
  EXPECT_THAT(read(many + "[result]\n").error().detail, HasSubstr("17 entries, at most 16 are allowed"));
  EXPECT_THAT(read_steps_file(temp_.path() / "none.toml").error().detail, HasSubstr("no such file"));
}

TEST(ModelsOf, EachOnceWithItsVersion) {
  std::vector<wire::StepSpec> steps(4);
  steps[0].model = steps[1].model = steps[2].model = "m";
  steps[1].version = "latest";
  steps[2].version = "1.2";
  steps[3].model = "n";
  EXPECT_THAT(models_of(steps), ElementsAre("m", "m@1.2", "n"));
}

}  // namespace
}  // namespace gearbox::steps
