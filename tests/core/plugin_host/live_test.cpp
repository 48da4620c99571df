// A host that follows its folders: what is dropped, replaced, spoiled, taken away, barred and released while it runs.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fixture_files.hpp"
#include "gearbox/link/keys.hpp"
#include "plugin_host/build_book.hpp"
#include "plugin_host/manifest.hpp"
#include "plugin_host/plugin_host.hpp"
#include "support/temp_dir.hpp"
#include "watch/watcher.hpp"

namespace gearbox::plugin_host {
namespace {

using ::testing::HasSubstr;

class Live : public ::testing::Test {
 protected:
  void SetUp() override {
    paths_ = {temp_.path() / "shipped", temp_.path() / "drop", temp_.path() / "copies", GEARBOX_CHECKER,
              temp_.path() / "calling"};
    fs::create_directories(paths_.shipped);
    fs::create_directories(paths_.dropped);
    fs::permissions(paths_.dropped, fs::perms(0755));
    open();
  }
  void TearDown() override { host_.reset(); }

  void open() {
    host_.reset();
    auto host = PluginHost::open(paths_, config_, needs_);
    ASSERT_TRUE(host) << host.error().detail;
    host_ = std::move(host).value();
    auto watcher = watch::Watcher::create([this] { return host_->folders(); });
    ASSERT_TRUE(watcher);
    watcher_ = std::move(watcher).value();
  }

