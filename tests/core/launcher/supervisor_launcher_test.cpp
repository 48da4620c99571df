#include "launcher/supervisor_launcher.hpp"

#include <gtest/gtest.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <optional>
#include <vector>

#include "core/supervisor/scratch.hpp"
#include "serving/control.hpp"

namespace gearbox::launcher {
namespace {

namespace json = boost::json;

/// A process to be pointed at.
int sleeping_child() {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::execl("/bin/sleep", "sleep", "300", nullptr);
    ::_exit(1);
  }
  return pid;
}

struct Desk {
  supervisor::Scratch scratch;
  boost::asio::io_context io{1};
  std::unique_ptr<serving::ControlServer> server;
  std::vector<json::object> requests;
  std::function<Outcome<json::object>(const json::object&)> answer;
  int child = sleeping_child();
  SupervisorLauncher launcher{io, scratch.state.supervisor_socket()};

  ~Desk() {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  void serve() {
    auto started =
        serving::ControlServer::start(io.get_executor(), scratch.state.supervisor_socket(),
                                      [this](std::string_view, const json::object& request) -> Outcome<json::object> {
                                        requests.push_back(request);
                                        if (answer) return answer(request);
                                        return json::object{{"pid", child}};
                                      });
    ASSERT_TRUE(started) << started.error().detail;
    server = std::move(started).value();
  }
  static worker_pool::Launcher::Order order() {
    worker_pool::Launcher::Order out;
    out.role = "worker-3";
    out.argv = {"/bin/true", "--x"};
    out.env = {"A=b"};
    return out;
  }
};

TEST(SupervisorLauncher, AsksForAWorkerAndGetsItsPid) {
  Desk desk;
  desk.serve();
  std::optional<Outcome<int>> got;
  desk.launcher.launch(Desk::order(), [&](Outcome<int> pid) { got = std::move(pid); });
  ASSERT_TRUE(supervisor::run_until(desk.io, [&] { return got.has_value(); }));
  ASSERT_TRUE(*got) << got->error().detail;
  EXPECT_EQ(got->value(), desk.child);
  ASSERT_EQ(desk.requests.size(), 1U);
  EXPECT_EQ(desk.requests[0].at("command").as_string(), "launch");
  EXPECT_EQ(desk.requests[0].at("role").as_string(), "worker-3");
  EXPECT_EQ(desk.requests[0].at("argv").as_array().size(), 2U);
  EXPECT_EQ(desk.requests[0].at("env").as_array().at(0).as_string(), "A=b");
}

TEST(SupervisorLauncher, WaitsForASupervisorThatComesLater) {
  Desk desk;
  std::optional<Outcome<int>> got;
  desk.launcher.launch(Desk::order(), [&](Outcome<int> pid) { got = std::move(pid); });
  desk.io.run_for(milliseconds(120));
  EXPECT_FALSE(got.has_value());
  desk.serve();
  ASSERT_TRUE(supervisor::run_until(desk.io, [&] { return got.has_value(); }));
  EXPECT_TRUE(*got);
}

TEST(SupervisorLauncher, AsksAgainUnderTheSameNumberWhenTheAnswerIsLost) {
  Desk desk;
  desk.serve();
  bool dropped = false;
  desk.answer = [&](const json::object&) -> Outcome<json::object> {
    if (dropped) return json::object{{"pid", desk.child}};
    dropped = true;
    return Error{Errc::io_error, "lost"};
  };
  std::optional<Outcome<int>> got;
  desk.launcher.launch(Desk::order(), [&](Outcome<int> pid) { got = std::move(pid); });
  ASSERT_TRUE(supervisor::run_until(desk.io, [&] { return got.has_value(); }));
  ASSERT_EQ(desk.requests.size(), 2U);
  EXPECT_EQ(desk.requests[0].at("order").as_string(), desk.requests[1].at("order").as_string());
}

TEST(SupervisorLauncher, ASupervisorThatStopsHasAnswered) {
  Desk desk;
  desk.serve();
  desk.answer = [](const json::object&) -> Outcome<json::object> { return Error{Errc::shutting_down, "going"}; };
  std::optional<Outcome<int>> got;
  desk.launcher.launch(Desk::order(), [&](Outcome<int> pid) { got = std::move(pid); });
  ASSERT_TRUE(supervisor::run_until(desk.io, [&] { return got.has_value(); }));
  ASSERT_FALSE(*got);
  EXPECT_EQ(got->error().code, Errc::shutting_down);
  EXPECT_EQ(desk.requests.size(), 1U);
}

TEST(SupervisorLauncher, ListsWorkersPageByPage) {
  Desk desk;
  desk.serve();
  desk.answer = [](const json::object& request) -> Outcome<json::object> {
    const bool first = request.at("after").as_int64() == 0;
    json::array argv{"/bin/shim", "--slot"};
    json::object worker{{"role", first ? "worker-1" : "worker-2"}, {"pid", first ? 71 : 72}, {"argv", argv}};
    json::array workers;
    workers.push_back(std::move(worker));
    return json::object{{"workers", std::move(workers)}, {"more", first}};
  };
  std::optional<Outcome<std::vector<worker_pool::Launcher::Running>>> got;
  desk.launcher.list(milliseconds(5000), [&](auto running) { got = std::move(running); });
  ASSERT_TRUE(supervisor::run_until(desk.io, [&] { return got.has_value(); }));
  ASSERT_TRUE(*got) << got->error().detail;
  ASSERT_EQ(got->value().size(), 2U);
  EXPECT_EQ(got->value()[1].pid, 72);
  EXPECT_EQ(got->value()[1].role, "worker-2");
  EXPECT_EQ(got->value()[1].argv.size(), 2U);
  EXPECT_EQ(desk.requests[1].at("after").as_int64(), 71);
}

TEST(SupervisorLauncher, ListsNothingWithoutASupervisorAndSaysSoInTime) {
  Desk desk;  // nobody listens
  std::optional<Outcome<std::vector<worker_pool::Launcher::Running>>> got;
  desk.launcher.list(milliseconds(200), [&](auto running) { got = std::move(running); });
  ASSERT_TRUE(supervisor::run_until(desk.io, [&] { return got.has_value(); }));
  EXPECT_FALSE(*got);
}

TEST(SupervisorLauncher, CancelAllAnswersWhatNoSupervisorEverAnswered) {
  Desk desk;  // nobody listens
  std::vector<Errc> got;
  const auto started = [&](const Outcome<int>& pid) { got.push_back(pid ? Errc::internal : pid.error().code); };
  desk.launcher.launch(Desk::order(), started);
  desk.launcher.launch(Desk::order(), started);
  desk.io.run_for(milliseconds(20));
  EXPECT_TRUE(got.empty());
  desk.launcher.cancel_all();
  ASSERT_TRUE(supervisor::run_until(desk.io, [&] { return got.size() == 2; }));
  EXPECT_EQ(got, (std::vector<Errc>{Errc::cancelled, Errc::cancelled}));
}

TEST(SupervisorLauncher, HandsOnARefusal) {
  Desk desk;
  desk.serve();
  desk.answer = [](const json::object&) -> Outcome<json::object> { return Error{Errc::bad_input, "no such program"}; };
  std::optional<Outcome<int>> got;
  desk.launcher.launch(Desk::order(), [&](Outcome<int> pid) { got = std::move(pid); });
  ASSERT_TRUE(supervisor::run_until(desk.io, [&] { return got.has_value(); }));
  ASSERT_FALSE(*got);
  EXPECT_EQ(got->error().code, Errc::bad_input);
}

TEST(SupervisorLauncher, StopsAWorkerItselfWhenTheSupervisorIsGone) {
  Desk desk;
  desk.serve();
  std::optional<Outcome<int>> got;
  desk.launcher.launch(Desk::order(), [&](Outcome<int> pid) { got = std::move(pid); });
  ASSERT_TRUE(supervisor::run_until(desk.io, [&] { return got.has_value(); }));
  desk.server.reset();
  desk.launcher.stop(desk.child, seconds(5));
  int status = 0;
  ASSERT_TRUE(supervisor::run_until(desk.io, [&] { return ::waitpid(desk.child, &status, WNOHANG) == desk.child; }));
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
  desk.child = sleeping_child();  // for the destructor
}

}  // namespace
}  // namespace gearbox::launcher
