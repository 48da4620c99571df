#include "watch/files.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "support/temp_dir.hpp"

namespace gearbox::watch {
namespace {

namespace fs = std::filesystem;

class Files : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) {
    fs::create_directories((temp_.path() / name).parent_path());
    std::ofstream(temp_.path() / name) << text;
  }
  fs::path path(const std::string& name = "") const { return name.empty() ? temp_.path() : temp_.path() / name; }
  Stamps look(unsigned depth = 0) const { return stamps_of({{temp_.path(), depth, {}}}); }

 private:
  gearbox::testing::TempDir temp_;
};

TEST_F(Files, UnchangedFoldersAreEqual) {
  write("a.toml", "a = 1\n");
  write("models/one/model.toml", "x");
  EXPECT_EQ(look(2), look(2));
  EXPECT_EQ(look(2).entries.size(), 5U) << "the folders count as well";
}

TEST_F(Files, ReadingAFileIsNoChange) {
  write("a.toml", "a = 1\n");
  const Stamps before = look();
  std::ifstream in(path("a.toml"));
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  EXPECT_EQ(text, "a = 1\n");
  EXPECT_EQ(look(), before);
}

TEST_F(Files, EachOfTheseIsAChange) {
  write("a.toml", "a = 1\n");
  auto changed = [&, before = look()](const char* what) mutable {
    const Stamps now = look();
    EXPECT_NE(now, before) << what;
    before = now;
  };
  write("b.toml", "");
  changed("a new file");
  fs::rename(path("b.toml"), path("c.toml"));
  changed("another name");
  fs::remove(path("c.toml"));
  changed("a file gone");
  std::ofstream(path("a.toml"), std::ios::app) << "b = 2\n";
  changed("a longer file");
  ASSERT_EQ(::chmod(path("a.toml").c_str(), 0600), 0);
  ASSERT_EQ(::chmod(path("a.toml").c_str(), 0640), 0);
  changed("other rights");
  ASSERT_EQ(::chmod(path().c_str(), 0750), 0);
  changed("other rights of the folder");
  fs::create_symlink("nowhere", path("link.toml"));
  changed("a link that leads nowhere");
  write("nowhere", "x");
  changed("a link that leads somewhere");
}

TEST_F(Files, AnOlderTimeStampIsAChange) {
  write("a.toml", "a = 1\n");
  const Stamps before = look();
  const timespec old[2] = {{.tv_sec = 1'000'000'000, .tv_nsec = 0}, {.tv_sec = 1'000'000'000, .tv_nsec = 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path("a.toml").c_str(), old, 0), 0);
  EXPECT_NE(look(), before);
}

TEST_F(Files, TheSameSizeAndTimeStampWithOtherContentIsAChange) {
  write("a.toml", "a = 1\n");
  struct stat info {};
  ASSERT_EQ(::stat(path("a.toml").c_str(), &info), 0);
  const Stamps before = look();
  // The kernel's clock for time stamps ticks every few milliseconds: write until it has.
  const auto same_tick = [&, end = std::chrono::steady_clock::now() + std::chrono::seconds(10)] {
    struct stat now {};
    return ::stat(path("a.toml").c_str(), &now) == 0 && now.st_ctim.tv_sec == info.st_ctim.tv_sec &&
           now.st_ctim.tv_nsec == info.st_ctim.tv_nsec && std::chrono::steady_clock::now() < end;
  };
  while (same_tick()) write("a.toml", "a = 2\n");
  const timespec times[2] = {info.st_atim, info.st_mtim};
  ASSERT_EQ(::utimensat(AT_FDCWD, path("a.toml").c_str(), times, 0), 0);
  const Stamp now = look().entries.at(path("a.toml"));
  const Stamp then = before.entries.at(path("a.toml"));
  EXPECT_EQ(now.mtime_ns, then.mtime_ns);
  EXPECT_EQ(now.size_bytes, then.size_bytes);
  EXPECT_EQ(now.inode, then.inode);
  EXPECT_NE(look(), before);
}

TEST_F(Files, ASwappedLinkIsAChangeWhereverItIsOnTheWay) {
  write("one/conf/a.toml", "a = 1\n");
  write("two/conf/a.toml", "a = 1\n");
  fs::create_directory_symlink("one", path("now"));
  const std::vector<Folder> folders{{path("now/conf"), 0, {}}};
  const Stamps before = stamps_of(folders);
  fs::create_directory_symlink("two", path("next"));
  fs::rename(path("next"), path("now"));
  const Stamps now = stamps_of(folders);
  EXPECT_NE(now, before);
  EXPECT_FALSE(vanished(before, now));
}

