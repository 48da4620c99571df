#include <gmock/gmock.h>

#include "config/compare.hpp"
#include "config/hours.hpp"
#include "config/pools.hpp"
#include "config_folder.hpp"

namespace gearbox::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Gears : public ConfigFolder {
 protected:
  GearsConfig read(const std::string& text) {
    write("gearbox.toml", std::string(kMain) + "\n[gears]\n" + text);
    const auto loaded = load(folder());
    EXPECT_TRUE(loaded) << loaded.error().detail;
    return loaded ? loaded.value()->gears : GearsConfig();
  }
  std::string fault(const std::string& text) {
    write("gearbox.toml", std::string(kMain) + "\n[gears]\n" + text);
    const auto loaded = load(folder());
    return loaded ? "no fault" : loaded.error().detail;
  }
};

TEST_F(Gears, NodesAreNamedOnceAndInNoOrder) {
  const GearsConfig gears = read("hosts = [\"south\", \"north\", \"south\"]\nleaders = [\"north\"]\n");
  EXPECT_THAT(gears.hosts, ElementsAre("north", "south"));
  EXPECT_THAT(gears.leaders, ElementsAre("north"));
  EXPECT_TRUE(read("").leaders.empty());
  EXPECT_THAT(fault("hosts = [\"../x\"]\n"), HasSubstr("gears.hosts: '../x' is no node's name"));
  EXPECT_THAT(fault("leaders = [\"\"]\n"), HasSubstr("gears.leaders: '' is no node's name"));
}

