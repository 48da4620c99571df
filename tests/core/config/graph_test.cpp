// Graphs of steps: in any order, and the wrong ones with their places.
#include "config/graph.hpp"

#include <gmock/gmock.h>

#include "config_folder.hpp"

namespace gearbox::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// "name": inputs and outputs as "NAME TYPE SHAPE", an output with a star in front is a list.
std::string model_toml(const std::string& name, const std::string& version, const std::vector<std::string>& in,
                       const std::vector<std::string>& out) {
  std::string text = "name = \"" + name + "\"\nversion = \"" + version + "\"\n";
  const auto add = [&](const char* what, std::string spec) {
    const bool list = spec.front() == '*';
    if (list) spec.erase(0, 1);
    const std::size_t one = spec.find(' ');
    const std::size_t two = spec.find(' ', one + 1);
    text += "[[" + std::string(what) + "]]\nname = \"" + spec.substr(0, one) + "\"\ndtype = \"" +
            spec.substr(one + 1, two - one - 1) + "\"\nshape = " + spec.substr(two + 1) + "\n";
    if (list) text += "list = true\n";
  };
  for (const std::string& spec : in) add("input", spec);
  for (const std::string& spec : out) add("output", spec);
  return text;
}

// Lines are counted in the expectations below: 1 and 2 are the input's, a step has six lines.
const std::string kInput = "[[input]]\nname = \"image\"\ndtype = \"UINT8\"\nshape = [-1, -1, 3]\n";  // 1 to 4

std::string step(const std::string& name, const std::string& model, const std::string& inputs,
                 const std::string& more = "") {
  return "[[step]]\nname = \"" + name + "\"\nmodel = \"" + model + "\"\ninputs = { " + inputs + " }\n" + more;
}

class Graph : public ConfigFolder {
 protected:
  void SetUp() override {
    ConfigFolder::SetUp();
    std::filesystem::remove(folder() / "tasks/read-text.toml");
    add("cut", "1", {"image UINT8 [-1,-1,3]"}, {"*crops UINT8 [-1,-1,3]", "boxes FP32 [-1,4]"});
    add("grey", "1", {"image UINT8 [-1,-1,3]"}, {"image UINT8 [-1,-1,3]"});
    add("both", "1", {"left UINT8 [-1,-1,3]", "right UINT8 [-1,-1,3]"}, {"same BOOL [1]"});
    for (const char* version : {"1.0", "1.4", "2.0"})
      add("name", version, {"crop UINT8 [-1,-1,3]"}, {"text BYTES [1]"});
    add("say", "1", {"text BYTES [1]"}, {"text BYTES [1]"});
  }
  void add(const std::string& name, const std::string& version, const std::vector<std::string>& in,
           const std::vector<std::string>& out) {
    write("models/" + name + version + "/model.toml", model_toml(name, version, in, out));
    write("models/" + name + version + "/model.py", "class Model: pass\n");
  }
  std::string faults_of(const std::string& task) {
    write("tasks/t.toml", task);
    return faults();
  }
};

TEST_F(Graph, StepsInAnyOrderRunBehindWhatFeedsThem) {
  write("tasks/t.toml", kInput + step("join", "both", "left = \"a.image\", right = \"b.image\"") +
                            step("b", "grey", "image = \"request.image\"") + step("a", "grey", "image = \"b.image\"") +
                            "[result]\nsame = \"join.same\"\n");
  const auto loaded = load(folder());
  ASSERT_TRUE(loaded) << loaded.error().detail;
  std::vector<std::string> names;
  for (const StepConfig& one : loaded.value()->tasks.at("t").steps) names.push_back(one.name);
  EXPECT_THAT(names, ElementsAre("b", "a", "join"));
}

TEST_F(Graph, ReadsShareAndRetryAndRange) {
  write("tasks/t.toml", kInput + step("a", "cut", "image = \"request.image\"", "deadline_share = 0.4\n") +
                            step("n", "name", "crop = \"a.crops\"",
                                 "for_each = \"crop\"\nversion = \">=1,<2\"\ndeadline_share = 0.6\nretry = 3\n") +
                            "[result]\ntext = \"n.text\"\n");
  const auto loaded = load(folder());
  ASSERT_TRUE(loaded) << loaded.error().detail;
  const StepConfig& name = loaded.value()->tasks.at("t").steps[1];
  EXPECT_EQ(name.version, ">=1,<2");
  EXPECT_DOUBLE_EQ(name.deadline_share, 0.6);
  EXPECT_EQ(name.retry, 3U);
}

