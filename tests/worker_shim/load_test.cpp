// What happens when a model or its environment cannot start: the node is told why, and the exit code says which.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>
#include <fstream>

#include "support/temp_dir.hpp"
#include "worker_shim/test_node.hpp"

namespace gearbox::test {
namespace {

/// The reason that the shim reports; empty when it reports none.
std::string reported(TestNode& node) {
  const auto body = node.first_message();
  if (!body) return {};
  const auto* failed = std::get_if<shm::WorkerFailed>(&*body);
  if (failed == nullptr) return "no failure";
  EXPECT_EQ(failed->slot, 3U);
  EXPECT_EQ(failed->pid, node.pid());
  return failed->text;
}

void expect_exit(TestNode& node, int code) {
  const auto status = node.ended();
  ASSERT_TRUE(status.has_value()) << node.log();
  ASSERT_TRUE(WIFEXITED(*status)) << *status << node.log();
  EXPECT_EQ(WEXITSTATUS(*status), code) << node.log();
}

TEST(WorkerShimLoad, ReportsAnImportThatFails) {
  TestNode node;
  node.start("import_error");
  EXPECT_EQ(reported(node),
            "model_failed: ModuleNotFoundError: No module named 'a_module_that_is_not_there' (model.py:1)");
  expect_exit(node, 3);
}

TEST(WorkerShimLoad, ReportsAModelThatExits) {
  TestNode node;
  node.start("system_exit");
  EXPECT_EQ(reported(node), "model_failed: SystemExit: bad weights (model.py:3)");
  expect_exit(node, 3);
}

TEST(WorkerShimLoad, ReportsAModelWithoutItsClass) {
  TestNode node;
  node.start("no_class");
  EXPECT_EQ(reported(node), "model_failed: AttributeError: model.py has no class Model");
  expect_exit(node, 3);
}

TEST(WorkerShimLoad, IsGoneWhenTheModelKillsIt) {
  TestNode node;
  node.start("killed_in_init");
  EXPECT_EQ(reported(node), "");
  const auto status = node.ended();
  ASSERT_TRUE(status.has_value());
  EXPECT_TRUE(WIFSIGNALED(*status) && WTERMSIG(*status) == SIGKILL);
}

TEST(WorkerShimLoad, EndsAModelThatNeverFinishesLoading) {
  TestNode node;
  node.start("hangs_in_load");
  expect_exit(node, 3);
  EXPECT_NE(node.log().find("did not load within 300 ms"), std::string::npos) << node.log();
}

TEST(WorkerShimLoad, ReportsARecordThatIsNotThere) {
  TestNode node;
  node.start("no_such_model");
  EXPECT_NE(reported(node).find("model.toml"), std::string::npos);
  expect_exit(node, 3);
}

TEST(WorkerShimLoad, ReportsAMissingEnvironment) {
  TestNode node;
  node.start("echo_any", {"--python", "/no/such/env/bin/python"});
  const std::string text = reported(node);
  EXPECT_NE(text.find("environment 'test' is missing"), std::string::npos) << text;
  EXPECT_NE(text.find("scripts/make-env test /no/such/env"), std::string::npos) << text;
  expect_exit(node, 4);
}

TEST(WorkerShimLoad, RefusesAProgramThatIsNoPython) {
  TestNode node;
  node.start("echo_any", {"--python", "/bin/true"});
  EXPECT_NE(reported(node).find("/bin/true is no working Python"), std::string::npos);
  expect_exit(node, 4);
}

TEST(WorkerShimLoad, RefusesAProgramThatTalksForEver) {
  const gearbox::testing::TempDir folder;
  const std::filesystem::path program = folder.path() / "python";
  std::ofstream(program) << "#!/bin/sh\nexec yes 3.11.2\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  TestNode node;
  node.start("echo_any", {"--python", program.string()});
  EXPECT_NE(reported(node).find("is no working Python"), std::string::npos);
  expect_exit(node, 4);
}

TEST(WorkerShimLoad, SaysUsageForAWrongLine) {
  TestNode node;
  node.start("echo_any", {"--no-such-option"});
  expect_exit(node, 2);
}

}  // namespace
}  // namespace gearbox::test