TEST_F(Gears, AModeStandsForValuesEachOfWhichCanBeGiven) {
  const GearsConfig normal = read("");
  EXPECT_FALSE(normal.enabled);
  EXPECT_EQ(normal.policy, "cost_model");
  EXPECT_EQ(normal.dwell, milliseconds{90'000});
  const GearsConfig gentle = read("mode = \"gentle\"\nper_hour = 3\n");
  EXPECT_EQ(gentle.dwell, milliseconds{300'000});
  EXPECT_EQ(gentle.at_once, 1U);
  EXPECT_EQ(gentle.per_hour, 3U);
  const GearsConfig aggressive = read("mode = \"aggressive\"\n");
  EXPECT_LT(aggressive.dwell, normal.dwell);
  EXPECT_LT(aggressive.least_gain, normal.least_gain);
}

TEST_F(Gears, ReadsEveryKey) {
  const GearsConfig gears = read(
      "enabled = true\npolicy = \"flexpipe\"\ndry_run = true\ninterval_ms = 500\ndwell_ms = 7000\nurgent_dwell_ms = "
      "6000\n"
      "reverse_cooldown_ms = 5000\nleast_gain = 0.5\nat_once = 3\nper_hour = 4\nhours = [\"22:00-06:00\"]\n"
      "card = \"a100-80g\"\n[[gears.pool]]\nname = \"small\"\nmodels = [\"one\"]\ngears = [3, 1, 1]\n"
      "[[gears.pool]]\nname = \"rest\"\n");
  EXPECT_TRUE(gears.enabled);
  EXPECT_TRUE(gears.dry_run);
  EXPECT_EQ(gears.interval, milliseconds{500});
  EXPECT_EQ(gears.dwell, milliseconds{7000});
  EXPECT_EQ(gears.urgent_dwell, milliseconds{6000});
  EXPECT_EQ(gears.reverse_cooldown, milliseconds{5000});
  EXPECT_EQ(gears.least_gain, 0.5);
  EXPECT_EQ(gears.at_once, 3U);
  EXPECT_EQ(gears.per_hour, 4U);
  EXPECT_THAT(gears.hours, ElementsAre("22:00-06:00"));
  EXPECT_EQ(gears.card, "a100-80g");
  ASSERT_EQ(gears.pools.size(), 2U);
  EXPECT_THAT(gears.pools[0].gears, ElementsAre(1U, 3U));
  EXPECT_TRUE(gears.pools[1].models.empty());
}

TEST_F(Gears, WhoLeadsIsAskedOfCentralOrOfAPlugin) {
  EXPECT_EQ(read("").coordination, "central");
  EXPECT_EQ(read("").lease, "scheduler");
  const GearsConfig gears = read("coordination = \"etcd\"\nlease = \"south\"\n");
  EXPECT_EQ(gears.coordination, "etcd");
  EXPECT_EQ(gears.lease, "south");
  EXPECT_THAT(fault("coordination = \"a b\"\n"), HasSubstr("gears.coordination"));
}

TEST_F(Gears, APoolMayNameGroups) {
  const GearsConfig gears = read("[[gears.pool]]\nname = \"vip\"\ngroups = [\"story-1\"]\n");
  EXPECT_THAT(gears.pools.at(0).groups, ElementsAre("story-1"));
  EXPECT_THAT(fault("[[gears.pool]]\nname = \"a\"\ngroups = [\"g\"]\n[[gears.pool]]\nname = \"b\"\ngroups = [\"g\"]\n"),
              HasSubstr("'g' belongs to pool 'a'"));
}

TEST_F(Gears, LinksToOtherHosts) {
  EXPECT_TRUE(read("").links.peers.empty());
  const LinksConfig links =
      read(
          "[gears.links]\nlisten = \"10.0.0.5:7611\"\npeers = [\"gpu-2:7611\", \"[::1]:7\", \"gpu-2:7611\"]\n"
          "ping_ms = 500\nburst_every_ms = 5000\nburst_kb = 64\n")
          .links;
  EXPECT_EQ(links.listen, "10.0.0.5:7611");
  EXPECT_THAT(links.peers, ElementsAre("[::1]:7", "gpu-2:7611"));
  EXPECT_EQ(links.ping, milliseconds{500});
  EXPECT_EQ(links.burst_every, milliseconds{5000});
  EXPECT_EQ(links.burst_bytes, 65536U);
  for (const char* bad :
       {"7611", ":7611", "host", "host:", "host:0", "host:70000", "::1:7611", "ho st:1", "[]:1", "host:1x"})
    EXPECT_THAT(fault("[gears.links]\npeers = [\"" + std::string(bad) + "\"]\n"), HasSubstr("gears.links.peers"))
        << bad;
  EXPECT_EQ(read("[gears.links]\nlisten = \"0.0.0.0:0\"\n").links.listen, "0.0.0.0:0");
  EXPECT_THAT(fault("[gears.links]\nburst_kb = 1\n"), HasSubstr("burst_kb"));
}

TEST_F(Gears, FaultsAreToldWithTheirPlace) {
  EXPECT_THAT(fault("mode = \"wild\"\n"), HasSubstr("gears.mode: expected one of gentle, normal, aggressive"));
  EXPECT_THAT(fault("dwell_ms = 1000\n"), HasSubstr("urgent_dwell_ms"));
  EXPECT_THAT(fault("hours = [\"22-6\"]\n"), HasSubstr("'22-6' is no span of hours"));
  EXPECT_THAT(fault("card = \"abacus\"\n"), HasSubstr("gears.card"));
  EXPECT_THAT(fault("dwel_ms = 5\n"), HasSubstr("dwell_ms"));
  EXPECT_THAT(fault("[[gears.pool]]\nname = \"a\"\nmodels = [\"m\"]\n[[gears.pool]]\nname = \"a\"\n"),
              HasSubstr("'a' already"));
  EXPECT_THAT(fault("[[gears.pool]]\nname = \"a\"\nmodels = [\"m\"]\n[[gears.pool]]\nname = \"b\"\nmodels = [\"m\"]\n"),
              HasSubstr("'m' belongs to pool 'a'"));
  EXPECT_THAT(fault("[[gears.pool]]\nname = \"a\"\ngears = [7]\n"), HasSubstr("gears"));
  EXPECT_THAT(fault("[[gears.pool]]\nname = \"a\"\ngears = []\n"), HasSubstr("leave the line out"));
}

TEST_F(Gears, APoolSaysWhoseRequestsItServesFirst) {
  const GearsConfig gears = read(
      "[[gears.pool]]\nname = \"small\"\nleast_kb = 1\nmost_kb = 2\n"
      "[[gears.pool]]\nname = \"vip\"\ntenants = [7, 4294967295]\nlends_percent = 0\n"
      "[[gears.pool]]\nname = \"gears-only\"\nmodels = [\"m\"]\n");
  const auto name = [&](std::uint32_t tenant, std::uint64_t bytes) {
    const PoolConfig* const pool = pool_for(gears, tenant, bytes);
    return pool == nullptr ? std::string() : pool->name;
  };
  EXPECT_EQ(name(1, 1024), "small");
  EXPECT_EQ(name(1, 2048), "small");
  EXPECT_EQ(name(1, 1023), "");
  EXPECT_EQ(name(1, 2049), "");
  EXPECT_EQ(name(7, 2049), "vip");
  EXPECT_EQ(name(7, 2000), "small") << "the first in the file's order";
  EXPECT_EQ(name(0xFFFFFFFF, 1), "vip");
  EXPECT_EQ(gears.pools[0].lends_percent, 50U);
  EXPECT_EQ(gears.pools[1].lends_percent, 0U);
  EXPECT_FALSE(classes_requests(gears.pools[2]));
}

TEST_F(Gears, FaultsOfPoolsAreToldWithTheirPlace) {
  const std::string pool = "[[gears.pool]]\nname = \"vip\"\n";
  EXPECT_THAT(fault(pool + "tenants = []\n"), HasSubstr("leave the line out"));
  EXPECT_THAT(fault(pool + "tenants = [-1]\n"), HasSubstr("tenants"));
  EXPECT_THAT(fault(pool + "least_kb = 5\nmost_kb = 4\n"), HasSubstr("less than least_kb"));
  EXPECT_THAT(fault(pool + "lends_percent = 101\n"), HasSubstr("lends_percent"));
}

TEST_F(Gears, AWorkerIsInAPoolThatThereIs) {
  const std::string pool = "[[gears.pool]]\nname = \"vip\"\ntenants = [7]\n";
  const std::string keeps = pool + "lends_percent = 0\n";
  const std::string another = "[[worker]]\nmodel = \"detect\"\nenv = \"py\"\n";
  const auto fault_of = [&](const std::string& name, const std::string& pools) {
    write_changed("gearbox.toml", std::string(kMain) + "\n[gears]\n" + pools, "\"detect\"\n",
                  "\"detect\"\npool = \"" + name + "\"\n");
    return faults();
  };
  EXPECT_THAT(fault_of("vpi", pool), HasSubstr("there is no [[gears.pool]] called 'vpi'; did you mean 'vip'?"));
  EXPECT_EQ(fault_of("vip", pool), "");
  EXPECT_THAT(fault_of("vip", keeps), HasSubstr("all workers of model 'detect' are in pools that lend nothing"));
  EXPECT_EQ(fault_of("vip", keeps + another), "");
}

TEST_F(Gears, AllButEnabledChangesLive) {
  Config before;
  Config after;
  after.gears.mode = "gentle";
  after.gears.pools.push_back({"a", {"m"}, {1, 2}});
  const auto changes = compare(before, after);
  EXPECT_EQ(changes.size(), 6U);
  for (const Change& change : changes) EXPECT_FALSE(change.needs_restart) << change.key;
  after = before;
  after.gears.enabled = true;
  const auto switched = compare(before, after);
  ASSERT_EQ(switched.size(), 1U);
  EXPECT_TRUE(switched[0].needs_restart);
}

TEST(Hours, AreReadStrictly) {
  EXPECT_EQ(read_hours("22:00-06:30")->until, 390);
  EXPECT_EQ(read_hours("00:00-24:00")->until, 1440);
  for (const char* bad : {"", "24:00-06:00", "22:00-24:01", "22:60-06:00", " 2:00-06:00", "+2:00-06:00", "22:00-06:00 ",
                          "2:00-06:00", "22.00-06:00"})
    EXPECT_FALSE(read_hours(bad)) << bad;
}

}  // namespace
}  // namespace gearbox::config