TEST_F(Graph, TheNewestInsideTheRangeIsWhatMustFit) {
  add("name", "1.9", {"crop FP32 [-1,-1,3]"}, {"text BYTES [1]"});
  const auto with = [&](const std::string& range) {
    return faults_of(kInput + step("n", "name", "crop = \"request.image\"", "version = \"" + range + "\"\n") +
                     "[result]\ntext = \"n.text\"\n");
  };
  EXPECT_THAT(with("1.*"), HasSubstr("the model takes FP32"));
  EXPECT_EQ(with("1.*,!=1.9"), "");
  EXPECT_EQ(with(">=2"), "");
}

TEST_F(Graph, SharesOfBranchesThatRunSideBySideDoNotAddUp) {
  const std::string share = "deadline_share = 0.6\n";
  const std::string branches =
      kInput + step("a", "grey", "image = \"request.image\"", share) +
      step("b", "grey", "image = \"request.image\"", share) +
      step("join", "both", "left = \"a.image\", right = \"b.image\"", "deadline_share = SHARE\n") +
      "[result]\nsame = \"join.same\"\n";
  const auto with = [&](const std::string& last) {
    std::string text = branches;
    return faults_of(text.replace(text.find("SHARE"), 5, last));
  };
  EXPECT_EQ(with("0.4"), "");
  EXPECT_THAT(with("0.5"), HasSubstr("t.toml:19:18: step[3].deadline_share: the shares of a -> join add up to 1.1"));
}

struct Wrong {
  const char* name;
  std::string steps;
  const char* expect;  // from "t.toml" on
};

class WrongGraph : public Graph, public ::testing::WithParamInterface<Wrong> {};

TEST_P(WrongGraph, IsRefusedWithItsPlace) {
  EXPECT_THAT(faults_of(kInput + GetParam().steps), HasSubstr(GetParam().expect));
}

const std::string kResult = "[result]\ntext = \"n.text\"\n";
const std::string kCut = step("c", "cut", "image = \"request.image\"");                       // lines 5 to 8
const std::string kNames = step("n", "name", "crop = \"c.crops\"", "for_each = \"crop\"\n");  // lines 9 to 13

