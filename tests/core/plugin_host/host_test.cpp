#include <gmock/gmock.h>
#include <sys/stat.h>

#include "fixture_files.hpp"
#include "plugin_host/plugin_host.hpp"
#include "support/temp_dir.hpp"

namespace gearbox::plugin_host {
namespace {

using ::testing::HasSubstr;

class Host : public ::testing::Test {
 protected:
  void SetUp() override {
    paths_ = {temp_.path() / "shipped", temp_.path() / "drop", temp_.path() / "copies", GEARBOX_CHECKER, {}};
    fs::create_directories(paths_.shipped);
    fs::create_directories(paths_.dropped);
    fs::permissions(paths_.dropped, fs::perms(0755));
  }
  void drop(const std::string& name, const std::string& content) { write_file(paths_.dropped / name, content); }
  void drop_moody(const std::string& build) { drop("moody.so", content_of(fixture("moody_" + build))); }
  std::unique_ptr<PluginHost> open() {
    auto host = PluginHost::open(paths_, config_);
    EXPECT_TRUE(host) << host.error().detail;
    return host ? std::move(host).value() : nullptr;
  }
  static std::uint32_t pick_of_two(plugin::Balancer& balancer) {
    const plugin::CandidateView candidates[] = {{plugin::CandidateId{1}, 0, 0, 1, microseconds{0}},
                                                {plugin::CandidateId{2}, 0, 0, 1, microseconds{0}}};
    const plugin::RequestView request{"t", "m", 0, 0, 0, 0};
    const auto picked = balancer.pick(request, candidates, Instant{});
    return picked ? static_cast<std::uint32_t>(picked.value()) : 0;
  }
  gearbox::testing::TempDir temp_;
  HostPaths paths_;
  config::PluginsConfig config_;
};

TEST_F(Host, LoadsTheDroppedPluginAndItWorks) {
  drop_moody("a");
  const auto host = open();
  ASSERT_NE(host, nullptr);
  const auto list = host->list();
  ASSERT_EQ(list.size(), 1U);
  EXPECT_EQ(list[0].state, "loaded");
  EXPECT_EQ(list[0].version, "1.0-a");
  EXPECT_EQ(list[0].checksum.size(), 64U);
  EXPECT_FALSE(list[0].shipped);
  const auto balancer = host->balancer("moody");
  ASSERT_TRUE(balancer) << balancer.error().detail;
  EXPECT_EQ(pick_of_two(*balancer.value()), 1U);
}

TEST_F(Host, TheDropFolderWinsByName) {
  write_file(paths_.shipped / "moody.so", content_of(fixture("moody_a")));
  drop_moody("b");
  const auto host = open();
  ASSERT_NE(host, nullptr);
  ASSERT_EQ(host->list().size(), 2U);
  EXPECT_EQ(host->list()[0].version, "1.0-b");
  EXPECT_EQ(host->list()[1].state, "shadowed");
  EXPECT_EQ(pick_of_two(*host->balancer("moody").value()), 2U);
}

TEST_F(Host, LoadsWhatIsShippedWithItsOptions) {
  paths_.shipped = GEARBOX_SHIPPED;
  config_.options["least_loaded"]["queue_limit"] = std::int64_t{1};
  const auto host = open();
  ASSERT_NE(host, nullptr);
  EXPECT_TRUE(host->balancer("round_robin"));
  EXPECT_TRUE(host->transport_for("tcp://127.0.0.1:1"));
  const auto balancer = host->balancer("least_loaded");
  ASSERT_TRUE(balancer) << balancer.error().detail;
  const plugin::CandidateView full[] = {{plugin::CandidateId{1}, 1, 1, 1, microseconds{0}}};
  const plugin::RequestView request{"t", "m", 0, 0, 0, 0};
  EXPECT_EQ(balancer.value()->pick(request, full, Instant{}).error().code, Errc::overloaded);
}

TEST_F(Host, ABadFileIsListedWithItsReasonAndTheOthersServe) {
  drop_moody("a");
  const std::string good = content_of(fixture("moody_a"));
  drop("empty.so", "");
  drop("text.so", "not a library\n");
  drop("header.so", good.substr(0, 64));
  drop("half.so", good.substr(0, good.size() / 2));
  drop("minus1.so", good.substr(0, good.size() - 1));
  drop("aborts.so", content_of(fixture("constructor_aborts")));
  const auto host = open();
  ASSERT_NE(host, nullptr);
  std::size_t refused = 0;
  for (const PluginInfo& info : host->list()) {
    if (info.state != "refused") continue;
    ++refused;
    EXPECT_NE(info.reason, "") << info.file;
  }
  EXPECT_EQ(refused, 6U);
  EXPECT_EQ(pick_of_two(*host->balancer("moody").value()), 1U);
}

TEST_F(Host, IgnoresTemporaryAndEditorsFiles) {
  const std::string good = content_of(fixture("moody_a"));
  for (const char* name :
       {"moody.so~", ".moody.so.swp", ".moody.so", "moody.so.part", "4913", "moody.so.tmp", "#moody.so#", "README"})
    drop(name, good);
  const auto host = open();
  ASSERT_NE(host, nullptr);
  EXPECT_TRUE(host->list().empty());
}

TEST_F(Host, RefusesOddThingsWithoutWaitingForThem) {
  fs::create_symlink("/dev/zero", paths_.dropped / "zero.so");
  fs::create_symlink("/nonexistent", paths_.dropped / "dangling.so");
  ASSERT_EQ(::mkfifo((paths_.dropped / "fifo.so").c_str(), 0600), 0);
  fs::create_directory(paths_.dropped / "dir.so");
  const auto host = open();
  ASSERT_NE(host, nullptr);
  ASSERT_EQ(host->list().size(), 4U);
  for (const PluginInfo& info : host->list()) EXPECT_EQ(info.state, "refused") << info.file;
}

TEST_F(Host, RefusesAFolderThatOthersMayWriteTo) {
  fs::permissions(paths_.dropped, fs::perms(0777));
  const auto host = PluginHost::open(paths_, config_);
  ASSERT_FALSE(host);
  EXPECT_EQ(host.error().code, Errc::bad_plugin);
  EXPECT_THAT(host.error().detail, HasSubstr("others may write to it"));
}

TEST_F(Host, RefusesAFileThatOthersMayWriteTo) {
  drop_moody("a");
  fs::permissions(paths_.dropped / "moody.so", fs::perms(0775));
  const auto host = open();
  ASSERT_NE(host, nullptr);
  EXPECT_THAT(host->list().at(0).reason, HasSubstr("others may write to it"));
}

TEST_F(Host, RefusesAFolderOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "NOT RUN: only root may give a folder away";
  ASSERT_EQ(::chown(paths_.dropped.c_str(), 12345, 0), 0);
  EXPECT_THAT(PluginHost::open(paths_, config_).error().detail, HasSubstr("belongs to user 12345"));
}

TEST_F(Host, MissingFoldersAreEmptyOnes) {
  paths_.shipped = temp_.path() / "none";
  paths_.dropped = temp_.path() / "none either";
  const auto host = open();
  ASSERT_NE(host, nullptr);
  EXPECT_TRUE(host->list().empty());
}

TEST_F(Host, SaysWhatThereIsWhenANameIsUnknown) {
  drop_moody("a");
  drop("text.so", "no library");
  const auto host = open();
  ASSERT_NE(host, nullptr);
  const auto balancer = host->balancer("mody");
  ASSERT_FALSE(balancer);
  EXPECT_EQ(balancer.error().code, Errc::bad_plugin);
  EXPECT_THAT(balancer.error().detail, HasSubstr("no balancer is called 'mody'; there is moody"));
  EXPECT_THAT(balancer.error().detail, HasSubstr("text.so was refused: is no library"));
  EXPECT_FALSE(host->codec("moody"));
  EXPECT_EQ(host->transport_for("carrier-pigeon://x").error().code, Errc::bad_plugin);
  EXPECT_EQ(host->transport_for("x").error().code, Errc::bad_input);
}

TEST_F(Host, RunningCodeIsNotTouchedWhenTheFileIsOverwrittenOrTruncated) {
  drop_moody("a");
  const auto host = open();
  ASSERT_NE(host, nullptr);
  const auto balancer = host->balancer("moody");
  ASSERT_TRUE(balancer);
  drop("moody.so", "");  // same inode, now empty
  EXPECT_EQ(pick_of_two(*balancer.value()), 1U);
  EXPECT_TRUE(host->balancer("moody")) << "new instances still come from the private copy";
}

TEST_F(Host, AnInstanceOutlivesItsHost) {
  drop_moody("a");
  Instance<plugin::Balancer> balancer;
  {
    const auto host = open();
    ASSERT_NE(host, nullptr);
    balancer = host->balancer("moody").value();
  }
  EXPECT_EQ(pick_of_two(*balancer), 1U);
}

TEST_F(Host, ALibraryIsUnloadedWithItsLastInstance) {
  drop_moody("a");
  const auto mapped = [&] { return content_of("/proc/self/maps").find(paths_.copies.string()) != std::string::npos; };
  {
    const auto host = open();
    ASSERT_NE(host, nullptr);
    EXPECT_TRUE(mapped());
  }
  EXPECT_FALSE(mapped());
}

TEST_F(Host, TwoBuildsOfOneNameRunSideBySide) {
  drop_moody("a");
  const auto old_host = open();
  ASSERT_NE(old_host, nullptr);
  const auto old_one = old_host->balancer("moody").value();
  drop_moody("b");
  const auto new_host = open();
  ASSERT_NE(new_host, nullptr);
  const auto new_one = new_host->balancer("moody").value();
  EXPECT_EQ(pick_of_two(*old_one), 1U);
  EXPECT_EQ(pick_of_two(*new_one), 2U);
}

TEST_F(Host, AThrowOrAFalseAnswerIsAnErrorAndCounted) {
  drop_moody("a");
  config_.options["moody"]["mood"] = std::string("mood:thrw");
  auto host = open();
  ASSERT_NE(host, nullptr);
  const plugin::CandidateView candidates[] = {{plugin::CandidateId{1}, 0, 0, 1, microseconds{0}}};
  const plugin::RequestView request{"t", "m", 0, 0, 0, 0};
  const auto thrown = host->balancer("moody").value()->pick(request, candidates, Instant{});
  ASSERT_FALSE(thrown);
  EXPECT_EQ(thrown.error().code, Errc::plugin_fault);
  EXPECT_EQ(host->list().at(0).faults, 1U);
  config_.options["moody"]["mood"] = std::string("mood:none");
  host = open();
  EXPECT_EQ(host->balancer("moody").value()->pick(request, candidates, Instant{}).error().code, Errc::plugin_fault);
}

TEST_F(Host, AMakeThatThrowsIsAnError) {
  drop_moody("a");
  config_.options["moody"]["mood"] = std::string("mood:make");
  const auto host = open();
  ASSERT_NE(host, nullptr);
  const auto balancer = host->balancer("moody");
  ASSERT_FALSE(balancer);
  EXPECT_EQ(balancer.error().code, Errc::bad_plugin);
  EXPECT_THAT(balancer.error().detail, HasSubstr("threw while it was made: cannot be made"));
}

TEST_F(Host, RefusesOptionsThatThePluginDoesNotDeclare) {
  drop_moody("a");
  config_.options["moody"]["limt"] = std::int64_t{3};
  config_.options["moody"]["limit"] = std::int64_t{10};
  const auto host = PluginHost::open(paths_, config_);
  ASSERT_FALSE(host);
  EXPECT_EQ(host.error().code, Errc::bad_config);
  EXPECT_THAT(host.error().detail,
              HasSubstr("plugins.moody.limt: the plugin has no such option; did you mean 'limit'?"));
  EXPECT_THAT(host.error().detail, HasSubstr("plugins.moody.limit: 10 is out of range (1 to 9)"));
}

TEST_F(Host, RefusesOptionsForAPluginThatIsNotThere) {
  drop_moody("a");
  config_.options["mody"]["limit"] = std::int64_t{3};
  EXPECT_THAT(PluginHost::open(paths_, config_).error().detail,
              HasSubstr("plugins.mody: no plugin is called so; did you mean 'moody'?"));
}

TEST_F(Host, TwoFilesWithOneNameInOneFolderAreAMistake) {
  drop("one.so", content_of(fixture("moody_a")));
  drop("two.so", content_of(fixture("moody_b")));
  const auto host = open();
  ASSERT_NE(host, nullptr);
  ASSERT_EQ(host->list().size(), 2U);
  EXPECT_EQ(host->list()[0].version, "1.0-a");
  EXPECT_THAT(host->list()[1].reason, HasSubstr("one.so is a balancer called 'moody' too"));
}

}  // namespace
}  // namespace gearbox::plugin_host