  /// One look; what it says is put in force.
  Instant look() {
    const auto look = host_->look(config_, needs_);
    EXPECT_TRUE(look) << look.error().detail;
    if (!look) return Instant::max();
    host_->use(look.value().table);
    return look.value().look_again;
  }
  /// Looks, whenever something stirs, until `condition` holds; false after 20 s.
  template <class Condition>
  bool until(Condition condition) {
    const Instant deadline = after(Clock::now(), milliseconds(20'000));
    while (Clock::now() < deadline) {
      const Instant again = look();
      if (condition()) return true;
      watcher_->wait(std::min(again, deadline));
    }
    return false;
  }

  /// As a user does: beside, then renamed into place.
  void put(const fs::path& folder, const std::string& name, const std::string& content) {
    write_file(folder / ("." + name), content);
    fs::rename(folder / ("." + name), folder / name);
  }
  void drop(const std::string& name, const std::string& content) { put(paths_.dropped, name, content); }
  void drop_moody(const std::string& build) { drop("moody.so", content_of(fixture("moody_" + build))); }
  void ship_moody(const std::string& build) { put(paths_.shipped, "moody.so", content_of(fixture("moody_" + build))); }
  std::string version() const {
    for (const PluginInfo& info : host_->list()) {
      if (info.state == "loaded" && info.name == "moody") return info.version;
    }
    return {};
  }
  PluginInfo listed(const std::string& state) const {
    for (const PluginInfo& info : host_->list()) {
      if (info.state == state) return info;
    }
    return {};
  }
  std::string checksum_of(const std::string& name) const {
    for (const PluginInfo& info : host_->list()) {
      if (info.state == "loaded" && info.name == name) return info.checksum;
    }
    return {};
  }
  bool shows(const std::string& wanted) {
    return until([&] { return version() == wanted; });
  }
  /// A third build: the same code, another checksum.
  static std::string third() { return patched(content_of(fixture("moody_a")), "1.0-a", "1.0-c"); }

  static Outcome<plugin::CandidateId> pick(plugin::Balancer& balancer) {
    const plugin::CandidateView candidates[] = {{plugin::CandidateId{1}, 0, 0, 1, microseconds{0}},
                                                {plugin::CandidateId{2}, 0, 0, 1, microseconds{0}}};
    const plugin::RequestView request{"t", "m", 0, 0, 0, 0};
    return balancer.pick(request, candidates, Instant{});
  }
  std::uint32_t picked() const {
    const auto balancer = host_->balancer("moody");
    if (!balancer) return 0;
    const auto id = pick(*balancer.value());
    return id ? static_cast<std::uint32_t>(id.value()) : 0;
  }
  bool mapped(const std::string& checksum) const {
    return content_of("/proc/self/maps").find(checksum) != std::string::npos;
  }

  gearbox::testing::TempDir temp_;
  HostPaths paths_;
  config::PluginsConfig config_;
  Needs needs_;
  std::unique_ptr<PluginHost> host_;
  std::unique_ptr<watch::Watcher> watcher_;
};

TEST_F(Live, WhatIsDroppedIntoARunningHostServes) {
  EXPECT_EQ(picked(), 0U);
  drop_moody("a");
  ASSERT_TRUE(shows("1.0-a"));
  EXPECT_EQ(picked(), 1U);
}

TEST_F(Live, TheSameNameAgainIsAnUpgradeAndTheOldLibraryCloses) {
  drop_moody("a");
  ASSERT_TRUE(shows("1.0-a"));
  const std::string old = listed("loaded").checksum;
  auto running = host_->balancer("moody").value();
  drop_moody("b");
  ASSERT_TRUE(shows("1.0-b"));
  EXPECT_EQ(picked(), 2U);
  EXPECT_EQ(static_cast<std::uint32_t>(pick(*running).value()), 1U) << "what runs ends with the code it began with";
  EXPECT_EQ(listed("retiring").checksum, old);
  running.reset();
  EXPECT_FALSE(mapped(old));
  EXPECT_EQ(listed("retiring").checksum, "");
}

TEST_F(Live, GoingBackToTheEarlierBuildWorks) {
  for (const char* build : {"a", "b", "a", "b", "a"}) {
    drop_moody(build);
    ASSERT_TRUE(shows(std::string("1.0-") + build));
    EXPECT_EQ(picked(), build[0] == 'a' ? 1U : 2U);
  }
}

TEST_F(Live, UnchangedContentCausesNothing) {
  drop_moody("a");
  ASSERT_TRUE(shows("1.0-a"));
  const std::uint64_t edition = host_->table()->edition("balancer", "moody");
  drop_moody("a");  // another inode, other times
  drop("other.so", content_of(fixture("no_entry")));
  ASSERT_TRUE(until([&] { return !listed("refused").name.empty() || !listed("refused").reason.empty(); }));
  ASSERT_TRUE(until([&] { return look() == Instant::max(); }));
  EXPECT_EQ(host_->table()->edition("balancer", "moody"), edition);
}

TEST_F(Live, AnOlderTimeStampIsSeen) {
  drop_moody("a");
  ASSERT_TRUE(shows("1.0-a"));
  write_file(paths_.dropped / ".new", content_of(fixture("moody_b")));
  const timespec past[2] = {{1'000'000, 0}, {1'000'000, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, (paths_.dropped / ".new").c_str(), past, 0), 0);
  fs::rename(paths_.dropped / ".new", paths_.dropped / "moody.so");
  EXPECT_TRUE(shows("1.0-b"));
}

TEST_F(Live, ASymbolicLinkIsFollowedAlsoWhenItIsSwapped) {
  const fs::path builds = temp_.path() / "builds";
  fs::create_directories(builds);
  write_file(builds / "a.so", content_of(fixture("moody_a")));
  write_file(builds / "b.so", content_of(fixture("moody_b")));
  fs::create_symlink(builds / "a.so", paths_.dropped / "moody.so");
  ASSERT_TRUE(shows("1.0-a"));
  fs::create_symlink(builds / "b.so", paths_.dropped / ".next");
  fs::rename(paths_.dropped / ".next", paths_.dropped / "moody.so");
  EXPECT_TRUE(shows("1.0-b"));
}

TEST_F(Live, ALinkIntoAFolderThatOthersMayWriteToIsRefused) {
  const fs::path builds = temp_.path() / "builds";
  fs::create_directories(builds);
  write_file(builds / "a.so", content_of(fixture("moody_a")));
  fs::permissions(builds, fs::perms(0777));
  fs::create_symlink(builds / "a.so", paths_.dropped / "moody.so");
  ASSERT_TRUE(until([&] { return !listed("refused").reason.empty(); }));
  EXPECT_THAT(listed("refused").reason, HasSubstr("others may write to it"));
}

TEST_F(Live, ABarredBalancerWithoutAnotherBuildIsStoodInFor) {
  put(paths_.shipped, "least_loaded.so", content_of(fs::path(GEARBOX_SHIPPED) / "balancer_least_loaded.so"));
  drop_moody("a");
  ASSERT_TRUE(shows("1.0-a"));
  EXPECT_EQ(host_->table()->balancer_or_stand_in("moody"), "moody");
  EXPECT_EQ(host_->table()->balancer_or_stand_in("mody"), "mody") << "a wrong name stays a fault";
  ASSERT_TRUE(bar(paths_.copies, Bar{"balancer", "moody", "1.0-a", checksum_of("moody"), "crashed node", 1}));
  open();
  EXPECT_EQ(host_->table()->balancer_or_stand_in("moody"), "least_loaded");
}

TEST_F(Live, TheOnlyTransportServesAlthoughItIsBarred) {
  put(paths_.shipped, "tcp.so", content_of(fs::path(GEARBOX_SHIPPED) / "transport_tcp.so"));
  ASSERT_TRUE(until([&] { return !checksum_of("tcp").empty(); }));
  ASSERT_TRUE(bar(paths_.copies, Bar{"transport", "tcp", "1.0", checksum_of("tcp"), "crashed node", 1}));
  needs_.push_back({"transport", "tcp://127.0.0.1:0", "node.listen"});
  open();
  EXPECT_TRUE(host_->transport_for("tcp://127.0.0.1:0"));
  EXPECT_THAT(listed("loaded").reason, HasSubstr("although it is barred"));
}

TEST_F(Live, AFileThatIsStillBeingWrittenWaits) {
  const std::string content = content_of(fixture("moody_a"));
  const fs::path file = paths_.dropped / "moody.so";
  const int writer = ::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
  ASSERT_GE(writer, 0);
  ASSERT_EQ(::write(writer, content.data(), content.size()), static_cast<ssize_t>(content.size()));  // whole already
  drop("other.so", content_of(fixture("no_entry")));
  ASSERT_TRUE(until([&] { return !listed("refused").reason.empty(); }));
  EXPECT_EQ(version(), "") << "whoever has it open may write more";
  EXPECT_EQ(host_->list().size(), 1U);
  ::close(writer);
  EXPECT_TRUE(shows("1.0-a"));
}

TEST_F(Live, ABadFileLeavesTheRunningBuildInPlaceAndSaysWhy) {
  drop_moody("a");
  ASSERT_TRUE(shows("1.0-a"));
  const std::string good = content_of(fixture("moody_a"));
  for (const std::string& bad :
       {std::string(), std::string("not a library"), good.substr(0, good.size() / 2), good.substr(0, good.size() - 1),
        content_of(fixture("constructor_aborts")), content_of(fixture("no_entry"))}) {
    drop("moody.so", bad);
    ASSERT_TRUE(until([&] { return !listed("refused").reason.empty(); }));
    EXPECT_EQ(version(), "1.0-a");
    EXPECT_EQ(picked(), 1U);
    EXPECT_THAT(listed("loaded").reason, HasSubstr("the file there now is refused"));
    drop_moody("a");
    ASSERT_TRUE(until([&] { return listed("refused").reason.empty(); }));
  }
  drop_moody("b");
  EXPECT_TRUE(shows("1.0-b"));
}

TEST_F(Live, WhatIsNoFileIsListedAsLongAsItIsThere) {
  fs::create_directory(paths_.dropped / "dir.so");
  ASSERT_TRUE(until([&] { return !listed("refused").reason.empty(); }));
  fs::remove(paths_.dropped / "dir.so");
  EXPECT_TRUE(until([&] { return host_->list().empty(); }));
}

TEST_F(Live, DeletionFallsBackToWhatIsShipped) {
  ship_moody("a");
  ASSERT_TRUE(shows("1.0-a"));
  drop_moody("b");
  ASSERT_TRUE(shows("1.0-b"));
  fs::remove(paths_.dropped / "moody.so");
  EXPECT_TRUE(shows("1.0-a"));
}

TEST_F(Live, WhatNobodyNeedsGoesWithItsFile) {
  drop_moody("a");
  ASSERT_TRUE(shows("1.0-a"));
  const std::string checksum = listed("loaded").checksum;
  fs::remove(paths_.dropped / "moody.so");
  EXPECT_TRUE(shows(""));
  EXPECT_FALSE(mapped(checksum));
}

TEST_F(Live, WhatTheConfigurationNamesStaysWithoutItsFileUntilItIsNamedNoMore) {
  drop_moody("a");
  ASSERT_TRUE(shows("1.0-a"));
  needs_.push_back({"balancer", "moody", "node.balancer"});
  fs::remove(paths_.dropped / "moody.so");
  ASSERT_TRUE(until([&] { return !listed("loaded").reason.empty(); }));
  EXPECT_THAT(listed("loaded").reason, HasSubstr("node.balancer names it"));
  EXPECT_EQ(picked(), 1U);
  open();  // as after a restart
  EXPECT_EQ(picked(), 1U);
  needs_.clear();
  EXPECT_TRUE(shows(""));
}

TEST_F(Live, ABarredBuildGivesWayToTheLastGoodOneAndComesBackWhenReleased) {
  drop("moody.so", third());
  ASSERT_TRUE(shows("1.0-c"));
  drop_moody("a");
  ASSERT_TRUE(shows("1.0-a"));
  drop_moody("b");
  ASSERT_TRUE(shows("1.0-b"));
  const PluginInfo now = listed("loaded");
  ASSERT_TRUE(bar(paths_.copies, Bar{now.kind, now.name, now.version, now.checksum, "rolled back by hand", 1}));
  ASSERT_TRUE(shows("1.0-a"));
  EXPECT_EQ(picked(), 1U);
  EXPECT_THAT(listed("loaded").reason, HasSubstr("put back, because 1.0-b is barred"));
  EXPECT_EQ(listed("barred").checksum, now.checksum);
  EXPECT_EQ(listed("barred").reason, "rolled back by hand");
  open();  // the bar holds at the next start
  EXPECT_EQ(version(), "1.0-a");
  std::size_t released = 0;
  ASSERT_TRUE(release(paths_.copies, "", "moody", released));
  EXPECT_EQ(released, 1U);
  ASSERT_TRUE(shows("1.0-b"));
  EXPECT_EQ(picked(), 2U);
}

TEST_F(Live, ABarredBuildThatIsDroppedAgainIsNotTaken) {
  drop_moody("a");
  ASSERT_TRUE(shows("1.0-a"));
  drop_moody("b");
  ASSERT_TRUE(shows("1.0-b"));
  const PluginInfo now = listed("loaded");
  ASSERT_TRUE(bar(paths_.copies, Bar{now.kind, now.name, now.version, now.checksum, "hung node", 1}));
  ASSERT_TRUE(shows("1.0-a"));
  drop("again.so", content_of(fixture("moody_b")));
  ASSERT_TRUE(until([&] {
    const auto list = host_->list();
    return std::count_if(list.begin(), list.end(), [](const auto& info) { return info.state == "barred"; }) == 2;
  }));
  EXPECT_EQ(version(), "1.0-a");
}

TEST_F(Live, TooManyFaultsBringTheLastGoodBuildBack) {
  config_.fault_limit = 3;
  drop_moody("a");
  ASSERT_TRUE(shows("1.0-a"));
  drop("moody.so", patched(content_of(fixture("moody_b")), "mood:good", "mood:late"));
  ASSERT_TRUE(shows("1.0-b"));
  bool troubled = false;
  host_->on_trouble([&] { troubled = true; });
  const auto failing = host_->balancer("moody").value();
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(pick(*failing)) << "the probe's calls and a few more are good";
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(troubled);
    EXPECT_EQ(pick(*failing).error().code, Errc::plugin_fault);
  }
  EXPECT_TRUE(troubled);
  ASSERT_TRUE(shows("1.0-a"));
  EXPECT_THAT(listed("barred").reason, HasSubstr("failed 3 times within a minute"));
  EXPECT_THAT(listed("barred").reason, HasSubstr("too late"));
}

TEST_F(Live, AFailingBuildWithoutAnotherStays) {
  config_.fault_limit = 2;
  drop("moody.so", patched(content_of(fixture("moody_b")), "mood:good", "mood:late"));
  ASSERT_TRUE(shows("1.0-b"));
  const auto failing = host_->balancer("moody").value();
  for (int i = 0; i < 30; ++i) static_cast<void>(pick(*failing));
  look();
  EXPECT_EQ(version(), "1.0-b");
  EXPECT_GE(listed("loaded").faults, 2U);
  EXPECT_EQ(listed("barred").reason, "");
}

TEST_F(Live, ACallPastItsBudgetIsAFaultAndItsAnswerIsUsed) {
  drop_moody("a");
  ASSERT_TRUE(shows("1.0-a"));
  config_.call_budget = milliseconds(0);  // every call is past it
  look();
  EXPECT_EQ(picked(), 1U);
  EXPECT_EQ(listed("loaded").faults, 1U);
  EXPECT_GE(listed("loaded").calls, 1U);
  EXPECT_GT(listed("loaded").p99.count(), 0);
}

TEST_F(Live, OptionsChangeWithoutAnotherBuild) {
  drop_moody("a");
  ASSERT_TRUE(shows("1.0-a"));
  const std::uint64_t edition = host_->table()->edition("balancer", "moody");
  config_.options["moody"]["limit"] = std::int64_t{3};
  look();
  EXPECT_NE(host_->table()->edition("balancer", "moody"), edition);
  config_.options["moody"]["limit"] = std::int64_t{77};
  const auto refused = host_->look(config_, needs_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::bad_config);
  EXPECT_THAT(refused.error().detail, HasSubstr("plugins.moody.limit"));
}

TEST_F(Live, AFileThatTheConfiguredOptionsDoNotFitIsRefused) {
  drop_moody("a");
  ASSERT_TRUE(shows("1.0-a"));
  config_.options["moody"]["limit"] = std::int64_t{9};
  look();
  drop("moody.so", patched(patched(content_of(fixture("moody_b")), "limit", "lemon"), "mood:good", "mood:good"));
  ASSERT_TRUE(until([&] { return !listed("refused").reason.empty(); }));
  EXPECT_EQ(version(), "1.0-a");
}

TEST_F(Live, OfTwinsTheOneThatServesGoesOn) {
  drop("zz.so", content_of(fixture("moody_a")));
  ASSERT_TRUE(shows("1.0-a"));
  drop("aa.so", content_of(fixture("moody_b")));
  ASSERT_TRUE(until([&] { return !listed("refused").reason.empty(); }));
  EXPECT_THAT(listed("refused").reason, HasSubstr("zz.so is a balancer called 'moody' too"));
  EXPECT_EQ(version(), "1.0-a");
  fs::remove(paths_.dropped / "zz.so");
  EXPECT_TRUE(shows("1.0-b"));
}

TEST_F(Live, TheManifestIsKept) {
  const std::string content = content_of(fixture("moody_a"));
  write_file(paths_.dropped / "moody.toml", "sha256 = \"" + std::string(64, '0') + "\"\n");
  drop_moody("a");
  ASSERT_TRUE(until([&] { return !listed("refused").reason.empty(); }));
  EXPECT_THAT(listed("refused").reason, HasSubstr("sha256"));
  write_file(paths_.dropped / "moody.toml", "[options]\nmood = \"mood:none\"\n");
  ASSERT_TRUE(shows("1.0-a"));
  EXPECT_EQ(picked(), 0U) << "its option makes it pick what is not there";
  config_.options["moody"]["mood"] = std::string("mood:good");
  look();
  EXPECT_EQ(picked(), 1U) << "gearbox.toml goes before the manifest";
  write_file(paths_.dropped / "moody.toml", "lowest_api = 99\nhighest_api = 100\n");
  ASSERT_TRUE(until([&] { return !listed("refused").reason.empty(); }));
  EXPECT_EQ(picked(), 1U);
}

TEST_F(Live, WithTrustedKeysASignatureIsNeeded) {
  const auto keys = link::make_signing_keys();
  const auto stranger = link::make_signing_keys();
  config_.trusted_keys = {keys.public_key};
  drop_moody("a");
  ASSERT_TRUE(until([&] { return !listed("refused").reason.empty(); }));
  EXPECT_EQ(version(), "");
  ASSERT_TRUE(sign_plugin(paths_.dropped / "moody.so", stranger));
  ASSERT_TRUE(until([&] { return listed("refused").reason.find("sign") != std::string::npos; }));
  EXPECT_EQ(version(), "");
  ASSERT_TRUE(sign_plugin(paths_.dropped / "moody.so", keys));
  EXPECT_TRUE(shows("1.0-a"));
}

TEST_F(Live, WhatIsPutBackMustHaveBeenSignedToo) {
  const auto keys = link::make_signing_keys();
  needs_.push_back({"balancer", "moody", "node.balancer"});
  drop_moody("a");
  ASSERT_TRUE(shows("1.0-a"));
  config_.trusted_keys = {keys.public_key};
  open();
  EXPECT_EQ(version(), "") << "it served unsigned, but that was before";
  ASSERT_TRUE(sign_plugin(paths_.dropped / "moody.so", keys));
  ASSERT_TRUE(shows("1.0-a"));
  fs::remove(paths_.dropped / "moody.so");
  open();
  EXPECT_EQ(version(), "1.0-a") << "kept for node.balancer";
}

/// The second build with an option of another name.
std::string with_other_option() {
  return patched(content_of(fixture("moody_b")), "limit", "lemon");
}

TEST_F(Live, WhatIsPutBackNeedNotKnowTheOptionsOfTheBarredBuild) {
  ship_moody("a");
  ASSERT_TRUE(shows("1.0-a"));
  drop("moody.so", with_other_option());
  ASSERT_TRUE(shows("1.0-b"));
  config_.options["moody"]["lemon"] = std::int64_t{3};
  look();
  const PluginInfo now = listed("loaded");
  ASSERT_TRUE(bar(paths_.copies, Bar{now.kind, now.name, now.version, now.checksum, "crashed node", 1}));
  open();  // a role that does not come up after a crash would be worse than one without an option
  EXPECT_EQ(version(), "1.0-a");
  EXPECT_EQ(picked(), 1U);
}

TEST_F(Live, ABarIsFollowedAlsoWhenTheFileIsGoneOrSpoilt) {
  needs_.push_back({"balancer", "moody", "node.balancer"});
  for (const bool gone : {true, false}) {
    drop_moody("a");
    ASSERT_TRUE(shows("1.0-a"));
    drop_moody("b");
    ASSERT_TRUE(shows("1.0-b"));
    const PluginInfo now = listed("loaded");
    if (gone) {
      fs::remove(paths_.dropped / "moody.so");
    } else {
      drop("moody.so", "no library");
    }
    ASSERT_TRUE(until([&] { return !listed("loaded").reason.empty(); }));
    EXPECT_EQ(version(), "1.0-b");
    ASSERT_TRUE(bar(paths_.copies, Bar{now.kind, now.name, now.version, now.checksum, "rolled back by hand", 1}));
    EXPECT_TRUE(shows("1.0-a"));
    std::size_t released = 0;
    ASSERT_TRUE(release(paths_.copies, "", "moody", released));
  }
}

TEST_F(Live, TheTableOfADeletedPluginStopsNobody) {
  drop_moody("a");
  ASSERT_TRUE(shows("1.0-a"));
  config_.options["moody"]["limit"] = std::int64_t{3};
  look();
  fs::remove(paths_.dropped / "moody.so");
  ASSERT_TRUE(shows(""));
  drop("other.so", content_of(fixture("moody_b")));  // still followed
  ASSERT_TRUE(shows("1.0-b"));
  fs::remove(paths_.dropped / "other.so");
  ASSERT_TRUE(shows(""));
  open();
}

TEST_F(Live, OptionsInAManifestThatDoNotFitRefuseTheFileAlsoAtAStart) {
  write_file(paths_.dropped / "moody.toml", "[options]\nlimt = 3\n");
  drop_moody("a");
  ASSERT_TRUE(until([&] { return !listed("refused").reason.empty(); }));
  open();
  EXPECT_EQ(version(), "");
  EXPECT_THAT(listed("refused").reason, HasSubstr("manifest"));
}

TEST_F(Live, ANewBuildAndTheOptionsItNeedsMayComeInAnyOrder) {
  drop_moody("a");
  ASSERT_TRUE(shows("1.0-a"));
  config_.options["moody"]["limit"] = std::int64_t{3};
  look();
  drop("moody.so", with_other_option());
  ASSERT_TRUE(until([&] { return !listed("refused").reason.empty(); }));
  EXPECT_THAT(listed("refused").reason, HasSubstr("options do not fit"));
  config_.options["moody"].clear();
  config_.options["moody"]["lemon"] = std::int64_t{3};
  look();
  EXPECT_EQ(version(), "1.0-b");
}

TEST_F(Live, AnUntrustedFolderHoldsOffNoBar) {
  drop_moody("a");
  ASSERT_TRUE(shows("1.0-a"));
  drop_moody("b");
  ASSERT_TRUE(shows("1.0-b"));
  fs::permissions(paths_.dropped, fs::perms(0777));
  const PluginInfo now = listed("loaded");
  ASSERT_TRUE(bar(paths_.copies, Bar{now.kind, now.name, now.version, now.checksum, "rolled back by hand", 1}));
  EXPECT_TRUE(shows("1.0-a"));
  fs::permissions(paths_.dropped, fs::perms(0755));
}

TEST_F(Live, WhatCouldNotBeCheckedIsTriedAgain) {
  const fs::path checker = temp_.path() / "checker";
  paths_.checker = checker;
  open();
  drop_moody("a");
  ASSERT_TRUE(until([&] { return !listed("refused").reason.empty(); }));
  EXPECT_THAT(listed("refused").reason, HasSubstr("could not be checked"));
  fs::create_symlink(GEARBOX_CHECKER, checker);
  EXPECT_TRUE(shows("1.0-a"));
}

TEST_F(Live, ManySwapsLeaveNothingBehind) {
  const auto count = [](const char* folder) {
    return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
  };
  drop_moody("a");
  ASSERT_TRUE(shows("1.0-a"));
  drop_moody("b");
  ASSERT_TRUE(shows("1.0-b"));
  const auto descriptors = count("/proc/self/fd");
  for (int i = 0; i < 10; ++i) {
    drop_moody(i % 2 == 0 ? "a" : "b");
    ASSERT_TRUE(shows(i % 2 == 0 ? "1.0-a" : "1.0-b"));
  }
  EXPECT_EQ(count("/proc/self/fd"), descriptors);
  std::size_t libraries = 0;
  const std::string maps = content_of("/proc/self/maps");
  for (const PluginInfo& info : host_->list()) libraries += maps.find(info.checksum) != std::string::npos;
  EXPECT_EQ(libraries, 1U);
  EXPECT_EQ(host_->list().size(), 1U);
}

}  // namespace
}  // namespace gearbox::plugin_host
