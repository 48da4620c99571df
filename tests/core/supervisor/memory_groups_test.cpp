// A folder stands for what the kernel shows of cgroup v2: the files are written and read as they are there. That the
// kernel does its part is seen in tests/integration/test_memory_groups.py, where it may be.
#include "supervisor/memory_groups.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include "core/supervisor/scratch.hpp"

namespace gearbox::supervisor {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kLimit = 512ULL << 20;

class MemoryGroupsTest : public ::testing::Test {
 protected:
  MemoryGroupsTest() : root_(scratch_.path("cgroup")), base_(root_ / "system.slice/gearbox.service") {
    fs::create_directories(base_);
    put(base_ / "cgroup.controllers", "cpu memory pids\n");
    put(base_ / "cgroup.subtree_control", "");
    put(base_ / "cgroup.procs", std::to_string(::getpid()) + "\n");
  }
  static void put(const fs::path& file, const std::string& text) { Scratch::write(file, text, false); }
  static std::string get(const fs::path& file) { return Scratch::read(file); }
  /// The kernel's files go with their group; those of an ordinary folder have to be taken out first.
  static void as_the_kernel_does(const fs::path& group) {
    for (const auto& file : fs::directory_iterator(group)) fs::remove(file);
  }
  MemoryGroups groups(const std::string& path = "/system.slice/gearbox.service") {
    return MemoryGroups(GroupPlace{root_, path}, "12345678");
  }
  static bool only_us(int pid) { return pid == ::getpid(); }

