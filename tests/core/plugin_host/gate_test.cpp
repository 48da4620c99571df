// plugins.gate: which swaps wait for a replay, and what becomes of them. The replay itself is played by the checker
// (gate_player.hpp), as the cluster's file tells it to.
#include <gmock/gmock.h>

#include <map>

#include "config/config.hpp"
#include "core/plugin_host/fixture_files.hpp"
#include "plugin_host/build_book.hpp"
#include "plugin_host/gate_answer.hpp"
#include "plugin_host/gate_folder.hpp"
#include "plugin_host/plugin_host.hpp"
#include "support/temp_dir.hpp"
#include "watch/watcher.hpp"

namespace gearbox::plugin_host {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// A role with its host.
struct Role {
  HostPaths paths;
  Needs needs;
  std::unique_ptr<PluginHost> host;
  std::unique_ptr<watch::Watcher> watcher;
  std::string refusal;  // of the last look
};

class Gate : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* folder : {"shipped", "drop", "state/run"}) fs::create_directories(temp_.path() / folder);
    fs::permissions(temp_.path() / "drop", fs::perms(0755));
    config_.gate.on = true;
    config_.gate.trace = "make:steady,rate=1";
    config_.gate.cluster = temp_.path() / "cluster.toml";
    config_.gate.models = {temp_.path() / "model.toml"};
    config_.gate.uses = {{"balancer", "moody", "node.balancer"}};
    the_replay_says("passes");
    node_.needs = {{"balancer", "moody", "node.balancer"}};
    open(node_, "node");
  }
  void TearDown() override {
    for (Role* role : {&node_, &central_}) close(*role);
  }

  void close(Role& role) {
    if (role.host) role.host->on_trouble(nullptr);
    role.host.reset();
    role.watcher.reset();
  }
  void open(Role& role, const std::string& name) {
    close(role);
    const fs::path state = temp_.path() / "state";
    role.paths = {temp_.path() / "shipped",
                  temp_.path() / "drop",
                  state / "plugins",
                  GEARBOX_CHECKER,
                  state / "run" / (name + ".calling"),
                  state};
    auto host = PluginHost::open(role.paths, config_, role.needs);
    ASSERT_TRUE(host) << host.error().detail;
    role.host = std::move(host).value();
    auto watcher = watch::Watcher::create([at = role.host.get()] { return at->folders(); });
    ASSERT_TRUE(watcher);
    role.watcher = std::move(watcher).value();
    role.host->on_trouble([at = role.watcher.get()] { at->hurry(); });
  }

  Instant look(Role& role) {
    const auto look = role.host->look(next_ ? *next_ : config_, role.needs, next_.has_value());
    role.refusal = look ? std::string() : look.error().detail;
    if (!look) return Instant::max();
    role.host->use(look.value().table);
    return look.value().look_again;
  }
  template <class Condition>
  bool until(Role& role, Condition condition) {
    const Instant deadline = after(Clock::now(), milliseconds(30'000));
    while (Clock::now() < deadline) {
      const Instant again = look(role);
      if (condition()) return true;
      role.watcher->wait(std::min(again, deadline));
    }
    return false;
  }

  void drop(const std::string& build) {
    const fs::path beside = temp_.path() / "drop/.moody.so";
    write_file(beside, content_of(fixture("moody_" + build)));
    fs::rename(beside, temp_.path() / "drop/moody.so");
  }
  void the_replay_says(const std::string& what) { write_file(config_.gate.cluster, what); }
  static std::string version(const Role& role) {
    const TablePtr table = role.host->table();
    const PluginInfo* info = table->info("balancer", "moody");
    return info == nullptr ? std::string() : info->version;
  }
  static PluginInfo listed(const Role& role, const std::string& state) {
    for (const PluginInfo& info : role.host->list()) {
      if (info.state == state) return info;
    }
    return {};
  }
  bool shows(Role& role, const std::string& wanted) {
    return until(role, [&] { return version(role) == wanted; });
  }
  bool refuses(Role& role) {
    return until(role, [&] { return !listed(role, "refused").reason.empty(); });
  }
  /// Build a serves, and b is dropped.
  void drop_a_then_b() {
    drop("a");
    ASSERT_TRUE(shows(node_, "1.0-a"));
    drop("b");
  }

  gearbox::testing::TempDir temp_;
  config::PluginsConfig config_;
  std::optional<config::PluginsConfig> next_;  // not in force yet
  Role node_, central_;
};

TEST_F(Gate, TheFirstBuildServesAtOnceAndAnotherOneWhenItIsNotWorse) {
  drop_a_then_b();
  ASSERT_TRUE(shows(node_, "1.0-b"));
  const auto book = read_book(node_.paths.copies);
  ASSERT_TRUE(book);
  const Ruling* ruling = book.value().ruling_on("balancer", "moody");
  ASSERT_NE(ruling, nullptr);
  EXPECT_TRUE(ruling->passes);
  EXPECT_EQ(ruling->checksum, listed(node_, "loaded").checksum);
  EXPECT_FALSE(fs::exists(node_.paths.copies / "gate-node")) << "nothing of the replay is left";
}

TEST_F(Gate, WhatIsWorseIsRefusedWithTheWorstFigureAndTheOldOneServesOn) {
  the_replay_says("worse");
  drop_a_then_b();
  ASSERT_TRUE(refuses(node_));
  EXPECT_EQ(version(node_), "1.0-a");
  EXPECT_EQ(listed(node_, "refused").version, "1.0-b");
  EXPECT_EQ(listed(node_, "refused").reason, "gate: worse: p99_s 0.2 -> 3.4 (+1600.0 %; 5 % are tolerated)");
  EXPECT_THAT(listed(node_, "loaded").reason, HasSubstr("the gate has not let 1.0-b"));
}

TEST_F(Gate, ACrashAHangAndNonsenseOfTheReplayAreHeldAgainstTheCandidate) {
  config_.gate.limit = seconds(1);
  const std::map<std::string, std::string> cases = {{"crashes", "while it was replayed: crashed: SIGSEGV"},
                                                    {"hangs", "while it was replayed: no end within 1 s"},
                                                    {"nonsense", "exit code 0 and no result"},
                                                    {"fails", "it picked nobody"}};
  drop("a");
  ASSERT_TRUE(shows(node_, "1.0-a"));
  for (const auto& [what, reason] : cases) {
    the_replay_says(what);
    drop("b");
    ASSERT_TRUE(refuses(node_)) << what;
    EXPECT_THAT(listed(node_, "refused").reason, HasSubstr(reason));
    EXPECT_EQ(version(node_), "1.0-a");
    drop("a");
    ASSERT_TRUE(until(node_, [&] { return listed(node_, "refused").reason.empty(); }));
    std::size_t released = 0;
    ASSERT_TRUE(release(node_.paths.copies, {}, "moody", released));
    EXPECT_EQ(released, 1U);
  }
}

TEST_F(Gate, AReplayOfOtherBytesOrOneThatCannotBeMadeSaysNothing) {
  drop("a");
  ASSERT_TRUE(shows(node_, "1.0-a"));
  for (const auto& [what, reason] : std::map<std::string, std::string>{{"other_bytes", "did not run these builds"},
                                                                       {"no_setting", "cluster.toml:3: no nodes"}}) {
    the_replay_says(what);
    drop("b");
    ASSERT_TRUE(until(node_, [&] { return listed(node_, "waiting").reason.find(reason) != std::string::npos; }))
        << listed(node_, "waiting").reason;
    EXPECT_EQ(version(node_), "1.0-a");
    EXPECT_EQ(listed(node_, "refused").reason, "");
    EXPECT_LT(look(node_), Instant::max()) << "it is tried again";
    drop("a");
    ASSERT_TRUE(until(node_, [&] { return listed(node_, "waiting").reason.empty(); }));
    config_.gate.tolerance_percent += 1;  // another question: the last answer does not hold for it
  }
}

TEST_F(Gate, WithTooLittleTrafficItWaits) {
  config_.gate.trace.clear();
  config_.gate.least_requests = 3;
  write_file(temp_.path() / "state/recorded", "xx");
  drop_a_then_b();
  ASSERT_TRUE(until(node_, [&] {
    return listed(node_, "waiting").reason ==
           "gate: nothing to replay: the node has recorded 2 requests, 3 are needed (plugins.gate_least_requests)";
  })) << listed(node_, "waiting").reason;
  EXPECT_EQ(version(node_), "1.0-a");
  write_file(temp_.path() / "state/recorded", "xxx");
  config_.gate.tolerance_percent = 6;  // asked anew at once, not in half a minute
  EXPECT_TRUE(shows(node_, "1.0-b"));
}

TEST_F(Gate, WithoutAnybodyWhoRecordsItWaits) {
  config_.gate.trace.clear();
  drop_a_then_b();
  ASSERT_TRUE(until(node_, [&] { return listed(node_, "waiting").reason.find("no node runs") != std::string::npos; }));
  EXPECT_EQ(version(node_), "1.0-a");
}

TEST_F(Gate, ARestartDoesNotBringInWhatWasRefused) {
  the_replay_says("worse");
  drop_a_then_b();
  ASSERT_TRUE(refuses(node_));
  the_replay_says("passes");  // it is not asked again
  open(node_, "node");
  EXPECT_EQ(version(node_), "1.0-a");
  look(node_);
  EXPECT_EQ(version(node_), "1.0-a");
  EXPECT_EQ(listed(node_, "refused").version, "1.0-b");
}

TEST_F(Gate, WhatWasDroppedWhileNothingRanIsJudgedToo) {
  drop("a");
  ASSERT_TRUE(shows(node_, "1.0-a"));
  close(node_);
  drop("b");
  open(node_, "node");
  EXPECT_EQ(version(node_), "1.0-a");
  EXPECT_TRUE(shows(node_, "1.0-b"));
}

TEST_F(Gate, WhatIsReleasedIsJudgedAnew) {
  the_replay_says("worse");
  drop_a_then_b();
  ASSERT_TRUE(refuses(node_));
  the_replay_says("passes");
  look(node_);
  EXPECT_EQ(version(node_), "1.0-a");
  std::size_t released = 0;
  ASSERT_TRUE(release(node_.paths.copies, {}, "moody", released));
  EXPECT_EQ(released, 1U);
  EXPECT_TRUE(shows(node_, "1.0-b"));
}

TEST_F(Gate, GoingBackIsASwapLikeAnyOther) {
  drop_a_then_b();
  ASSERT_TRUE(shows(node_, "1.0-b"));
  the_replay_says("worse");
  drop("a");
  ASSERT_TRUE(refuses(node_));
  EXPECT_EQ(version(node_), "1.0-b");
  fs::remove(temp_.path() / "drop/moody.so");
  ASSERT_TRUE(until(node_, [&] { return listed(node_, "refused").reason.empty(); }));
  EXPECT_EQ(version(node_), "1.0-b") << "kept without its file";
}

TEST_F(Gate, ABarGoesBeforeTheGate) {
  drop_a_then_b();
  ASSERT_TRUE(shows(node_, "1.0-b"));
  the_replay_says("worse");
  ASSERT_TRUE(
      bar(node_.paths.copies, Bar{"balancer", "moody", "1.0-b", listed(node_, "loaded").checksum, "crashed", 1}));
  EXPECT_TRUE(shows(node_, "1.0-a")) << "what is barred must go, whatever a replay would say";
}

TEST_F(Gate, WhenTheOneInForceIsBarredARefusedOneDoesNotTakeItsPlace) {
  drop_a_then_b();
  ASSERT_TRUE(shows(node_, "1.0-b"));
  the_replay_says("worse");
  const fs::path beside = temp_.path() / "drop/.moody.so";
  write_file(beside, patched(content_of(fixture("moody_a")), "1.0-a", "1.0-c"));
  fs::rename(beside, temp_.path() / "drop/moody.so");
  ASSERT_TRUE(refuses(node_));
  ASSERT_TRUE(
      bar(node_.paths.copies, Bar{"balancer", "moody", "1.0-b", listed(node_, "loaded").checksum, "crashed", 1}));
  EXPECT_TRUE(shows(node_, "1.0-a"));
  EXPECT_TRUE(refuses(node_));
}

TEST_F(Gate, OneRoleJudgesAndTheOthersFollow) {
  config_.gate.uses.push_back({"balancer", "moody", "central.balancer"});
  central_.needs = {{"balancer", "moody", "central.balancer"}};
  drop("a");
  ASSERT_TRUE(shows(node_, "1.0-a"));
  open(central_, "central");
  ASSERT_EQ(version(central_), "1.0-a");
  drop("b");
  ASSERT_TRUE(until(central_, [&] { return !listed(central_, "waiting").reason.empty(); }));
  EXPECT_THAT(listed(central_, "waiting").reason, HasSubstr("is judged by the role of node.balancer"));
  EXPECT_EQ(version(central_), "1.0-a");
  ASSERT_TRUE(shows(node_, "1.0-b"));
  EXPECT_TRUE(shows(central_, "1.0-b"));
  the_replay_says("worse");
  drop("a");
  ASSERT_TRUE(refuses(node_));
  ASSERT_TRUE(refuses(central_));
  EXPECT_EQ(listed(central_, "refused").reason, listed(node_, "refused").reason);
}

TEST_F(Gate, WhatNobodyUsesIsNotGated) {
  the_replay_says("worse");
  config_.gate.uses.clear();
  node_.needs.clear();
  drop_a_then_b();
  EXPECT_TRUE(shows(node_, "1.0-b"));
}

TEST_F(Gate, IsOffUnlessItIsAskedFor) {
  the_replay_says("worse");
  drop_a_then_b();
  ASSERT_TRUE(refuses(node_));
  config_.gate.on = false;
  EXPECT_TRUE(shows(node_, "1.0-b"));
}

TEST_F(Gate, AConfigurationThatNamesAnotherBalancerWaitsForItToo) {
  const fs::path shipped = temp_.path() / "shipped/least_loaded.so";
  write_file(shipped, content_of(fs::path(GEARBOX_SHIPPED) / "balancer_least_loaded.so"));
  drop("a");
  ASSERT_TRUE(shows(node_, "1.0-a"));
  ASSERT_TRUE(until(node_, [&] { return node_.host->table()->edition("balancer", "least_loaded") != 0; }));
  the_replay_says("worse");
  next_ = config_;
  next_->gate.uses = {{"balancer", "least_loaded", "node.balancer"}};
  node_.needs = {{"balancer", "least_loaded", "node.balancer"}};
  look(node_);
  EXPECT_THAT(node_.refusal, HasSubstr("node.balancer = \"least_loaded\" waits for plugins.gate: is being replayed"));
  ASSERT_TRUE(until(node_, [&] { return node_.refusal.find("is refused by") != std::string::npos; }));
  EXPECT_THAT(node_.refusal, HasSubstr("worse: p99_s"));
  the_replay_says("passes");
  std::size_t released = 0;
  ASSERT_TRUE(release(node_.paths.copies, {}, "least_loaded", released));
  EXPECT_TRUE(until(node_, [&] { return node_.refusal.empty(); })) << node_.refusal;
}

TEST_F(Gate, AConfigurationThatGivesOtherOptionsWaitsForItToo) {
  drop("a");
  ASSERT_TRUE(shows(node_, "1.0-a"));
  the_replay_says("worse");
  next_ = config_;
  next_->options["moody"]["limit"] = std::int64_t{9};
  ASSERT_TRUE(until(node_, [&] { return node_.refusal.find("is refused by") != std::string::npos; }));
  next_.reset();
  look(node_);
  EXPECT_EQ(node_.refusal, "") << "the one in force is as it was";
}

TEST_F(Gate, AHostThatIsClosedEndsTheReplay) {
  the_replay_says("hangs");
  drop_a_then_b();
  ASSERT_TRUE(until(node_, [&] { return !listed(node_, "waiting").reason.empty(); }));
  const Instant before = Clock::now();
  node_.host->interrupt();
  close(node_);
  EXPECT_LT(elapsed(before, Clock::now()), seconds(20)) << "it has 60 s";
}

TEST(GateFolder, WritesAConfigurationThatIsReadBackAsItWas) {
  const gearbox::testing::TempDir temp;
  Swap swap;
  swap.candidate = {
      "gear",
      "mine",
      "1.0",
      std::string(64, 'a'),
      {{"a", std::int64_t{-3}}, {"b", 0.25}, {"c", true}, {"d", std::string("x\"\\\n\x01y")}, {"e", 3.0}}};
  swap.gate.uses = {{"balancer", "round_robin", "node.balancer"}, {"gear", "mine", "gears.policy"}};
  swap.gate.rules.enabled = true;
  swap.gate.rules.dwell = milliseconds(77'000);
  swap.gate.rules.hours = {"22:00-06:00"};
  swap.gate.rules.least_gain = 0.125;
  write_file(temp.path() / "gearbox.toml", gate_config_text(swap, swap.candidate));
  const auto config = config::load(temp.path());
  ASSERT_TRUE(config) << config.error().detail;
  EXPECT_EQ(config.value()->node.balancer, "round_robin");
  EXPECT_EQ(config.value()->gears.policy, "mine");
  EXPECT_EQ(config.value()->gears.dwell, milliseconds(77'000));
  EXPECT_EQ(config.value()->gears.hours, swap.gate.rules.hours);
  EXPECT_EQ(config.value()->gears.least_gain, 0.125);
  EXPECT_EQ(config.value()->plugins.options.at("mine"), swap.candidate.options);
}

TEST(GateAnswer, TellsTheFigureThatIsWorstAndPassesOverNoise) {
  const GateAnswer answer = read_gate_answer(
      "plugins may print\n{\"replays\":\"candidate\"}\n[1]\n"
      "{\"passes\":false,\"requests\":7,\"tolerance_percent\":5,\"figures\":["
      "{\"figure\":\"mean_s\",\"against\":1,\"candidate\":1.5,\"worse\":true},"
      "{\"figure\":\"requests_per_s\",\"against\":10,\"candidate\":1,\"worse\":true},"
      "{\"figure\":\"p50_s\",\"against\":1,\"candidate\":900,\"worse\":false}]}\n");
  EXPECT_TRUE(answer.whole);
  EXPECT_FALSE(answer.passes);
  EXPECT_EQ(answer.requests, 7U);
  EXPECT_EQ(answer.worst, "requests_per_s 10 -> 1 (-90.0 %; 5 % are tolerated)");
  EXPECT_FALSE(read_gate_answer("{\"passes\":true").whole);
}

}  // namespace
}  // namespace gearbox::plugin_host