INSTANTIATE_TEST_SUITE_P(
    Kinds, WrongGraph,
    ::testing::Values(
        Wrong{"ACircleOfTwo",
              step("a", "grey", "image = \"b.image\"") + step("b", "grey", "image = \"a.image\"") +
                  "[result]\nx = \"a.image\"\n",
              "t.toml:12:20: step[2].inputs.image: the steps feed each other in a circle: a -> b -> a"},
        Wrong{"ACircleOfThreeBehindAnInput",
              step("first", "grey", "image = \"request.image\"") +
                  step("a", "both", "left = \"first.image\", right = \"first.image\"") +
                  step("x", "say", "text = \"z.text\"") + step("y", "say", "text = \"x.text\"") +
                  step("z", "say", "text = \"y.text\"") + "[result]\ns = \"a.same\"\nt = \"z.text\"\n",
              "t.toml:20:19: step[4].inputs.text: the steps feed each other in a circle: x -> y -> z -> x"},
        Wrong{"AStepThatFeedsItself", step("a", "grey", "image = \"a.image\"") + "[result]\nx = \"a.image\"\n",
              "t.toml:8:20: step[1].inputs.image: the steps feed each other in a circle: a -> a"},
        Wrong{"AnInputThatTheTaskHasNot", step("c", "cut", "image = \"request.imgae\"") + kNames + kResult,
              "t.toml:8:20: step[1].inputs.image: 'request.imgae' is neither an input of the task nor an output of a "
              "step; did you mean 'request.image'?"},
        Wrong{"AStepThatIsNotThere", kCut + step("n", "name", "crop = \"d.crops\"", "for_each = \"crop\"\n") + kResult,
              "t.toml:12:19: step[2].inputs.crop: 'd.crops' is neither"},
        Wrong{"AnOutputThatTheStepHasNot",
              kCut + step("n", "name", "crop = \"c.crop\"", "for_each = \"crop\"\n") + kResult,
              "t.toml:12:19: step[2].inputs.crop: 'c.crop' is neither an input of the task nor an output of a step; "
              "did you mean 'c.crops'?"},
        Wrong{"AResultFromNowhere", kCut + kNames + "[result]\ntext = \"n.texts\"\n",
              "t.toml:15:8: result.text: 'n.texts' is neither"},
        Wrong{"ANameOfAResultThatIsNone", kCut + kNames + "[result]\n\"a b\" = \"n.text\"\n",
              "t.toml:15:9: result.a b: is no name of a tensor"},
        Wrong{"OtherType", step("s", "say", "text = \"request.image\"") + "[result]\nt = \"s.text\"\n",
              "t.toml:8:19: step[1].inputs.text: the model takes BYTES [1], the source gives UINT8 [-1, -1, 3]"},
        Wrong{"OtherShape", kCut + step("n", "name", "crop = \"c.boxes\"") + kResult,
              "step[2].inputs.crop: the model takes UINT8 [-1, -1, 3], the source gives FP32 [-1, 4]"},
        Wrong{"AListIntoASingleInput", kCut + step("n", "name", "crop = \"c.crops\"") + kResult,
              "t.toml:12:19: step[2].inputs.crop: is a list (list of UINT8 [-1, -1, 3]); give it to the step with "
              "for_each = \"crop\""},
        Wrong{"TwoListsInOneStep",
              kCut + step("j", "both", "left = \"c.crops\", right = \"c.crops\"", "for_each = \"left\"\n") +
                  "[result]\ns = \"j.same\"\n",
              "step[2].inputs.right: is a list (list of UINT8 [-1, -1, 3]); the step takes the items of 'left' one by "
              "one, and of no second list"},
        Wrong{"ForEachOfASingleTensor",
              step("n", "name", "crop = \"request.image\"", "for_each = \"crop\"\n") + kResult,
              "t.toml:8:19: step[1].inputs.crop: for_each needs a list"},
        Wrong{"ForEachOfNoInput", kCut + step("n", "name", "crop = \"c.crops\"", "for_each = \"crops\"\n") + kResult,
              "t.toml:13:12: step[2].for_each: 'crops' is none of the step's inputs"},
        Wrong{"AListOfLists",
              kCut + step("d", "cut", "image = \"c.crops\"", "for_each = \"image\"\n") +
                  step("n", "name", "crop = \"d.crops\"", "for_each = \"crop\"\n") + kResult,
              "step[3].inputs.crop: 'd.crops' would be a list of lists: step 'd' runs once for each item"},
        Wrong{"AListOfListsAsResult",
              kCut + step("d", "cut", "image = \"c.crops\"", "for_each = \"image\"\n") + "[result]\nx = \"d.crops\"\n",
              "t.toml:15:5: result.x: 'd.crops' would be a list of lists"},
        Wrong{"AnInputNotFed", step("j", "both", "left = \"request.image\"") + "[result]\ns = \"j.same\"\n",
              "t.toml:8:10: step[1].inputs: input 'right' of model 'both' is not fed"},
        Wrong{"NoInputs", "[[step]]\nname = \"n\"\nmodel = \"name\"\n" + kResult,
              "t.toml:5:1: step[1]: 'inputs' is missing"},
        Wrong{"InputsThatAreNoTable", "[[step]]\nname = \"n\"\nmodel = \"name\"\ninputs = 3\n" + kResult,
              "t.toml:8:10: step[1].inputs: expected a table, got an integer"},
        Wrong{"AnInputThatTheModelHasNot",
              step("c", "cut", "image = \"request.image\", imag = \"request.image\"") + kNames + kResult,
              "step[1].inputs.imag: model 'cut' has no such input; did you mean 'image'?"},
        Wrong{"AnInputOfNoUse",
              "[[input]]\nname = \"extra\"\ndtype = \"UINT8\"\n" + step("n", "name", "crop = \"request.image\"") +
                  kResult,
              "t.toml:6:8: input[2].name: input 'extra' feeds no step and is no result"},
        Wrong{"AnEmptyRange", step("n", "name", "crop = \"request.image\"", "version = \">2,<1\"\n") + kResult,
              "t.toml:9:11: step[1].version: '>2,<1' is an empty range: no version can be in it"},
        Wrong{"AStepOfNoUse", kCut + kNames + step("idle", "grey", "image = \"request.image\"") + kResult,
              "t.toml:15:8: step[3].name: step 'idle' feeds nothing and is no result"},
        Wrong{"ANameTwice", kCut + step("c", "grey", "image = \"request.image\"") + kNames + kResult,
              "t.toml:10:8: step[2].name: 'c' is there twice"},
        Wrong{"NoName", "[[step]]\nmodel = \"cut\"\ninputs = { image = \"request.image\" }\n" + kResult,
              "t.toml:5:1: step[1]: 'name' is missing"},
        Wrong{"ANameThatIsNone", step("a b", "cut", "image = \"request.image\"") + kResult,
              "t.toml:6:8: step[1].name: 'a b' is no name"},
        Wrong{"ANameWithADot", step("a.b", "cut", "image = \"request.image\"") + kResult,
              "step[1].name: a step's name has no dot"},
        Wrong{"ANameThatIsANumber", "[[step]]\nname = 3\nmodel = \"cut\"\n" + kResult,
              "t.toml:6:8: step[1].name: expected a text in quotes, got an integer"},
        Wrong{"NoModel", "[[step]]\nname = \"n\"\ninputs = { image = \"request.image\" }\n" + kResult,
              "t.toml:5:1: step[1]: 'model' is missing"},
        Wrong{"AModelThatIsNotThere", step("c", "cutt", "image = \"request.image\"") + kNames + kResult,
              "t.toml:7:9: step[1].model: no folder in models/ has a model called 'cutt'; did you mean 'cut'?"},
        Wrong{"AVersionThatIsNotThere", step("n", "name", "crop = \"request.image\"", "version = \"1.5\"\n") + kResult,
              "t.toml:9:11: step[1].version: model 'name' has no version '1.5'; there is 1.0, 1.4, 2.0"},
        Wrong{"ARangeWithNothingInside", step("n", "name", "crop = \"request.image\"", "version = \">=3\"\n") + kResult,
              "t.toml:9:11: step[1].version: model 'name' has no version in '>=3'; there is 1.0, 1.4, 2.0"},
        Wrong{"ARangeThatIsNone", step("n", "name", "crop = \"request.image\"", "version = \">=1,2\"\n") + kResult,
              "t.toml:9:11: step[1].version: '2' is no version and no comparison; valid are a version (\"1.2\"), "
              "\"latest\", comparisons (\">=1.2,<2\"), \"~1.2\" and \"1.*\""},
        Wrong{"AShareOverOne", step("n", "name", "crop = \"request.image\"", "deadline_share = 1.5\n") + kResult,
              "t.toml:9:18: step[1].deadline_share: 1.5 is out of range (0.01 to 1)"},
        Wrong{"SharesOfAWayOverOne",
              step("c", "cut", "image = \"request.image\"", "deadline_share = 0.7\n") +
                  step("n", "name", "crop = \"c.crops\"", "for_each = \"crop\"\ndeadline_share = 0.4\n") + kResult,
              "t.toml:15:18: step[2].deadline_share: the shares of c -> n add up to 1.1, more than the whole"},
        Wrong{"TooManyRetries", step("n", "name", "crop = \"request.image\"", "retry = 6\n") + kResult,
              "t.toml:9:9: step[1].retry: 6 is out of range (0 to 5)"},
        Wrong{"ASourceThatIsNone", step("n", "name", "crop = \"image\"") + kResult,
              "t.toml:8:19: step[1].inputs.crop: 'image' is no source"},
        Wrong{"ASourceThatIsANumber", step("n", "name", "crop = 7") + kResult,
              "t.toml:8:19: step[1].inputs.crop: expected a text in quotes, got an integer"},
        Wrong{"NoResult", kCut + kNames, "t.toml:1:1: 'result' is missing"},
        Wrong{"AnEmptyResult", kCut + kNames + "[result]\n", "t.toml:14:1: result: is empty"}),
    [](const auto& one) { return std::string(one.param.name); });

