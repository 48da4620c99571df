#include "plugin_host/private_copy.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <barrier>
#include <future>
#include <string>
#include <system_error>

#include "fixture_files.hpp"
#include "support/temp_dir.hpp"

namespace gearbox::plugin_host {
namespace {

class Copies : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(open_copies_folder(folder())); }
  fs::path folder() const { return temp_.path() / "copies"; }
  std::size_t count() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder()), fs::directory_iterator()));
  }
  gearbox::testing::TempDir temp_;
};

TEST_F(Copies, AreNamedByTheirContentAndForUsAlone) {
  const auto first = PrivateCopy::make(write_file(temp_.path() / "a", "one"), folder());
  ASSERT_TRUE(first) << first.error().detail;
  const auto again = PrivateCopy::make(write_file(temp_.path() / "b", "one"), folder());
  const auto other = PrivateCopy::make(write_file(temp_.path() / "c", "two"), folder());
  ASSERT_TRUE(again);
  ASSERT_TRUE(other);
  EXPECT_EQ(first.value().path(), again.value().path());
  EXPECT_NE(first.value().path(), other.value().path());
  EXPECT_EQ(content_of(first.value().path()), "one");
  struct stat info {};
  ASSERT_EQ(::stat(first.value().path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600U);
  ASSERT_EQ(::stat(folder().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0700U);
  EXPECT_EQ(count(), 2U) << "no half-made file stays";
}

TEST_F(Copies, ACopyThatWasSpoiltIsMadeAnew) {
  fs::path path;
  {
    const auto copy = PrivateCopy::make(write_file(temp_.path() / "a", "one"), folder());
    ASSERT_TRUE(copy);
    path = copy.value().path();
  }
  write_file(path, "other content");
  const auto copy = PrivateCopy::make(temp_.path() / "a", folder());
  ASSERT_TRUE(copy) << copy.error().detail;
  EXPECT_EQ(content_of(copy.value().path()), "one");
}

TEST_F(Copies, ThoseWhoMakeOneAtTheSameTimeShareOne) {
  constexpr int kRounds = 100;
  for (int round = 0; round < kRounds; ++round) {
    const fs::path original = write_file(temp_.path() / "a", "content " + std::to_string(round));
    std::barrier together(2);
    const auto make = [&] {
      together.arrive_and_wait();
      return PrivateCopy::make(original, folder());
    };
    auto other = std::async(std::launch::async, make);
    const auto mine = make();
    const auto theirs = other.get();
    ASSERT_TRUE(mine) << mine.error().detail;
    ASSERT_TRUE(theirs) << theirs.error().detail;
    for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      const std::string target = fs::read_symlink(entry.path(), gone).string();
      ASSERT_EQ(target.find(" (deleted)"), std::string::npos) << target << " in round " << round;
    }
  }
}

TEST_F(Copies, OnlyThoseThatNobodyUsesAreRemoved) {
  auto kept = PrivateCopy::make(write_file(temp_.path() / "a", "one"), folder());
  ASSERT_TRUE(kept);
  { ASSERT_TRUE(PrivateCopy::make(write_file(temp_.path() / "b", "two"), folder())); }
  write_file(folder() / ".copy-abcdef", "half-made");
  write_file(folder() / "notes", "of somebody");
  remove_unused_copies(folder());
  EXPECT_TRUE(fs::exists(kept.value().path()));
  EXPECT_TRUE(fs::exists(folder() / "notes"));
  EXPECT_EQ(count(), 2U);
}

TEST_F(Copies, AFolderThatOthersMayWriteToIsNoPlaceForThem) {
  fs::permissions(folder(), fs::perms(0777));
  EXPECT_FALSE(open_copies_folder(folder()));
}

}  // namespace
}  // namespace gearbox::plugin_host
