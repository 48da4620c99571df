#include "config/state_dir.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "support/temp_dir.hpp"

namespace gearbox::config {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

mode_t mode_of(const fs::path& path) {
  struct stat info {};
  EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
  return info.st_mode & 07777;
}

TEST(StateDir, MakesEachFolderForUsAlone) {
  const testing::TempDir temp;
  const auto opened = open_state_dir(temp.path() / "deep/state");
  ASSERT_TRUE(opened) << opened.error().detail;
  const StateDir& dir = opened.value();
  for (const fs::path& folder :
       {dir.root, dir.keys(), dir.run(), dir.logs(), dir.store(), dir.plugin_copies(), dir.envs()}) {
    EXPECT_EQ(mode_of(folder), 0700U) << folder;
  }
  EXPECT_TRUE(open_state_dir(temp.path() / "deep/state")) << "a second time";
}

TEST(StateDir, RefusesARootThatOthersMayWriteTo) {
  const testing::TempDir temp;
  ASSERT_EQ(::chmod(temp.path().c_str(), 0777), 0);
  const auto opened = open_state_dir(temp.path());
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::io_error);
  EXPECT_THAT(opened.error().detail, HasSubstr("others may write to it"));
}

TEST(StateDir, RefusesAFileInItsPlace) {
  const testing::TempDir temp;
  std::ofstream(temp.path() / "state") << "x";
  EXPECT_FALSE(open_state_dir(temp.path() / "state"));
}

TEST(StateDir, TakesTheEnvironmentWhenNothingIsGiven) {
  const testing::TempDir temp;
  ASSERT_EQ(::setenv("GEARBOX_STATE", (temp.path() / "s").c_str(), 1), 0);
  const auto opened = open_state_dir({});
  ::unsetenv("GEARBOX_STATE");
  ASSERT_TRUE(opened) << opened.error().detail;
  EXPECT_EQ(opened.value().root, temp.path() / "s");
}

}  // namespace
}  // namespace gearbox::config