TEST_F(Graph, FaultsThatFollowFromAnUnknownModelAreNotTold) {
  const std::string told =
      faults_of(kInput + step("c", "cutt", "image = \"request.image\"") + kNames + "[result]\ntext = \"n.text\"\n");
  EXPECT_EQ(std::count(told.begin(), told.end(), '\n'), 0) << told;
}

TEST_F(Graph, WhatFollowsFromAStepsNameIsNotTold) {
  const auto lines_with = [&](const std::string& name, const std::string& source) {
    return faults_of(kInput + step(name, "name", "crop = \"request.image\"") + "[result]\ntext = \"" + source +
                     ".text\"\n");
  };
  const std::string longest(80, 's');
  for (const std::string& name : {longest, std::string("a.b")}) {
    const std::string told = lines_with(name, name);
    EXPECT_THAT(told, HasSubstr("step[1].name: "));
    EXPECT_EQ(std::count(told.begin(), told.end(), '\n'), 0) << told;
  }
  const std::string other = lines_with(longest, "s");
  EXPECT_THAT(other, HasSubstr("'s.text' is neither"));
  EXPECT_THAT(other, ::testing::Not(HasSubstr("did you mean '."))) << other;
  const std::string told = lines_with("request", "request");
  EXPECT_THAT(told, HasSubstr("'request' stands for what the device sent"));
  EXPECT_THAT(told, ::testing::Not(HasSubstr("circle"))) << told;
}

