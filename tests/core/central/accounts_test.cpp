#include "central/accounts.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "gearbox/base/clock.hpp"
#include "gearbox/link/keys.hpp"
#include "sqlite/sqlite.hpp"
#include "support/temp_dir.hpp"

namespace gearbox::central {
namespace {

namespace fs = std::filesystem;
constexpr const char* kPassword = "correct horse";

class AccountsTest : public ::testing::Test {
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

TEST_F(AccountsTest, ChecksPasswordsAndAnswersUnknownUsersTheSameWay) {
  auto accounts = open();
  ASSERT_TRUE(accounts->add_user(named("maria"), kPassword));
  EXPECT_TRUE(accounts->check_password("maria", kPassword));
  const auto wrong = accounts->check_password("maria", "incorrect horse");
  const auto unknown = accounts->check_password("mario", kPassword);
  ASSERT_FALSE(wrong);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(wrong.error().code, Errc::auth_failed);
  EXPECT_EQ(unknown.error().code, Errc::auth_failed);
  EXPECT_EQ(wrong.error().detail, unknown.error().detail);
}

TEST_F(AccountsTest, AnUnknownUserCostsAsMuchTimeAsAWrongPassword) {
  auto accounts = open();
  ASSERT_TRUE(accounts->add_user(named("maria"), kPassword));
  const auto cost = [&](const char* name) {
    auto least = microseconds::max();
    for (int i = 0; i < 3; ++i) {
      const Instant begun = Clock::now();
      EXPECT_FALSE(accounts->check_password(name, "not the word"));
      least = std::min(least, elapsed(begun, Clock::now()));
    }
    return least;
  };
  cost("nobody");  // makes the hash that unknown users are checked against
  EXPECT_GT(cost("nobody") * 3, cost("maria"));
}

TEST_F(AccountsTest, RefusesBadNamesShortPasswordsAndTakenNames) {
  auto accounts = open();
  EXPECT_EQ(accounts->add_user(named("../x"), kPassword).error().code, Errc::bad_name);
  EXPECT_EQ(accounts->add_user(named("maria"), "short").error().code, Errc::bad_input);
  EXPECT_EQ(accounts->add_user(named("maria"), "with a line\nbreak").error().code, Errc::bad_input);
  ASSERT_TRUE(accounts->add_user(named("maria"), kPassword));
  EXPECT_EQ(accounts->add_user(named("maria"), kPassword).error().code, Errc::not_allowed);
  EXPECT_EQ(accounts->set_password("nobody", kPassword).error().code, Errc::not_found);
  EXPECT_EQ(accounts->users().value().size(), 1U);
}

TEST_F(AccountsTest, GivesEachUserATenantOfItsOwnUnlessOneIsNamed) {
  auto accounts = open();
  ASSERT_TRUE(accounts->add_user(named("a"), kPassword));
  User shared = named("b");
  shared.tenant = 7;
  shared.tasks = {"read-text", "count"};
  shared.max_upload_bytes = 5'000'000;
  ASSERT_TRUE(accounts->add_user(shared, kPassword));
  ASSERT_TRUE(accounts->add_user(named("c"), kPassword));
  const auto users = accounts->users().value();
  EXPECT_EQ(users[0].tenant, 1U);
  EXPECT_EQ(users[1].tenant, 7U);
  EXPECT_EQ(users[2].tenant, 8U);
  EXPECT_EQ(users[1].tasks, shared.tasks);
  EXPECT_EQ(users[1].max_upload_bytes, 5'000'000U);
}

TEST_F(AccountsTest, ChangesTheLimitsThatAreNamedAndNoOthers) {
  auto accounts = open();
  User maria = named("maria");
  maria.weight = 2;
  maria.max_priority = 7;
  maria.max_held_bytes = 1 << 20;
  ASSERT_TRUE(accounts->add_user(maria, kPassword));
  Accounts::Limits limits;
  limits.max_priority = 255;
  limits.max_requests = 9;
  ASSERT_TRUE(accounts->set_limits("maria", limits));
  const User now = accounts->user("maria").value().value();
  EXPECT_EQ(now.weight, 2U);
  EXPECT_EQ(now.max_priority, 255);
  EXPECT_EQ(now.max_requests, 9U);
  EXPECT_EQ(now.max_held_bytes, 1U << 20);
  EXPECT_EQ(accounts->set_limits("nobody", limits).error().code, Errc::not_found);
  limits.weight = 0;
  EXPECT_EQ(accounts->set_limits("maria", limits).error().code, Errc::bad_input);
}

TEST_F(AccountsTest, OwnStepsAreAllowedWhenSomebodySaysSo) {
  auto accounts = open();
  ASSERT_TRUE(accounts->add_user(named("maria"), kPassword));
  EXPECT_FALSE(accounts->user("maria").value()->own_steps);
  Accounts::Limits limits;
  limits.own_steps = true;
  ASSERT_TRUE(accounts->set_limits("maria", limits));
  EXPECT_TRUE(accounts->user("maria").value()->own_steps);
  limits = {};
  limits.weight = 3;
  ASSERT_TRUE(accounts->set_limits("maria", limits));
  EXPECT_TRUE(accounts->users().value().at(0).own_steps) << "what was not said stays";
  User hans = named("hans");
  hans.own_steps = true;
  ASSERT_TRUE(accounts->add_user(hans, kPassword));
  EXPECT_TRUE(accounts->user("hans").value()->own_steps);
}

TEST_F(AccountsTest, AFileOfASchemaInBetweenIsBroughtUpToDate) {
  {
    auto accounts = open();
    User maria = named("maria");
    maria.max_priority = 7;
    ASSERT_TRUE(accounts->add_user(maria, kPassword));
  }
  {
    auto old = sqlite::Database::open(file_, false);
    ASSERT_TRUE(old);
    ASSERT_TRUE(old.value().run("ALTER TABLE users DROP COLUMN own_steps; PRAGMA user_version=2;"));
  }
  auto accounts = open();
  ASSERT_TRUE(accounts);
  EXPECT_EQ(accounts->user("maria").value()->max_priority, 7);
  EXPECT_FALSE(accounts->user("maria").value()->own_steps);
}

TEST_F(AccountsTest, AFileOfTheFirstSchemaIsBroughtUpToDate) {
  {
    auto accounts = open();
    ASSERT_TRUE(accounts->add_user(named("maria"), kPassword));
  }
  {
    auto old = sqlite::Database::open(file_, false);
    ASSERT_TRUE(old);
    ASSERT_TRUE(
        old.value().run("ALTER TABLE users DROP COLUMN max_priority; ALTER TABLE users DROP COLUMN "
                        "max_held_bytes; ALTER TABLE users DROP COLUMN own_steps; PRAGMA user_version=1;"));
  }
  auto accounts = open();
  ASSERT_TRUE(accounts);
  EXPECT_EQ(accounts->user("maria").value()->max_priority, 0);
  EXPECT_FALSE(accounts->user("maria").value()->own_steps);
  EXPECT_TRUE(accounts->check_password("maria", kPassword));
}

TEST_F(AccountsTest, ADeviceLogsInForItsOwnUserUntilItIsRevokedAndNeverAgain) {
  auto accounts = open();
  const auto key = link::make_signing_keys().public_key;
  ASSERT_TRUE(accounts->add_user(named("maria"), kPassword));
  ASSERT_TRUE(accounts->add_user(named("hans"), kPassword));
  ASSERT_TRUE(accounts->enrol("maria", "cam", key));
  EXPECT_TRUE(accounts->login("maria", key));
  EXPECT_EQ(accounts->login("hans", key).error().code, Errc::auth_failed);
  EXPECT_EQ(accounts->login("nobody", key).error().code, Errc::auth_failed);
  EXPECT_EQ(accounts->enrol("hans", "cam", key).error().code, Errc::not_allowed);
  ASSERT_TRUE(accounts->revoke_device(key));
  EXPECT_EQ(accounts->login("maria", key).error().code, Errc::auth_failed);
  EXPECT_EQ(accounts->enrol("maria", "cam", key).error().code, Errc::not_allowed);
  EXPECT_EQ(accounts->revoked(10).value(), std::vector<PublicKey>{key});
}

TEST_F(AccountsTest, EnrollingADeviceNameAgainReplacesAndRevokesItsOlderKey) {
  auto accounts = open();
  const auto old_key = link::make_signing_keys().public_key;
  const auto new_key = link::make_signing_keys().public_key;
  ASSERT_TRUE(accounts->add_user(named("maria"), kPassword));
  ASSERT_TRUE(accounts->enrol("maria", "cam", old_key));
  ASSERT_TRUE(accounts->enrol("maria", "cam", new_key));
  ASSERT_TRUE(accounts->enrol("maria", "cam", new_key));  // the same once more changes nothing
  EXPECT_FALSE(accounts->login("maria", old_key));
  EXPECT_TRUE(accounts->login("maria", new_key));
  EXPECT_EQ(accounts->users().value()[0].devices, 1U);
}

TEST_F(AccountsTest, DisablingAndRemovingUsersShutsTheirDevicesOut) {
  auto accounts = open();
  const auto key = link::make_signing_keys().public_key;
  ASSERT_TRUE(accounts->add_user(named("maria"), kPassword));
  ASSERT_TRUE(accounts->enrol("maria", "cam", key));
  ASSERT_TRUE(accounts->set_disabled("maria", true));
  EXPECT_EQ(accounts->login("maria", key).error().code, Errc::not_allowed);
  EXPECT_EQ(accounts->check_password("maria", kPassword).error().code, Errc::not_allowed);
  EXPECT_EQ(accounts->revoked(10).value().size(), 1U);
  ASSERT_TRUE(accounts->set_disabled("maria", false));
  EXPECT_TRUE(accounts->login("maria", key));
  EXPECT_TRUE(accounts->revoked(10).value().empty());
  ASSERT_TRUE(accounts->remove_user("maria"));
  EXPECT_FALSE(accounts->login("maria", key));
  ASSERT_TRUE(accounts->add_user(named("maria"), kPassword));  // a new account, to which the old devices do not belong
  EXPECT_FALSE(accounts->login("maria", key));
}

TEST_F(AccountsTest, ARemovedNodeIsRefusedUntilItIsAddedAgain) {
  auto accounts = open();
  const auto key = link::make_signing_keys().public_key;
  ASSERT_TRUE(accounts->add_node("barn", key));
  EXPECT_EQ(accounts->add_node("barn", link::make_signing_keys().public_key).error().code, Errc::not_allowed);
  EXPECT_EQ(accounts->node(key).value().name, "barn");
  ASSERT_TRUE(accounts->remove_node("barn"));
  EXPECT_EQ(accounts->node(key).error().code, Errc::auth_failed);
  EXPECT_EQ(accounts->remove_node("barn").error().code, Errc::not_found);
  ASSERT_TRUE(accounts->add_node("stable", key));
  EXPECT_EQ(accounts->node(key).value().name, "stable");
}

TEST_F(AccountsTest, RegisteringTheLocalNodeIsIdempotentAndRespectsItsRemoval) {
  config::StateDir state{folder_.path()};
  ASSERT_TRUE(register_local_node(state, "node-1"));
  ASSERT_TRUE(register_local_node(state, "node-1"));
  ASSERT_TRUE(register_local_node(state, "renamed"));
  auto accounts = open();
  ASSERT_EQ(accounts->nodes().value().size(), 1U);
  EXPECT_EQ(accounts->nodes().value()[0].name, "renamed");
  ASSERT_TRUE(accounts->remove_node("renamed"));
  EXPECT_EQ(register_local_node(state, "renamed").error().code, Errc::not_allowed);
}

TEST_F(AccountsTest, SeesWhatAnotherConnectionChanges) {
  auto central = open();
  auto command_line = open();
  const std::int64_t before = central->version().value();
  EXPECT_EQ(central->version().value(), before);
  ASSERT_TRUE(command_line->add_user(named("maria"), kPassword));
  EXPECT_NE(central->version().value(), before);
  EXPECT_TRUE(central->user("maria").value().has_value());
}

TEST_F(AccountsTest, TheFileIsReadableByItsOwnerOnly) {
  auto accounts = open();
  ASSERT_TRUE(accounts->add_user(named("maria"), kPassword));
  for (const char* ending : {"", ".backup"}) {
    const auto mode = fs::status(file_.string() + ending).permissions();
    EXPECT_EQ(mode & fs::perms::mask, fs::perms::owner_read | fs::perms::owner_write) << ending;
  }
}

class DamagedAccountsTest : public AccountsTest, public ::testing::WithParamInterface<const char*> {
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

TEST_F(AccountsTest, AFileOfALaterVersionIsRefusedAndKept) {
  open();
  ASSERT_EQ(std::system(("python3 -c \"import sqlite3; c = sqlite3.connect('" + file_.string() +
                         "'); c.execute('pragma user_version=99'); c.commit()\"")
                            .c_str()),
            0);
  EXPECT_EQ(Accounts::open(file_, OnDamage::restore).error().code, Errc::unsupported_version);
}

}  // namespace
}  // namespace gearbox::central
