#include <gmock/gmock.h>

#include "config_folder.hpp"

namespace gearbox::config {
namespace {

using ::testing::HasSubstr;

TEST_F(ConfigFolder, ReadsATasksGraph) {
  const auto loaded = load(folder());
  ASSERT_TRUE(loaded) << loaded.error().detail;
  const TaskConfig& task = loaded.value()->tasks.at("read-text");
  EXPECT_EQ(task.name, "read-text");
  EXPECT_EQ(task.summary, "reads text");
  EXPECT_FALSE(task.allow_lossy);
  ASSERT_EQ(task.inputs.size(), 1U);
  EXPECT_EQ(task.steps[0].version, "latest");
  EXPECT_EQ(task.steps[1].for_each, "crop");
  EXPECT_EQ(task.steps[1].inputs.at("crop").step, "detect");
  EXPECT_EQ(task.steps[1].inputs.at("crop").tensor, "crops");
  EXPECT_EQ(task.result.at("text").step, "read");
}

struct BadTask {
  const char* name;
  const char* from;  // in a task that loads
  const char* to;
  const char* expect;
};

class BadTaskFile : public ConfigFolder, public ::testing::WithParamInterface<BadTask> {};

TEST_P(BadTaskFile, IsRefused) {
  write_changed("tasks/read-text.toml", kTask, GetParam().from, GetParam().to);
  EXPECT_THAT(faults(), HasSubstr(GetParam().expect));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, BadTaskFile,
    ::testing::Values(
        BadTask{"UnknownModel", "model = \"detect\"", "model = \"detekt\"",
                "has a model called 'detekt'; did you mean 'detect'?"},
        BadTask{"UnknownVersion", "version = \"2\"", "version = \"3\"",
                "step[2].version: model 'read' has no version '3'"},
        BadTask{"UnknownSource", "request.image", "request.imag",
                "neither an input of the task nor an output of a step; did you mean 'request.image'?"},
        BadTask{"ACircleOfTwo", "request.image", "read.text",
                "step[2].inputs.crop: the steps feed each other in a circle: detect -> read -> detect"},
        BadTask{"SourceOfItself", "detect.crops", "read.text", "in a circle: read -> read"},
        BadTask{"NoSource", "\"request.image\"", "\"image\"", "'image' is no source"},
        BadTask{"ForEachOfASingleTensor", "crop = \"detect.crops\"", "crop = \"request.image\"",
                "for_each needs a list"},
        BadTask{"AListWithoutForEach", "for_each = \"crop\"\n", "", "give it to the step with for_each = \"crop\""},
        BadTask{"ForEachOfNoInput", "for_each = \"crop\"", "for_each = \"crops\"",
                "for_each: 'crops' is none of the step's inputs"},
        BadTask{"InputNotFed", "image = \"request.image\"", "", "input 'image' of model 'detect' is not fed"},
        BadTask{"InputThatTheModelHasNot", "image = \"request.image\"",
                "image = \"request.image\"\nimg = \"request.image\"", "has no such input; did you mean 'image'?"},
        BadTask{"TypesThatDoNotMeet", "dtype = \"UINT8\"", "dtype = \"FP32\"",
                "the model takes UINT8 [-1, -1, 3], the source gives FP32 [-1, -1, 3]"},
        BadTask{"ShapesThatDoNotMeet", "shape = [-1, -1, 3]", "shape = [-1, -1, 4]",
                "the source gives UINT8 [-1, -1, 4]"},
        BadTask{"RanksThatDoNotMeet", "shape = [-1, -1, 3]", "shape = [-1, -1]", "the source gives UINT8 [-1, -1]"},
        BadTask{"StepNameTwice", "name = \"read\"", "name = \"detect\"", "step[2].name: 'detect' is there twice"},
        BadTask{"StepCalledRequest", "name = \"detect\"", "name = \"request\"", "choose another name"},
        BadTask{"ResultFromNowhere", "\"read.text\"", "\"read.texts\"", "result.text: 'read.texts' is neither"},
        BadTask{"NoResult", "[result]\ntext = \"read.text\"\ncount = \"detect.count\"\n", "", "'result' is missing"},
        BadTask{"EmptyResult", "text = \"read.text\"\ncount = \"detect.count\"\n", "", "result: is empty"},
        BadTask{"OtherName", "summary", "name = \"other\"\nsummary",
                "'other' must be the file's name without .toml, 'read-text'"},
        BadTask{"NegativeDeadline", "summary", "deadline_ms = -1\nsummary", "-1 is out of range"},
        BadTask{"DeadlineOverAnHour", "summary", "deadline_ms = 3600001\nsummary",
                "deadline_ms: 3600001 is out of range (0 to 3600000)"},
        BadTask{"UnknownKeyOfAStep", "for_each", "foreach", "step[2].foreach: unknown key; did you mean 'for_each'?"}),
    [](const auto& one) { return std::string(one.param.name); });

TEST_F(ConfigFolder, RefusesATaskFileWhoseNameIsNone) {
  write("tasks/a b.toml", kTask);
  EXPECT_THAT(faults(), HasSubstr("the file's name is no name of a task"));
}

TEST_F(ConfigFolder, AStepWithForEachGivesLists) {
  // read.text comes from a scattered step, so a second step may scatter it again.
  write("models/say/model.toml",
        "name = \"say\"\nversion = \"1\"\n[[input]]\nname = \"t\"\ndtype = \"BYTES\"\nshape = [1]\n[[output]]\nname = "
        "\"s\"\ndtype = \"FP32\"\n");
  write("models/say/model.py", "");
  const std::string step =
      "[[step]]\nname = \"say\"\nmodel = \"say\"\nfor_each = \"t\"\n[step.inputs]\nt = \"read.text\"\n[result]\nsaid = "
      "\"say.s\"\n";
  write_changed("tasks/read-text.toml", kTask, "[result]\n", step);
  EXPECT_EQ(faults(), "");
  write_changed("tasks/read-text.toml", kTask, "[result]\n",
                "[[step]]\nname = \"say\"\nmodel = \"say\"\n[step.inputs]\nt = \"read.text\"\n[result]\n");
  EXPECT_THAT(faults(), HasSubstr("is a list"));
}

}  // namespace
}  // namespace gearbox::config