TEST_F(Files, WhatIsNotWantedIsNotThere) {
  write("a.toml", "");
  write("a.toml~", "");
  write("models/.git/x.toml", "");
  write("models/one/x.toml", "");
  write("models/one/deep/x.toml", "");
  const auto wanted = [](const std::string& name) { return name.ends_with(".toml"); };
  const Stamps seen = stamps_of({{path(), 0, wanted}, {path("models"), 1, wanted}, {path("missing"), 3, wanted}});
  EXPECT_EQ(seen.entries.size(), 5U);
  for (const char* name : {"a.toml", "models", "models/one", "models/one/x.toml"}) {
    EXPECT_TRUE(seen.entries.contains(path(name))) << name;
  }
}

TEST_F(Files, TheLookIsBounded) {
  for (std::size_t i = 0; i < kMaxEntries + 1; ++i) {
    const int made = ::open(path(std::to_string(i)).c_str(), O_CREAT | O_CLOEXEC | O_WRONLY, 0600);
    ASSERT_GE(made, 0);
    ::close(made);
  }
  const Stamps seen = look();
  EXPECT_TRUE(seen.too_many);
  EXPECT_EQ(seen.entries.size(), kMaxEntries);
}

TEST_F(Files, VanishedMeansGoneNotAdded) {
  write("a.toml", "");
  const Stamps one = look();
  write("b.toml", "");
  const Stamps two = look();
  EXPECT_FALSE(vanished(one, two));
  EXPECT_TRUE(vanished(two, one));
  EXPECT_FALSE(vanished(one, one));
  fs::remove(path("b.toml"));
  fs::create_symlink("nowhere", path("b.toml"));
  EXPECT_TRUE(vanished(two, look())) << "a link that leads nowhere";
}

TEST_F(Files, AFileIsFreshWhileItsTimeIsNear) {
  write("a.toml", "");
  const auto at = std::chrono::system_clock::time_point(std::chrono::duration_cast<std::chrono::system_clock::duration>(
      std::chrono::nanoseconds(look().entries.at(path("a.toml")).ctime_ns)));
  EXPECT_TRUE(is_fresh(look(), at + std::chrono::milliseconds(10)));
  EXPECT_TRUE(is_fresh(look(), at + std::chrono::milliseconds(49)));
  EXPECT_FALSE(is_fresh(look(), at + std::chrono::milliseconds(51)));
  EXPECT_FALSE(is_fresh(look(), at - std::chrono::milliseconds(51)))
      << "a clock that was set back must not stop us for ever";
  EXPECT_FALSE(is_fresh(Stamps{}, at));
}

TEST_F(Files, AWriterIsSeenWhileItHasTheFileOpen) {
  write("a.toml", "a = 1\n");
  if (writers_of(path("a.toml")) == Writers::unknown) GTEST_SKIP() << "NOT RUN: no leases on " << path();
  EXPECT_FALSE(is_being_written(path("a.toml")));
  const int writer = ::open(path("a.toml").c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_GE(writer, 0);
  EXPECT_TRUE(is_being_written(path("a.toml")));
  EXPECT_EQ(writers_of(look(), Stamps{}), Writers::some);
  EXPECT_EQ(writers_of(look(), look()), Writers::none) << "nothing changed: nobody is asked";
  ::close(writer);
  EXPECT_FALSE(is_being_written(path("a.toml")));
  EXPECT_EQ(writers_of(look(), Stamps{}), Writers::none);
}

TEST_F(Files, AReaderIsNoWriterAndAMissingFileIsUnknown) {
  write("a.toml", "a = 1\n");
  const int reader = ::open(path("a.toml").c_str(), O_RDONLY | O_CLOEXEC);
  EXPECT_FALSE(is_being_written(path("a.toml")));
  ::close(reader);
  EXPECT_EQ(writers_of(path("none")), Writers::unknown);
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  EXPECT_EQ(writers_of(path("fifo")), Writers::unknown);
}

TEST_F(Files, AskingForWritersLeavesNoLeaseAndHarmsNoWriter) {
  write("a.toml", "a = 1\n");
  for (int i = 0; i < 200; ++i) {
    [[maybe_unused]] const bool asked = is_being_written(path("a.toml"));
    // With a lease left behind this would block for the kernel's lease-break-time, 45 s, or fail.
    const int writer = ::open(path("a.toml").c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    ASSERT_GE(writer, 0) << errno;
    ::close(writer);
  }
}

}  // namespace
}  // namespace gearbox::watch
