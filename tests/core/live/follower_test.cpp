// A role that follows its folder: the test is the role; its strand is a thread of its own.
#include "live/follower.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>

#include "core/config/config_folder.hpp"
#include "core/plugin_host/fixture_files.hpp"

namespace gearbox::live {
namespace {

namespace fs = std::filesystem;
using plugin_host::content_of;
using plugin_host::fixture;
using plugin_host::write_file;
using ::testing::AllOf;
using ::testing::HasSubstr;

class FollowerTest : public config::ConfigFolder {
 protected:
  void SetUp() override {
    ConfigFolder::SetUp();
    fs::create_directories(folder() / "plugins");
    fs::permissions(folder() / "plugins", fs::perms(0755));
    begin();
  }
  void TearDown() override { end(); }

  void begin() {
    const auto loaded = config::load(folder());
    ASSERT_TRUE(loaded) << loaded.error().detail;
    config_ = loaded.value();
    plugin_host::HostPaths paths;
    paths.dropped = config_->plugins.folder;
    paths.copies = state_.path() / "copies";
    paths.checker = GEARBOX_CHECKER;
    paths.calling = state_.path() / "calling";
    auto host = plugin_host::PluginHost::open(paths, config_->plugins);
    ASSERT_TRUE(host) << host.error().detail;
    host_ = std::move(host).value();
    guard_.emplace(boost::asio::make_work_guard(io_));
    strand_ = std::thread([this] { io_.run(); });
    Follower::Setup setup;
    setup.role = "node";
    setup.sections = {"node"};
    setup.strand = io_.get_executor();
    setup.config = config_;
    setup.plugins = host_.get();
    setup.needs = [](const config::Config& config) {
      return plugin_host::Needs{{"balancer", config.node.balancer, "node.balancer"}};
    };
    setup.prepare = [this](const Update& update) -> Outcome<std::function<void()>> {
      if (update.config->node.balancer == "moody") {
        auto made = update.plugins->balancer("moody");
        if (!made) return made.error();
      }
      return std::function<void()>([this, update] {
        const std::lock_guard held(mutex_);
        if (in_force_ != update.config) history_.push_back(update.config);
        in_force_ = update.config;
        table_ = update.plugins;
        changed_.notify_all();
      });
    };
    in_force_ = config_;
    auto follower = Follower::start(std::move(setup));
    ASSERT_TRUE(follower) << follower.error().detail;
    follower_ = std::move(follower).value();
  }
  void end() {
    follower_.reset();
    guard_.reset();
    if (strand_.joinable()) strand_.join();
    table_.reset();
    host_.reset();
  }

