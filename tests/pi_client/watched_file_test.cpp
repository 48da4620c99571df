// What may go wrong with a watched file between two looks.
#include "watched_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "capturing.hpp"

namespace gearbox::client {
namespace {

std::string text_in(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

TEST(WatchedFile, WhatChangedSinceItWasReadIsNotRemoved) {
  for (const After after : {After::remove, After::move}) {
    const ScratchFolder scratch;
    fs::create_directories(scratch.path() / "moved");
    const WatchOptions options{scratch.path().string(), after, (scratch.path() / "moved").string()};
    const fs::path latest = scratch.file("latest.jpg", "one");
    Stand read = *stand_of(latest);
    // Another picture of the same size and time, renamed over it.
    const auto time = fs::last_write_time(latest);
    fs::rename(scratch.file("next", "two"), latest);
    fs::last_write_time(latest, time);
    ASSERT_EQ(stand_of(latest)->source, read.source);
    ASSERT_EQ(put_away(latest, read, options), Gone::changed);
    EXPECT_EQ(text_in(latest), "two");
    read = *stand_of(latest);
    std::ofstream(latest, std::ios::app) << " and more";
    ASSERT_EQ(put_away(latest, read, options), Gone::changed);
    EXPECT_EQ(text_in(latest), "two and more");
    EXPECT_TRUE(fs::is_empty(scratch.path() / "moved"));
    EXPECT_EQ(put_away(latest, *stand_of(latest), options), Gone::gone);
    EXPECT_FALSE(fs::exists(latest));
    EXPECT_EQ(fs::exists(scratch.path() / "moved/latest.jpg"), after == After::move);
  }
}

TEST(WatchedFile, AReadLeaseEndsNoProcess) {
  const ScratchFolder scratch;
  const std::string path = scratch.file("a.ppm", "picture");
  EXPECT_EXIT(
      {
        const ReadLease lease(path);
        if (lease.writers() != Writers::none) ::_exit(2);
        const int writer = ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);  // breaks the lease
        ::_exit(writer < 0 ? 0 : 3);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(WatchedFile, LeasesOfOtherMachinesFilesTellNothing) {
  for (const std::int64_t type : {0x6969LL, 0xFF534D42LL, 0xFE534D42LL, 0x517BLL, 0x65735546LL})
    EXPECT_FALSE(leases_tell(type)) << type;
  EXPECT_FALSE(leases_tell(static_cast<std::int32_t>(0xFF534D42U)));
  EXPECT_TRUE(leases_tell(0xEF53));
}

TEST(WatchFolder, WhatAKillLeftHiddenIsSettled) {
  Capturing each;
  each.scratch.file("pictures/a.ppm", noise_picture(10, 10, 1));
  each.watch(After::keep);
  ASSERT_TRUE(each.until([&] { return each.spooled == 1; }));
  each.end();
  each.stop.~StopBell();
  new (&each.stop) StopBell();
  fs::remove(each.spool->folder() / "taken.jsonl");
  // The process died behind the first rename; and another picture has the name since.
  fs::rename(each.folder() / "a.ppm", each.folder() / ".gearbox-taken.0.a.ppm");
  each.scratch.file("pictures/a.ppm", noise_picture(10, 10, 2));
  each.scratch.file("pictures/.gearbox-taken.0.b.ppm", noise_picture(10, 10, 3));  // was never taken
  each.scratch.file("pictures/.gearbox-taken.1.a.ppm", noise_picture(10, 11, 4));  // nor this one
  each.watch(After::remove);
  EXPECT_TRUE(each.until([&] { return each.spooled == 4 && fs::is_empty(each.folder()); }));
  EXPECT_EQ(each.count(), 4U);
}

TEST(WatchFolder, ASpoolThatCannotBeWrittenIsTriedForEver) {
  Capturing each;
  each.watch(After::remove, {milliseconds(20), milliseconds(40), milliseconds(50)});
  const fs::path lock = each.spool->folder() / "lock";
  fs::remove(lock);
  fs::create_directory(lock);  // stands for EROFS, EIO, EMFILE
  each.scratch.file("pictures/a.ppm", noise_picture(10, 10, 1));
  EXPECT_TRUE(each.until([&] { return each.said("stay where they are"); }));
  const Instant tries = Clock::now() + milliseconds(300);
  EXPECT_TRUE(each.until([&] { return Clock::now() > tries; }));  // far past the give-up
  fs::remove(lock);
  EXPECT_TRUE(each.until([&] { return each.spooled == 1; }));
  const std::lock_guard guard(each.mutex);
  EXPECT_EQ(std::count(each.remarks.begin(), each.remarks.end(), '\n'), 1) << each.remarks;
}

TEST(WatchFolder, AFileOpenForWritingForEverIsTold) {
  Capturing each;
  const std::string path = each.scratch.file("pictures/open.ppm", noise_picture(10, 10, 1));
  const Descriptor writer(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  each.watch(After::remove);
  EXPECT_TRUE(each.until([&] { return each.said("open.ppm is not taken yet: a process has it open for writing"); }));
  EXPECT_EQ(each.spooled, 0);
}

TEST(WatchFolder, LinksArePassedOver) {
  Capturing each;
  fs::create_symlink(each.scratch.file("elsewhere.ppm", noise_picture(10, 10, 1)), each.folder() / "a.ppm");
  each.scratch.file("pictures/b.ppm", noise_picture(10, 10, 2));
  each.watch(After::remove, {milliseconds(20), milliseconds(40)});
  EXPECT_TRUE(each.until([&] { return each.spooled == 1; }));
  each.scratch.file("pictures/c.ppm", noise_picture(10, 10, 3));
  EXPECT_TRUE(each.until([&] { return each.spooled == 2; }));
  EXPECT_TRUE(fs::is_symlink(each.folder() / "a.ppm"));
  EXPECT_EQ(each.count(), 2U);
}

TEST(WatchFolder, APictureLargerThanTheSpoolHoldsUpNoOther) {
  Capturing each({SpoolPolicy::keep_all, 10, 3'000});
  each.scratch.file("pictures/a.ppm", noise_picture(40, 40, 1));
  each.watch(After::remove);
  each.scratch.file("pictures/b.ppm", noise_picture(10, 10, 2));
  EXPECT_TRUE(each.until([&] { return each.spooled == 1 && each.said("a.ppm stays where it is: too_large"); }));
  EXPECT_TRUE(fs::exists(each.folder() / "a.ppm"));
}

TEST(WatchFolder, WordsOnAFullSpoolAreTrueForNewestOnly) {
  Capturing each({SpoolPolicy::newest_only, 10, 1 << 20});
  each.scratch.file("pictures/a.ppm", noise_picture(10, 10, 1));
  each.scratch.file("pictures/b.ppm", noise_picture(10, 10, 2));
  each.watch(After::remove);
  EXPECT_TRUE(each.until([&] { return each.spooled == 2 && each.said("give way to newer ones"); }));
  EXPECT_FALSE(each.said("full"));
}

TEST(TakenFiles, AFolderThatIsAwayIsNotForgotten) {
  const ScratchFolder scratch;
  const fs::path file = scratch.path() / "taken.jsonl";
  FileNow now = FileNow::same;
  const auto look = [&now](const SourceFile& source) { return source.path == "other" ? FileNow::other : now; };
  {
    TakenFiles taken = TakenFiles::open(file, look).value();
    for (const char* path : {"1", "other", "2", "3"}) ASSERT_TRUE(taken.add({path, 5, 6}));
  }
  now = FileNow::missing;
  {
    const TakenFiles taken = TakenFiles::open(file, look).value();
    EXPECT_TRUE(taken.has({"1", 5, 6}) && taken.has({"2", 5, 6}) && taken.has({"3", 5, 6}));
    EXPECT_FALSE(taken.has({"other", 5, 6}));
  }
  const TakenFiles taken = TakenFiles::open(file, look, {2, 100}).value();  // the newest two
  EXPECT_FALSE(taken.has({"1", 5, 6}));
  EXPECT_TRUE(taken.has({"2", 5, 6}) && taken.has({"3", 5, 6}));
}

TEST(TakenFiles, DoesNotGrowWithinARun) {
  const ScratchFolder scratch;
  const fs::path file = scratch.path() / "taken.jsonl";
  const auto look = [](const SourceFile&) { return FileNow::missing; };
  TakenFiles taken = TakenFiles::open(file, look, {5, 20}).value();
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(taken.add({std::to_string(i), 1, 1}));
  const std::string text = text_in(file);
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 20);
  EXPECT_TRUE(taken.has({"199", 1, 1}));
  EXPECT_FALSE(taken.has({"100", 1, 1}));
}

}  // namespace
}  // namespace gearbox::client