  Scratch scratch_;
  fs::path root_;
  fs::path base_;
};

TEST_F(MemoryGroupsTest, WhoIsAloneInItsGroupMovesDownAndLimitsWorkersBeside) {
  MemoryGroups ours = groups();
  ASSERT_TRUE(ours.prepare(only_us));
  EXPECT_EQ(get(base_ / "gearbox-12345678-broker/cgroup.procs"), std::to_string(::getpid()));
  EXPECT_EQ(get(base_ / "cgroup.subtree_control"), "+memory");

  const auto group = ours.make("worker-3", 4711, kLimit);
  ASSERT_TRUE(group) << group.error().detail;
  EXPECT_EQ(group.value(), base_ / "gearbox-12345678-worker-3.4711");
  EXPECT_EQ(get(group.value() / "memory.max"), "671088640") << "512 MiB and a quarter";
  ASSERT_TRUE(MemoryGroups::enter(group.value(), 4711));
  EXPECT_EQ(get(group.value() / "cgroup.procs"), "4711");
  ASSERT_TRUE(MemoryGroups::set_limit(group.value(), 0));
  EXPECT_EQ(get(group.value() / "memory.max"), "max");
}

TEST_F(MemoryGroupsTest, MovesNobodyElsesProcess) {
  put(base_ / "cgroup.procs", std::to_string(::getpid()) + "\n1\n");
  MemoryGroups ours = groups();
  const auto ready = ours.prepare(only_us);
  ASSERT_FALSE(ready);
  EXPECT_EQ(ready.error().detail, "another process (pid 1) is in " + base_.string());
  EXPECT_FALSE(fs::exists(base_ / "gearbox-12345678-broker"));
  EXPECT_EQ(get(base_ / "cgroup.subtree_control"), "");
  put(base_ / "cgroup.procs", "");
  EXPECT_FALSE(ours.prepare(only_us)) << "the answer is given once";
}

TEST_F(MemoryGroupsTest, SaysWhyThereCanBeNone) {
  put(base_ / "cgroup.controllers", "cpu pids\n");
  EXPECT_EQ(groups().prepare(only_us).error().detail, base_.string() + " has no memory controller");
  EXPECT_FALSE(MemoryGroups().prepare(only_us));
}

TEST_F(MemoryGroupsTest, WhatIsRefusedOnTheWayIsUndone) {
  fs::remove(base_ / "cgroup.subtree_control");
  fs::create_directory(base_ / "cgroup.subtree_control");  // cannot be written
  MemoryGroups ours = groups();
  EXPECT_FALSE(ours.prepare(only_us));
  EXPECT_EQ(get(base_ / "cgroup.procs"), std::to_string(::getpid())) << "moved back";
}

TEST_F(MemoryGroupsTest, AGroupThatIsReadyIsUsedAsItIs) {
  put(base_ / "cgroup.subtree_control", "memory\n");
  put(base_ / "cgroup.procs", "1\n");  // as in the group above all
  MemoryGroups ours = groups();
  ASSERT_TRUE(ours.prepare(only_us));
  ours.give_back();
  EXPECT_EQ(get(base_ / "cgroup.subtree_control"), "memory\n") << "not ours to undo";
}

TEST_F(MemoryGroupsTest, ASupervisorThatWasStartedWhereTheLastOneHadMovedToGoesOnThere) {
  put(base_ / "cgroup.subtree_control", "memory\n");
  MemoryGroups ours = groups("/system.slice/gearbox.service/gearbox-12345678-broker");
  ASSERT_TRUE(ours.prepare(only_us));
  const auto group = ours.make("worker-1", 5, kLimit);
  ASSERT_TRUE(group);
  EXPECT_EQ(group.value().parent_path(), base_);
}

TEST_F(MemoryGroupsTest, TellsWhatTheKernelHasKilledFor) {
  const fs::path group = base_ / "gearbox-12345678-worker-1.7";
  fs::create_directory(group);
  EXPECT_EQ(MemoryGroups::outgrown_limit(group), 0U);
  put(group / "memory.max", "671088640\n");
  put(group / "memory.events", "low 0\nhigh 0\nmax 12\noom 0\noom_kill 0\n");
  EXPECT_EQ(MemoryGroups::outgrown_limit(group), 0U);
  put(group / "memory.events", "low 0\nhigh 0\nmax 90\noom 1\noom_kill 2\noom_group_kill 1\n");
  EXPECT_EQ(MemoryGroups::outgrown_limit(group), kLimit);
}

TEST_F(MemoryGroupsTest, RemovesOnlyGroupsOfItsOwnInstallation) {
  MemoryGroups ours = groups();
  for (const char* name :
       {"gearbox-12345678-worker-1.7", "gearbox-87654321-worker-1.8", "gearbox-12345678-broker", "somebody.service"}) {
    fs::create_directory(base_ / name);
  }
  ASSERT_EQ(ours.list(), std::vector<fs::path>{base_ / "gearbox-12345678-worker-1.7"});
  EXPECT_TRUE(ours.remove(base_ / "gearbox-12345678-worker-1.7"));
  EXPECT_TRUE(ours.remove(base_ / "somebody.service"));
  EXPECT_TRUE(ours.list().empty());
  EXPECT_TRUE(fs::exists(base_ / "somebody.service"));
  EXPECT_TRUE(fs::exists(base_ / "gearbox-87654321-worker-1.8"));
}

TEST_F(MemoryGroupsTest, KillsWhatIsLeftInAGroupAndIsAskedAgain) {
  MemoryGroups ours = groups();
  const fs::path group = base_ / "gearbox-12345678-worker-1.7";
  fs::create_directory(group);
  put(group / "cgroup.procs", "4712\n");
  put(group / "cgroup.kill", "");
  EXPECT_FALSE(ours.remove(group)) << "it is not empty yet";
  EXPECT_EQ(get(group / "cgroup.kill"), "1");
  as_the_kernel_does(group);
  EXPECT_TRUE(ours.remove(group));
  EXPECT_FALSE(fs::exists(group));
}

TEST_F(MemoryGroupsTest, GivesThePlaceBackAsItWasFound) {
  MemoryGroups ours = groups();
  ASSERT_TRUE(ours.prepare(only_us));
  put(base_ / "cgroup.procs", "");
  ours.give_back();
  EXPECT_EQ(get(base_ / "cgroup.subtree_control"), "-memory");
  EXPECT_EQ(get(base_ / "cgroup.procs"), std::to_string(::getpid()));
}

TEST(OwnGroup, IsReadFromTheMountsAndTheGroupsOfTheProcess) {
  Scratch scratch;
  const fs::path proc = scratch.path("proc");
  fs::create_directories(proc);
  Scratch::write(proc / "mountinfo",
                 "22 1 0:20 / /proc rw - proc proc rw\n"
                 "30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
  Scratch::write(proc / "cgroup", "0::/system.slice/gearbox.service\n");
  const auto place = own_group(proc);
  ASSERT_TRUE(place) << place.error().detail;
  EXPECT_EQ(place.value().root, "/sys/fs/cgroup");
  EXPECT_EQ(place.value().path, "/system.slice/gearbox.service");
}

TEST(OwnGroup, IsFoundInAContainerWhoseGroupsHaveTheirNamesOfOutside) {
  Scratch scratch;
  const fs::path proc = scratch.path("proc");
  fs::create_directories(proc);
  Scratch::write(proc / "mountinfo", "30 22 0:26 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  const auto path_of = [&](const char* group) {
    Scratch::write(proc / "cgroup", std::string("0::") + group + "\n", false);
    const auto place = own_group(proc);
    return place ? place.value().path : "not there";
  };
  EXPECT_EQ(path_of("/docker/abc"), "/");
  EXPECT_EQ(path_of("/docker/abc/x"), "/x");
  EXPECT_EQ(path_of("/docker/abcd"), "not there");
  EXPECT_EQ(path_of("/"), "not there");
}

TEST(OwnGroup, IsNotThereWithoutCgroupV2OrOutsideOfWhatAContainerSees) {
  Scratch scratch;
  const fs::path proc = scratch.path("proc");
  fs::create_directories(proc);
  Scratch::write(proc / "mountinfo", "30 22 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  Scratch::write(proc / "cgroup", "4:memory:/x\n");
  EXPECT_EQ(own_group(proc).error().detail, "cgroup v2 is not mounted here");
  Scratch::write(proc / "mountinfo", "31 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  EXPECT_FALSE(own_group(proc));
  Scratch::write(proc / "cgroup", "0::/../other\n");
  EXPECT_FALSE(own_group(proc));
}

TEST(InstallationOf, TellsStateFoldersApart) {
  EXPECT_EQ(installation_of("/var/lib/gearbox"), installation_of("/var/lib/../lib/gearbox"));
  EXPECT_NE(installation_of("/var/lib/gearbox"), installation_of("/var/lib/gearbox2"));
  EXPECT_EQ(installation_of("/var/lib/gearbox").size(), 8U);
}

}  // namespace
}  // namespace gearbox::supervisor
