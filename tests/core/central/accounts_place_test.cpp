#include "central/accounts_place.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <string>

#include "support/temp_dir.hpp"

namespace gearbox::central {
namespace {

class AccountsPlaceTest : public ::testing::Test {
 protected:
  static config::CentralConfig at(const std::string& database) {
    config::CentralConfig central;
    central.database = database;
    return central;
  }
  gearbox::testing::TempDir folder_;
  config::StateDir state_{folder_.path()};
};

TEST_F(AccountsPlaceTest, IsAFileUnlessADatabaseIsNamed) {
  EXPECT_FALSE(accounts_place(state_, at("sqlite")).is_shared());
  EXPECT_EQ(accounts_place(state_, at("sqlite")).file, state_.central_db());
  EXPECT_TRUE(accounts_place(state_, at("dbname=gearbox")).is_shared());
  EXPECT_EQ(accounts_place(state_, at("dbname=gearbox")).database, "dbname=gearbox");
}

TEST_F(AccountsPlaceTest, IsFoundAgainAsItWasNotedLast) {
  const auto nothing = noted_accounts_place(state_);
  ASSERT_TRUE(nothing);
  EXPECT_FALSE(nothing.value().is_shared());
  EXPECT_TRUE(nothing.value().file.empty()) << "nothing was noted: not even that it is a file";
  for (const char* database : {"host=db.example dbname=gearbox", "sqlite", "postgresql://db.example/gearbox"}) {
    ASSERT_TRUE(note_accounts_place(state_, accounts_place(state_, at(database))));
    const auto found = noted_accounts_place(state_);
    ASSERT_TRUE(found);
    EXPECT_EQ(found.value().database, accounts_place(state_, at(database)).database);
    EXPECT_EQ(found.value().file, state_.central_db());
  }
  struct stat info {};
  ASSERT_EQ(::stat((folder_.path() / "accounts").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
}

TEST_F(AccountsPlaceTest, KnowsWhoseAccountsADatabaseHas) {
  AccountsPlace place = accounts_place(state_, at("dbname=gearbox"));
  EXPECT_EQ(place.installation, "");
  ASSERT_TRUE(note_accounts_place(state_, place));
  EXPECT_EQ(accounts_place(state_, at("dbname=gearbox")).installation, "");
  place.installation = "0123456789abcdef";
  ASSERT_TRUE(note_accounts_place(state_, place));
  EXPECT_EQ(noted_accounts_place(state_).value().installation, place.installation);
  EXPECT_EQ(accounts_place(state_, at("dbname=elsewhere")).installation, place.installation);
  ASSERT_TRUE(note_accounts_place(state_, accounts_place(state_, at("dbname=elsewhere"))));
  EXPECT_EQ(noted_accounts_place(state_).value().database, "dbname=elsewhere");
  EXPECT_EQ(noted_accounts_place(state_).value().installation, place.installation);
  EXPECT_EQ(accounts_place(state_, at("sqlite")).installation, "");
}

TEST_F(AccountsPlaceTest, LeavesNothingBehindWhenItCannotBeNoted) {
  std::filesystem::create_directory(folder_.path() / "accounts");
  EXPECT_FALSE(note_accounts_place(state_, accounts_place(state_, at("sqlite"))));
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) files += entry.is_regular_file();
  EXPECT_EQ(files, 0U);
}

TEST_F(AccountsPlaceTest, RemovesWhatAnEndedProcessLeftAndNotWhatOneMayBeWriting) {
  const auto left = folder_.path() / "accounts.new-999999999";  // a number that no process has
  const auto being_written = folder_.path() / "accounts.new-1";
  std::ofstream(left) << "x";
  std::ofstream(being_written) << "x";
  ASSERT_TRUE(note_accounts_place(state_, accounts_place(state_, at("sqlite"))));
  EXPECT_FALSE(std::filesystem::exists(left));
  EXPECT_TRUE(std::filesystem::exists(being_written));
}

TEST_F(AccountsPlaceTest, ADamagedNoteIsAnErrorAndNoGuess) {
  for (const char* text :
       {"", "gearbox accounts 1\n", "gearbox accounts 1\n\n", "gearbox accounts 1\nhost=db",
        "gearbox accounts 1\nhost=db\nmore\n", "gearbox accounts 1\nhost=db\ninstallation x\ny\n", "x"}) {
    std::ofstream(folder_.path() / "accounts", std::ios::binary) << text;
    const auto found = noted_accounts_place(state_);
    ASSERT_FALSE(found) << text;
    EXPECT_NE(found.error().detail.find("--config"), std::string::npos) << found.error().detail;
  }
}

}  // namespace
}  // namespace gearbox::central
