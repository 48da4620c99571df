#include "cli/running_config.hpp"

#include <gmock/gmock.h>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/json/serialize.hpp>

#include <future>
#include <thread>

#include "config/facts.hpp"
#include "core/config/config_folder.hpp"
#include "serving/control.hpp"

namespace gearbox::cli {
namespace {

namespace asio = boost::asio;
namespace json = boost::json;
using ::testing::HasSubstr;

constexpr milliseconds kWithin{20'000};

/// Roles that answer as central and node do, on a thread of their own.
class Roles {
 public:
  ~Roles() {
    asio::post(io_, [this] {
      servers_.clear();
      work_.reset();
    });
    thread_.join();
  }
  void start(const std::filesystem::path& socket, serving::ControlHandler handler) {
    std::promise<void> started;
    asio::post(io_, [&] {
      auto server = serving::ControlServer::start(io_.get_executor(), socket, std::move(handler));
      EXPECT_TRUE(server) << server.error().detail;
      if (server) servers_.push_back(std::move(server).value());
      started.set_value();
    });
    started.get_future().wait();
  }

 private:
  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  std::vector<std::unique_ptr<serving::ControlServer>> servers_;
  std::thread thread_{[this] { io_.run(); }};
};

serving::ControlHandler running(config::Snapshot config, std::string error = {}) {
  return [config, error](std::string_view command, const json::object& request) -> Outcome<json::object> {
    if (command != "config") return Error{Errc::not_found, "no such command"};
    json::object facts = config::config_facts(*config, request);
    facts["since_unix_ms"] = 1'000'000;
    facts["error"] = error;
    return facts;
  };
}

class RunningConfigTest : public config::ConfigFolder {
 protected:
  void SetUp() override {
    ConfigFolder::SetUp();
    state_ = config::open_state_dir(state_folder_.path() / "s").value();
  }
  config::Snapshot loaded() { return config::load(folder()).value(); }
  std::vector<RoleDiff> diffs() { return diff_of(*loaded(), ask_roles(state_)); }

  testing::TempDir state_folder_;
  config::StateDir state_;
  Roles roles_;
};

TEST_F(RunningConfigTest, RolesThatHaveTheFolderInForceAgree) {
  roles_.start(state_.central_socket(), running(loaded()));
  roles_.start(state_.node_socket(), running(loaded()));
  EXPECT_TRUE(all_agree(diffs()));
  EXPECT_EQ(text_of(diffs(), 1'034'000), "central: in force for 34 s (digest " + loaded()->digest +
                                             ")\nnode: in force for 34 s (digest " + loaded()->digest + ")\n");
}

TEST_F(RunningConfigTest, WhatDiffersIsNamedKeyByKey) {
  roles_.start(state_.node_socket(), running(loaded()));
  write("gearbox.toml", std::string(config::kMain) + "[node]\nspin_us = 7\nname = \"barn\"\n");
  const std::vector<RoleDiff> found = diffs();
  EXPECT_FALSE(all_agree(found));
  EXPECT_EQ(text_of(found, 0),
            "central: not running\n"
            "node: 2 settings differ (running -> folder)\n"
            "  node.name     node-1 -> barn  (needs a restart)\n"
            "  node.spin_us  20 -> 7  (live)\n");
  const json::object facts = json_of(found);
  EXPECT_EQ(facts.at("central").at("state"), "not running");
  EXPECT_EQ(json::serialize(facts.at("node").at("changes")),
            R"([{"key":"node.name","before":"node-1","after":"barn","needs_restart":true},)"
            R"({"key":"node.spin_us","before":"20","after":"7","needs_restart":false}])");
}

TEST_F(RunningConfigTest, ARefusedChangeIsShownAndIsNoAgreement) {
  roles_.start(state_.node_socket(), running(loaded(), "gearbox.toml:1:1: a: unknown key\ngearbox.toml:2:1: b"));
  EXPECT_FALSE(all_agree(diffs()));
  EXPECT_THAT(text_of(diffs(), 0),
              HasSubstr("\n  refused: gearbox.toml:1:1: a: unknown key\n  refused: gearbox.toml:2:1: b\n"));
}

TEST_F(RunningConfigTest, FilesThatWereNotReadYetAreNoAgreement) {
  roles_.start(state_.node_socket(), running(loaded()));
  write("gearbox.toml", std::string(config::kMain) + "# note\n");
  EXPECT_FALSE(all_agree(diffs()));
  EXPECT_EQ(diffs()[1].state, RoleDiff::State::not_yet);
}

TEST_F(RunningConfigTest, WhereNothingRunsNothingAgrees) {
  EXPECT_FALSE(all_agree(diffs()));
  EXPECT_EQ(text_of(diffs(), 0), "central: not running\nnode: not running\n");
}

TEST_F(RunningConfigTest, ARoleThatKnowsNoSuchCommandIsSaidSo) {
  roles_.start(state_.node_socket(), [](std::string_view, const json::object&) -> Outcome<json::object> {
    return Error{Errc::not_found, "no such command"};
  });
  EXPECT_FALSE(all_agree(diffs()));
  EXPECT_THAT(text_of(diffs(), 0), HasSubstr("node: no answer: not_found: no such command\n"));
}

TEST_F(RunningConfigTest, AnAnswerOfManyPiecesIsReadWhole) {
  auto large = std::make_shared<config::Config>(*loaded());
  for (int i = 0; i < 500; ++i) {
    large->tasks.emplace("task-" + std::to_string(i), large->tasks.at("read-text"));
  }
  roles_.start(state_.node_socket(), running(large));
  const auto told = ask_running_config(state_.node_socket(), kWithin);
  ASSERT_TRUE(told) << told.error().detail;
  EXPECT_TRUE(config::compare(told.value().values, config::values_of(*large)).empty());
  EXPECT_EQ(told.value().digest, large->digest);
}

TEST_F(RunningConfigTest, AReloadBetweenTwoPiecesIsNotMixed) {
  auto first = std::make_shared<config::Config>(*loaded());
  for (int i = 0; i < 500; ++i) first->tasks.emplace("t" + std::to_string(i), first->tasks.at("read-text"));
  auto second = std::make_shared<config::Config>(*first);
  second->digest = "other";
  second->node.spin_us = 9999;
  int asked = 0;
  roles_.start(state_.node_socket(), [=](std::string_view command, const json::object& request) mutable {
    return running(++asked == 1 ? first : second)(command, request);
  });
  const auto told = ask_running_config(state_.node_socket(), kWithin);
  ASSERT_TRUE(told) << told.error().detail;
  EXPECT_EQ(told.value().digest, "other");
  EXPECT_TRUE(config::compare(told.value().values, config::values_of(*second)).empty());
}

TEST_F(RunningConfigTest, PiecesThatNeverEndAreAFault) {
  roles_.start(state_.node_socket(), [](std::string_view, const json::object&) -> Outcome<json::object> {
    return json::object{{"digest", "d"}, {"values", json::object{{"a", "b"}}}, {"next", 1}};
  });
  const auto told = ask_running_config(state_.node_socket(), kWithin);
  ASSERT_FALSE(told);
  EXPECT_EQ(told.error().code, Errc::bad_frame);
}

TEST_F(RunningConfigTest, TheNestedFormHasNumbersAndTruthsAsSuch) {
  write("gearbox.toml", std::string(config::kMain) + "[plugins.x]\nfactor = 0.25\nname = \"12\"\n");
  const json::object facts = nested(config::values_of(*loaded()));
  EXPECT_EQ(facts.at("node").at("limits").at("max_upload_mb"), 64);
  EXPECT_EQ(facts.at("node").at("enabled"), true);
  EXPECT_EQ(facts.at("worker").at("read").at("count"), 2);
  EXPECT_EQ(facts.at("plugins").at("x").at("factor"), 0.25);
  EXPECT_EQ(facts.at("plugins").at("x").at("name"), "12");
  EXPECT_EQ(facts.at("model").at("detect@1").at("output").at("crops"), "list of UINT8 [-1, -1, 3]");
  EXPECT_EQ(facts.at("task").at("read-text").at("step").at("read").at("inputs").at("crop"), "detect.crops");
}

}  // namespace
}  // namespace gearbox::cli
