// How a worker ends, and that it always does: by signal, with its node, in the middle of a call.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>

#include "worker_shim/test_node.hpp"

namespace gearbox::test {
namespace {

using ::testing::HasSubstr;

std::vector<Tensor> command(const std::string& name) {
  return {text_tensor("command", name), uint8_tensor("data", "abc")};
}

void expect_exit(TestNode& node, int code) {
  const auto status = node.ended();
  ASSERT_TRUE(status.has_value()) << "still running\n" << node.log();
  ASSERT_TRUE(WIFEXITED(*status)) << *status << node.log();
  EXPECT_EQ(WEXITSTATUS(*status), code) << node.log();
}

TEST(WorkerShimLife, EndsWhenToldTo) {
  TestNode node;
  node.start("echo_any");
  ASSERT_TRUE(node.attach()) << node.log();
  node.signal(SIGTERM);
  expect_exit(node, 0);
}

TEST(WorkerShimLife, SaysHelloWithItsRecord) {
  TestNode node;
  node.start("echo_any");
  const auto body = node.first_message();
  ASSERT_TRUE(body.has_value()) << node.log();
  const auto* hello = std::get_if<shm::WorkerHello>(&*body);
  ASSERT_NE(hello, nullptr);
  EXPECT_EQ(hello->model, "echo_any");
  EXPECT_EQ(hello->version, "1");
  EXPECT_EQ(hello->digest.size(), 32U);
  EXPECT_EQ(hello->pid, node.pid());
  EXPECT_EQ(hello->slot, 3U);
  EXPECT_THAT(hello->shim, HasSubstr("worker_shim "));
}

TEST(WorkerShimLife, EndsAlthoughTheModelLeftAThreadRunning) {
  TestNode node;
  node.start("thread_left");
  ASSERT_TRUE(node.attach()) << node.log();
  const auto got = node.ask({uint8_tensor("data", "x")});
  ASSERT_TRUE(got && !got->failed);
  node.signal(SIGTERM);
  expect_exit(node, 0);
  EXPECT_THAT(node.log(), HasSubstr("the exit handler ran"));
}

TEST(WorkerShimLife, EndsAlthoughTheModelsExitHandlerHangs) {
  TestNode node;
  node.start("hangs_on_exit");
  ASSERT_TRUE(node.attach()) << node.log();
  node.signal(SIGTERM);
  expect_exit(node, 0);
}

TEST(WorkerShimLife, EndsInTheMiddleOfACallThatHoldsThePython) {
  TestNode node;
  node.start("commands");
  ASSERT_TRUE(node.attach()) << node.log();
  node.call(command("native_hang"));
  EXPECT_FALSE(node.answer(std::chrono::milliseconds(200)).has_value());
  node.signal(SIGTERM);
  expect_exit(node, 0);
}

TEST(WorkerShimLife, DiesOfWhatKillsItsModel) {
  for (const auto& [name, number] : {std::pair{"killed", SIGKILL}, std::pair{"segfault", SIGSEGV}}) {
    TestNode node;
    node.start("commands");
    ASSERT_TRUE(node.attach()) << node.log();
    node.call(command(name));
    const auto status = node.ended();
    ASSERT_TRUE(status.has_value()) << name;
    EXPECT_TRUE(WIFSIGNALED(*status) && WTERMSIG(*status) == number) << name << *status;
  }
}

TEST(WorkerShimLife, EndsWhenItsNodeIsGoneForGood) {
  TestNode node;
  node.start("echo_any", {"--reattach-ms", "200"});
  ASSERT_TRUE(node.attach()) << node.log();
  node.vanish();
  expect_exit(node, 0);
}

TEST(WorkerShimLife, DoesNotDialAgainWhenItsNodeSaysExit) {
  TestNode node;
  node.start("echo_any", {"--reattach-ms", "20000"});
  ASSERT_TRUE(node.attach()) << node.log();
  node.say_exit();
  // The node listens all the time: a worker that dialled again would wait for an answer there.
  const auto status = node.ended(std::chrono::seconds(10));
  ASSERT_TRUE(status.has_value()) << "it did not end";
  EXPECT_EQ(*status, 0);
  EXPECT_THAT(node.log(), HasSubstr("enough"));
}

TEST(WorkerShimLife, ServesTheNextNodeWithTheModelItHas) {
  TestNode node;
  node.start("commands", {"--reattach-ms", "20000"});
  ASSERT_TRUE(node.attach()) << node.log();
  ASSERT_FALSE(
      node.ask(command("keep"))->failed);  // the old node's memory must outlive it: the model still looks at it
  node.vanish();
  node.listen();
  ASSERT_TRUE(node.attach()) << node.log();
  const auto got = node.ask(command("kept"));
  ASSERT_TRUE(got && !got->failed) << (got ? got->text : node.log());
  EXPECT_EQ(got->find("number")->bytes, std::string("\0\0\x80\x3f", 4));  // 1.0F: the same process, the same model
}

TEST(WorkerShimLife, EndsWhenItsNodeIsGoneAndTheCallNeverReturns) {
  TestNode node;
  node.start("commands_short", {"--reattach-ms", "200"});
  ASSERT_TRUE(node.attach()) << node.log();
  node.call(command("native_hang"));
  EXPECT_FALSE(node.answer(std::chrono::milliseconds(200)).has_value());
  node.vanish();
  expect_exit(node, 1);
  EXPECT_THAT(node.log(), HasSubstr("the node is gone and the model's call does not come back"));
}

/// Stands still at each stop point when told to, so that fault tests can kill it exactly there.
TEST(WorkerShimLife, StopsAtEachOfItsStopPoints) {
#if defined(GEARBOX_STOP_POINTS) && GEARBOX_STOP_POINTS
  for (const std::string point : {"worker.loaded", "worker.call.taken", "worker.call.done"}) {
    TestNode node;
    node.start("echo_any", {}, {"GEARBOX_STOP_AT=" + point});
    if (point != "worker.loaded") {
      ASSERT_TRUE(node.attach()) << node.log();
      node.call({uint8_tensor("data", "x")});
    }
    siginfo_t info{};
    ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(node.pid()), &info, WSTOPPED | WNOWAIT), 0) << point;
    EXPECT_EQ(info.si_code, CLD_STOPPED) << point << node.log();
  }
#else
  std::puts("NOT RUN: stop points are compiled out");
  GTEST_SKIP();
#endif
}

}  // namespace
}  // namespace gearbox::test
