#include "serving/service_notify.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>

#include <array>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "support/temp_dir.hpp"

namespace gearbox::serving {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A service manager's side.
class Manager {
 public:
  explicit Manager(std::string name) : name_(std::move(name)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name_.data(), name_.size());
    if (name_.front() == '@') address.sun_path[0] = '\0';
    descriptor_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name_.size());
    EXPECT_EQ(::bind(descriptor_, reinterpret_cast<const sockaddr*>(&address), length), 0) << name_;
  }
  ~Manager() { ::close(descriptor_); }
  const std::string& name() const { return name_; }
  /// What has come, one entry for each datagram.
  std::vector<std::string> heard() const {
    std::vector<std::string> all;
    std::array<char, 4096> text;
    for (ssize_t got; (got = ::recv(descriptor_, text.data(), text.size(), 0)) >= 0;) {
      all.emplace_back(text.data(), static_cast<std::size_t>(got));
    }
    return all;
  }

 private:
  std::string name_;
  int descriptor_ = -1;
};

class Notify : public ::testing::Test {
 protected:
  void run_for(milliseconds time) {
    io_.restart();
    io_.run_for(time);
  }
  gearbox::testing::TempDir folder_;
  boost::asio::io_context io_{1};
};

TEST_F(Notify, SpeaksToPathsAndToAbstractSockets) {
  for (const std::string& name :
       {(folder_.path() / "notify").string(), "@gearbox-test-" + std::to_string(::getpid())}) {
    const Manager manager(name);
    ServiceNotify notify(io_.get_executor(), {.socket = name});
    notify.status("node starts");
    notify.ready("node ready\nMAINPID=1");
    notify.ready("node is not ready");
    notify.stopping("stopping: 3 requests are open", milliseconds(70'000));
    EXPECT_THAT(manager.heard(),
                ElementsAre("STATUS=node starts", "READY=1\nSTATUS=node ready MAINPID=1", "STATUS=node is not ready",
                            "EXTEND_TIMEOUT_USEC=70000000\nSTATUS=stopping: 3 requests are open\nSTOPPING=1"))
        << name;
  }
}

TEST_F(Notify, FeedsTheWatchdogTwiceInItsTimeAsLongAsTheLoopRuns) {
  const Manager manager((folder_.path() / "notify").string());
  ServiceNotify notify(io_.get_executor(), {.socket = manager.name(), .watchdog = milliseconds(40)});
  notify.start();
  EXPECT_THAT(manager.heard(), ElementsAre("WATCHDOG=1"));
  const Instant begun = Clock::now();
  std::size_t fed = 0;
  while (fed < 3 && Clock::now() - begun < seconds(20)) {
    io_.run_one_for(seconds(1));
    fed += manager.heard().size();
  }
  EXPECT_EQ(fed, 3U);
  EXPECT_GE(Clock::now() - begun, milliseconds(60)) << "half of 40 ms each";
  notify.end();
  run_for(seconds(10));
  EXPECT_TRUE(io_.stopped()) << "no timer is left";
  EXPECT_TRUE(manager.heard().empty());
}

TEST_F(Notify, AsksForMoreTimeUntilItIsReadyAndNotForEver) {
  const Manager manager((folder_.path() / "notify").string());
  NotifySettings settings{.socket = manager.name()};
  settings.starting = milliseconds(60);
  settings.start_step = milliseconds(30);
  ServiceNotify notify(io_.get_executor(), settings);
  notify.start();
  run_for(seconds(10));
  EXPECT_TRUE(io_.stopped()) << "it gives up after 60 ms";
  const std::vector<std::string> heard = manager.heard();
  EXPECT_GE(heard.size(), 2U);
  for (const std::string& each : heard) EXPECT_EQ(each, "EXTEND_TIMEOUT_USEC=30000");

  ServiceNotify second(io_.get_executor(), settings);
  second.start();
  second.ready("");
  run_for(seconds(10));
  EXPECT_THAT(manager.heard(), ElementsAre("EXTEND_TIMEOUT_USEC=30000", HasSubstr("READY=1")));
}

TEST_F(Notify, WhatIsNotTakenAtOnceIsSaidLaterWithTheLatestValues) {
  const Manager manager((folder_.path() / "notify").string());
  ServiceNotify notify(io_.get_executor(), {.socket = manager.name()});
  for (int i = 0; i < 10'000; ++i) notify.status("filling " + std::to_string(i));  // far more than the kernel queues
  notify.ready("up");
  const std::size_t queued = manager.heard().size();
  ASSERT_LT(queued, 10'000U);
  run_for(seconds(10));
  EXPECT_THAT(manager.heard(), ElementsAre("READY=1\nSTATUS=up"));
}

TEST_F(Notify, ANameThatIsNoneOrNobodyBehindItHarmsNobody) {
  const std::string gone = (folder_.path() / "gone").string();
  for (const std::string& name : {std::string(), std::string("@"), std::string("relative"), std::string(300, '/'), gone,
                                  std::string("vsock:2:1234")}) {
    ServiceNotify notify(io_.get_executor(), {.socket = name, .watchdog = milliseconds(10'000)});
    notify.start();
    notify.ready("up");
    notify.end();
    run_for(seconds(10));
    EXPECT_TRUE(io_.stopped()) << name;
  }
}

TEST(NotifySettings, AreTakenOutOfTheEnvironment) {
  const auto with = [](const char* watchdog, const std::string& pid) {
    ::setenv("NOTIFY_SOCKET", "@x", 1);
    ::setenv("WATCHDOG_USEC", watchdog, 1);
    ::setenv("WATCHDOG_PID", pid.c_str(), 1);
    return notify_settings_of_environment();
  };
  EXPECT_EQ(with("30000000", std::to_string(::getpid())).socket, "@x");
  for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"})
    EXPECT_EQ(::getenv(name), nullptr) << name;
  EXPECT_EQ(with("30000000", std::to_string(::getpid())).watchdog, milliseconds(30'000));
  EXPECT_EQ(with("30000000", "").watchdog, milliseconds(30'000));
  EXPECT_EQ(with("30000000", "1").watchdog, milliseconds(0)) << "it is meant for another process";
  for (const char* odd : {"", "x", "-5", "10x", "99999999999999999999"}) {
    EXPECT_EQ(with(odd, "").watchdog, milliseconds(0)) << odd;
  }
}

}  // namespace
}  // namespace gearbox::serving
