// What concerns the accounts' own file only: its rights, damage, its copy.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "central/accounts.hpp"
#include "support/temp_dir.hpp"

namespace gearbox::central {
namespace {

namespace fs = std::filesystem;
constexpr const char* kPassword = "correct horse";

class AccountsFileTest : public ::testing::Test {
 protected:
  std::unique_ptr<Accounts> open(OnDamage on_damage = OnDamage::refuse) {
    auto opened = Accounts::open(file_, on_damage);
    EXPECT_TRUE(opened) << opened.error().detail;
    return opened ? std::move(opened).value() : nullptr;
  }
  static User named(const std::string& name) {
    User user;
    user.name = name;
    return user;
  }
  void damage(const std::string& content) {
    for (const char* ending : {"", "-wal", "-shm"}) fs::remove(fs::path(file_.string() + ending));
    std::ofstream(file_, std::ios::binary) << content;
  }
  gearbox::testing::TempDir folder_;
  fs::path file_ = folder_.path() / "central.db";
};

TEST_F(AccountsFileTest, TheFileIsReadableByItsOwnerOnly) {
  auto accounts = open();
  ASSERT_TRUE(accounts->add_user(named("maria"), kPassword));
  for (const char* ending : {"", ".backup"}) {
    const auto mode = fs::status(file_.string() + ending).permissions();
    EXPECT_EQ(mode & fs::perms::mask, fs::perms::owner_read | fs::perms::owner_write) << ending;
  }
}

class DamagedAccountsTest : public AccountsFileTest, public ::testing::WithParamInterface<const char*> {
 protected:
  std::string content() const {
    const std::string kind = GetParam();
    if (kind == "empty") return {};
    if (kind == "zeros") return std::string(8192, '\0');
    if (kind == "few_zeros") return std::string(20, '\0');
    if (kind == "text") return "{\"users\": [\"ma";
    std::ifstream in(file_, std::ios::binary);
    std::string all((std::istreambuf_iterator<char>(in)), {});
    return all.substr(0, all.size() / 2);  // "cut"
  }
};

TEST_P(DamagedAccountsTest, IsSetAsideAndItsCopyTakesItsPlaceWhenCentralStarts) {
  open()->add_user(named("maria"), kPassword).value();
  damage(content());
  const auto command_line = Accounts::open(file_, OnDamage::refuse);
  ASSERT_FALSE(command_line);
  EXPECT_EQ(command_line.error().code, Errc::corrupt_data);
  auto accounts = open(OnDamage::restore);
  ASSERT_TRUE(accounts);
  EXPECT_TRUE(accounts->user("maria").value().has_value());
  EXPECT_TRUE(fs::exists(file_.string() + ".damaged-1"));
}

TEST_P(DamagedAccountsTest, WithoutACopyItIsRefusedAndLeftAsItIs) {
  open()->add_user(named("maria"), kPassword).value();
  const std::string bad = content();
  damage(bad);
  fs::remove(file_.string() + ".backup");
  const auto refused = Accounts::open(file_, OnDamage::restore);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::corrupt_data);
  EXPECT_NE(refused.error().detail.find("good copy"), std::string::npos) << refused.error().detail;
  EXPECT_EQ(fs::file_size(file_), bad.size());
}

INSTANTIATE_TEST_SUITE_P(Kinds, DamagedAccountsTest, ::testing::Values("empty", "zeros", "few_zeros", "text", "cut"),
                         [](const auto& param) { return std::string(param.param); });

}  // namespace
}  // namespace gearbox::central