TEST_F(Graph, AnInputMayGoStraightIntoTheResult) {
  EXPECT_EQ(faults_of(kInput + "[[input]]\nname = \"note\"\ndtype = \"UINT8\"\n" +
                      step("n", "name", "crop = \"request.image\"") +
                      "[result]\ntext = \"n.text\"\nnote = \"request.note\"\n"),
            "");
}

TEST(OwnSteps, FaultsNameTheirPlaceWithoutAFile) {
  Config config;
  model::Record& record = config.models.emplace_back();
  record.name = "m";
  record.version = "1";
  model::TensorDecl any;
  any.name = "x";
  any.any_dtype = any.any_shape = true;
  record.inputs = record.outputs = {any};
  TaskConfig task;
  task.inputs = {any};
  steps::StepList list;
  list.steps.resize(2);
  list.steps[0] = {"a", "m", "", {{"x", "request.x"}}, "", 0, 0};
  list.steps[1] = {"b\n", "m", ">=", {{"x", "a.y"}, {"z", "a.x"}}, "", 2, 9};
  list.result = {{"y", "c.x"}};
  std::vector<std::string> told;
  make_graph(list, config, task, [&](const GraphPlace& place, std::string_view what) {
    told.push_back(shown(place, list) + ": " + std::string(what));
  });
  EXPECT_THAT(told, ::testing::Contains(HasSubstr("step 2 'b\\x0a', name: 'b\n' is no name")));
  EXPECT_THAT(told, ::testing::Contains(HasSubstr("step 2 'b\\x0a', version: '>=' is no version")));
  EXPECT_THAT(told, ::testing::Contains(HasSubstr("step 2 'b\\x0a', deadline_share: is out of range (0.01 to 1)")));
  EXPECT_THAT(told, ::testing::Contains(HasSubstr("step 2 'b\\x0a', retry: 9 is out of range (0 to 5)")));
  EXPECT_THAT(told, ::testing::Contains(HasSubstr("result.y: 'c.x' is neither")));
  told.clear();
  list.steps.resize(1);
  list.result = {{"y", "a.x"}};
  task.steps.clear();
  task.result.clear();
  make_graph(list, config, task, [&](const GraphPlace&, std::string_view what) { told.emplace_back(what); });
  EXPECT_THAT(told, ElementsAre());
  EXPECT_EQ(task.steps.at(0).version, "latest");
  EXPECT_EQ(task.result.at("y").step, "a");
}

}  // namespace
}  // namespace gearbox::config
