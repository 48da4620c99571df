#include "config/unserved.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gearbox::config {
namespace {

class UnservedTasks : public ::testing::Test {
 protected:
  UnservedTasks() {
    for (const char* version : {"1", "2"}) {
      model::Record& record = config_.models.emplace_back();
      record.name = "m";
      record.version = version;
    }
  }
  void task(const std::string& name, const std::string& version) {
    StepConfig step;
    step.name = "s";
    step.model = "m";
    step.version = version;
    config_.tasks[name].name = name;
    config_.tasks[name].steps.push_back(step);
  }
  void worker(const std::string& version, std::uint32_t count = 1) {
    WorkerConfig worker;
    worker.model = "m";
    worker.version = version;
    worker.count = count;
    config_.workers.push_back(worker);
  }
  std::string told() const {
    std::string text;
    for (const Unserved& each : unserved_of(config_)) text += each.task + ": " + each.reason + "\n";
    return text;
  }
  Config config_;
};

TEST_F(UnservedTasks, AreThoseWhoseModelNoWorkerNames) {
  task("t", "latest");
  EXPECT_EQ(told(), "t: no [[worker]] names model 'm'\n");
  worker("");
  EXPECT_EQ(told(), "");
}

TEST_F(UnservedTasks, AreThoseThatAskForAnotherVersion) {
  task("new", "latest");
  task("old", "1");
  task("range", ">=2");
  worker("2");
  EXPECT_EQ(told(), "old: no [[worker]] runs model 'm' at version '1'\n");
  worker("1");
  EXPECT_EQ(told(), "");
}

TEST_F(UnservedTasks, AreThoseWhoseWorkersAreNoneByNumber) {
  task("t", "latest");
  worker("", 0);
  EXPECT_EQ(told(), "t: the [[worker]] of model 'm' has count = 0\n");
}

TEST_F(UnservedTasks, NameAModelOnce) {
  task("t", "latest");
  config_.tasks["t"].steps.push_back(config_.tasks["t"].steps.front());
  EXPECT_EQ(unserved_of(config_).size(), 1U);
}

}  // namespace
}  // namespace gearbox::config
