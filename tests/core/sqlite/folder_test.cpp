#include "sqlite/folder.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "support/temp_dir.hpp"

namespace gearbox::sqlite {
namespace {

namespace fs = std::filesystem;

class Folder : public ::testing::Test {
 protected:
  void make(const std::string& name) const { std::ofstream(folder_.path() / name) << name; }
  bool there(const std::string& name) const { return fs::exists(folder_.path() / name); }
  testing::TempDir folder_;
};

TEST_F(Folder, ADamagedFileGoesWithWhatBelongsToIt) {
  for (const char* name : {"a.db", "a.db-wal", "a.db.damaged-1", "other"}) make(name);
  const auto aside = set_aside(folder_.path() / "a.db");
  ASSERT_TRUE(aside) << describe(aside.error());
  EXPECT_EQ(aside.value(), folder_.path() / "a.db.damaged-2") << "one is there already";
  EXPECT_TRUE(there("a.db.damaged-2"));
  EXPECT_TRUE(there("a.db.damaged-2-wal"));
  EXPECT_FALSE(there("a.db"));
  EXPECT_FALSE(there("a.db-wal"));
  EXPECT_TRUE(there("other"));
}

TEST_F(Folder, ADamagedFolderGoesWhole) {
  fs::create_directory(folder_.path() / "queue");
  make("queue/queue.db");
  const auto aside = set_aside(folder_.path() / "queue");
  ASSERT_TRUE(aside) << describe(aside.error());
  EXPECT_TRUE(there("queue.damaged-1/queue.db"));
  EXPECT_FALSE(there("queue"));
}

TEST_F(Folder, SaysWhatItCannotDo) {
  const auto aside = set_aside(folder_.path() / "nothing");
  ASSERT_FALSE(aside);
  EXPECT_EQ(aside.error().code, Errc::io_error);
  make("file");
  const auto made = make_private_folder(folder_.path() / "file/below");
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Errc::io_error);
}

TEST_F(Folder, IsForOneUserAlone) {
  ASSERT_TRUE(make_private_folder(folder_.path() / "a/b"));
  struct stat found {};
  ASSERT_EQ(::stat((folder_.path() / "a/b").c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777U, 0700U);
}

}  // namespace
}  // namespace gearbox::sqlite