  /// Waits until the role has been given something for which `condition` holds.
  template <class Condition>
  bool until(Condition condition) {
    std::unique_lock held(mutex_);
    return changed_.wait_for(held, seconds(20), [&] { return condition(*in_force_); });
  }
  bool until_requests(std::uint32_t max_requests) {
    return until([&](const config::Config& config) { return config.node.limits.max_requests == max_requests; });
  }
  std::size_t taken() {
    const std::lock_guard held(mutex_);
    return history_.size();
  }
  /// Waits until the follower says why the files are not in force.
  std::string error() {
    const Instant deadline = after(Clock::now(), milliseconds(20'000));
    while (Clock::now() < deadline) {
      if (const std::string text = follower_->standing().error; !text.empty()) return text;
      std::this_thread::yield();
    }
    return {};
  }
  bool no_error() {
    const Instant deadline = after(Clock::now(), milliseconds(20'000));
    while (Clock::now() < deadline) {
      if (follower_->standing().error.empty()) return true;
      std::this_thread::yield();
    }
    return false;
  }
  static std::string main_with(std::uint32_t max_requests, const std::string& more = "") {
    return std::string(config::kMain) + "[node.limits]\nmax_requests = " + std::to_string(max_requests) + "\n" + more;
  }
  /// As editors do: a file beside, renamed over.
  void save(const std::string& name, const std::string& text) {
    write(name + ".new", text);
    fs::rename(folder() / (name + ".new"), folder() / name);
  }
  void drop(const std::string& name, const std::string& content) {
    write_file(folder() / "plugins" / ("." + name), content);
    fs::rename(folder() / "plugins" / ("." + name), folder() / "plugins" / name);
  }

  gearbox::testing::TempDir state_;
  config::Snapshot config_;
  std::unique_ptr<plugin_host::PluginHost> host_;
  boost::asio::io_context io_;
  std::optional<boost::asio::executor_work_guard<boost::asio::io_context::executor_type>> guard_;
  std::thread strand_;
  std::mutex mutex_;
  std::condition_variable changed_;
  config::Snapshot in_force_;
  plugin_host::TablePtr table_;
  std::vector<config::Snapshot> history_;
  std::unique_ptr<Follower> follower_;
};

TEST_F(FollowerTest, AnEditIsTakenOverWhole) {
  save("gearbox.toml", main_with(100));
  ASSERT_TRUE(until_requests(100));
  save("gearbox.toml", main_with(200));
  ASSERT_TRUE(until_requests(200));
  EXPECT_EQ(follower_->standing().error, "");
}

TEST_F(FollowerTest, TasksComeAndGo) {
  write("tasks/other.toml", config::kTask);
  ASSERT_TRUE(until([](const config::Config& config) { return config.tasks.contains("other"); }));
  fs::remove(folder() / "tasks/other.toml");
  ASSERT_TRUE(until([](const config::Config& config) { return !config.tasks.contains("other"); }));
}

TEST_F(FollowerTest, ANewModelVersionIsSeen) {
  write("models/detect-2/model.py", "class Model: pass\n");
  std::string record = config::kDetect;
  record.replace(record.find("version = \"1\""), 13, "version = \"2\"");
  write("models/detect-2/model.toml", record);
  EXPECT_TRUE(until([](const config::Config& config) { return config.models.size() == 3; }));
}

TEST_F(FollowerTest, WhatAModelWritesIntoItsFolderHoldsNothingOff) {
  const int log = ::open((folder() / "models/detect/cache.bin").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  ASSERT_GE(log, 0);
  save("gearbox.toml", main_with(100));
  EXPECT_TRUE(until_requests(100));
  ::close(log);
}

TEST_F(FollowerTest, ABadEditLeavesTheOneInForceAndIsToldUntilItIsMended) {
  save("gearbox.toml", main_with(100));
  ASSERT_TRUE(until_requests(100));
  save("gearbox.toml", main_with(100, "max_request = 5\n"));
  EXPECT_THAT(error(), AllOf(HasSubstr("max_request"), HasSubstr("gearbox.toml:"), HasSubstr("did you mean")));
  EXPECT_EQ(taken(), 1U);
  save("gearbox.toml", main_with(101));
  ASSERT_TRUE(until_requests(101));
  EXPECT_TRUE(no_error());
}

TEST_F(FollowerTest, GoingBackToWhatIsInForceEndsTheError) {
  save("gearbox.toml", "max_request = 5\n");
  EXPECT_NE(error(), "");
  save("gearbox.toml", config::kMain);
  EXPECT_TRUE(no_error());
  EXPECT_EQ(taken(), 0U) << "nothing was ever applied";
}

TEST_F(FollowerTest, AKeyThatNeedsARestartIsNamedAndNothingIsApplied) {
  save("gearbox.toml",
       std::string(config::kMain) + "[node]\nlisten = \"tcp://127.0.0.1:9\"\n[node.limits]\nmax_requests = 7\n");
  EXPECT_THAT(error(), AllOf(HasSubstr("node.listen"), HasSubstr("tcp://127.0.0.1:9"), HasSubstr("restart")));
  EXPECT_EQ(taken(), 0U);
  EXPECT_EQ(in_force_->node.limits.max_requests, 4096U);
}

TEST_F(FollowerTest, AnEmptyOrCutFileNeverMeansDefaults) {
  save("gearbox.toml", main_with(100));
  ASSERT_TRUE(until_requests(100));
  write("gearbox.toml", "");
  EXPECT_THAT(error(), HasSubstr("empty"));
  write("gearbox.toml", main_with(100).substr(0, std::string(config::kMain).size()));
  const Instant deadline = after(Clock::now(), milliseconds(20'000));
  while (follower_->standing().error.find("only the beginning") == std::string::npos && Clock::now() < deadline)
    std::this_thread::yield();
  EXPECT_THAT(follower_->standing().error, HasSubstr("only the beginning"));
  write("tasks/other.toml", config::kTask);  // another change does not make it meant
  follower_->hurry();
  save("gearbox.toml", main_with(300));
  ASSERT_TRUE(until_requests(300));
  for (const auto& config : history_) EXPECT_NE(config->node.limits.max_requests, 4096U);
}

TEST_F(FollowerTest, AValidBeginningWrittenInPlaceIsTakenForACutFileUntilItIsSavedAgain) {
  const std::string text = main_with(100);
  write("gearbox.toml", text);
  ASSERT_TRUE(until_requests(100));
  const std::string cut = text.substr(0, std::string(config::kMain).size());  // parses, and means 4,096 requests
  write("gearbox.toml", cut);
  EXPECT_THAT(error(), HasSubstr("only the beginning"));
  EXPECT_EQ(taken(), 1U);
  write("gearbox.toml", cut);
  EXPECT_TRUE(until_requests(4096));
}

TEST_F(FollowerTest, AShorterFileThatIsRenamedIntoPlaceIsMeant) {
  save("gearbox.toml", main_with(100));
  ASSERT_TRUE(until_requests(100));
  save("gearbox.toml", config::kMain);
  EXPECT_TRUE(until_requests(4096));
}

TEST_F(FollowerTest, AFileWrittenInPiecesIsReadOnce) {
  const std::string text = main_with(700);
  write("gearbox.toml", "");
  follower_->hurry();
  std::ofstream(folder() / "gearbox.toml", std::ios::app) << text.substr(0, text.size() / 2);
  follower_->hurry();
  std::ofstream(folder() / "gearbox.toml", std::ios::app) << text.substr(text.size() / 2);
  ASSERT_TRUE(until_requests(700));
  EXPECT_EQ(taken(), 1U);
  EXPECT_EQ(follower_->standing().error, "");
}

TEST_F(FollowerTest, AFileThatIsBeingWrittenIsReadOnceItIsWhole) {
  const std::string text = main_with(500);
  const int writer = ::open((folder() / "gearbox.toml").c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC);
  ASSERT_GE(writer, 0);
  const std::size_t half = std::string(config::kMain).size() + 1;  // parses, and says "all defaults"
  ASSERT_EQ(::write(writer, text.data(), half), static_cast<ssize_t>(half));
  write("tasks/other.toml", config::kTask);  // something that could be taken over meanwhile
  follower_->hurry();
  ASSERT_EQ(::write(writer, text.data() + half, text.size() - half), static_cast<ssize_t>(text.size() - half));
  ::close(writer);
  ASSERT_TRUE(until_requests(500));
  EXPECT_EQ(taken(), 1U);
}

TEST_F(FollowerTest, DeletedAndMadeAgainIsOneChange) {
  fs::remove(folder() / "gearbox.toml");
  write("gearbox.toml", main_with(600));
  ASSERT_TRUE(until_requests(600));
  EXPECT_EQ(taken(), 1U);
  EXPECT_EQ(follower_->standing().error, "");
}

TEST_F(FollowerTest, UnchangedContentCausesNothing) {
  save("gearbox.toml", config::kMain);
  save("tasks/read-text.toml", config::kTask);
  save("gearbox.toml", main_with(50));
  ASSERT_TRUE(until_requests(50));
  save("gearbox.toml", main_with(50));
  save("gearbox.toml", main_with(51));
  ASSERT_TRUE(until_requests(51));
  EXPECT_LE(taken(), 2U);
}

TEST_F(FollowerTest, AConfigurationThatNamesAPluginWaitsForIt) {
  save("gearbox.toml", std::string(config::kMain) + "[node]\nbalancer = \"moody\"\n");
  EXPECT_THAT(error(), HasSubstr("moody"));
  EXPECT_EQ(taken(), 0U);
  drop("moody.so", content_of(fixture("moody_a")));
  ASSERT_TRUE(until([](const config::Config& config) { return config.node.balancer == "moody"; }));
  EXPECT_TRUE(no_error());
}

TEST_F(FollowerTest, PluginsAreFollowedAlsoBesideARefusedConfiguration) {
  save("gearbox.toml", "nonsense = 1\n");
  EXPECT_NE(error(), "");
  drop("moody.so", content_of(fixture("moody_a")));
  std::unique_lock held(mutex_);
  EXPECT_TRUE(
      changed_.wait_for(held, seconds(20), [&] { return table_ && table_->edition("balancer", "moody") != 0; }));
}

TEST_F(FollowerTest, OptionsOfAPluginThatDoNotFitRefuseTheConfiguration) {
  drop("moody.so", content_of(fixture("moody_a")));
  {
    std::unique_lock held(mutex_);
    ASSERT_TRUE(
        changed_.wait_for(held, seconds(20), [&] { return table_ && table_->edition("balancer", "moody") != 0; }));
  }
  save("gearbox.toml", main_with(77, "[plugins.moody]\nlimit = 1000\n"));
  EXPECT_THAT(error(), HasSubstr("plugins.moody.limit"));
  EXPECT_EQ(taken(), 0U);
  save("gearbox.toml", main_with(78, "[plugins.moody]\nlimit = 2\n"));
  EXPECT_TRUE(until_requests(78));
}

TEST_F(FollowerTest, EndsWhileItsStrandIsBusy) {
  std::promise<void> entered;
  std::promise<void> release;
  boost::asio::post(io_, [&] {
    entered.set_value();
    release.get_future().wait();
  });
  entered.get_future().wait();
  save("gearbox.toml", main_with(100));
  follower_->hurry();
  // It may or may not wait for the strand by now; either way its end must not.
  follower_.reset();
  release.set_value();
}

}  // namespace
}  // namespace gearbox::live
