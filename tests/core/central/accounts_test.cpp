#include "central/accounts.hpp"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "gearbox/base/clock.hpp"
#include "gearbox/link/keys.hpp"
#include "kinds.hpp"
#include "sqlite/sqlite.hpp"
#include "support/temp_dir.hpp"

namespace gearbox::central {
namespace {

using test::as_administrator;
using test::Kind;
constexpr const char* kPassword = "correct horse";

class AccountsTest : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    std::string missing;
    place_ = test::empty_place(GetParam(), folder_.path(), missing);
    if (!missing.empty()) GTEST_SKIP() << missing;
  }
  std::unique_ptr<Accounts> open() {
    auto opened = Accounts::open(place_, OnDamage::refuse);
    EXPECT_TRUE(opened) << opened.error().detail;
    return opened ? std::move(opened).value() : nullptr;
  }
  static User named(const std::string& name) {
    User user;
    user.name = name;
    return user;
  }
  /// What an older Gearbox would have left: `columns` of the table users are not there, and the schema has that number.
  void make_older(const std::vector<std::string>& columns, int schema) {
    std::string sql;
    for (const std::string& column : columns) sql += "ALTER TABLE users DROP COLUMN " + column + ";";
    if (place_.is_shared()) {
      as_administrator(sql + "UPDATE central SET schema = " + std::to_string(schema));
      return;
    }
    auto old = sqlite::Database::open(place_.file, false);
    ASSERT_TRUE(old);
    ASSERT_TRUE(old.value().run(sql + "PRAGMA user_version=" + std::to_string(schema)));
  }
  gearbox::testing::TempDir folder_;
  AccountsPlace place_;
};

TEST_P(AccountsTest, ChecksPasswordsAndAnswersUnknownUsersTheSameWay) {
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

TEST_P(AccountsTest, AnUnknownUserCostsAsMuchTimeAsAWrongPassword) {
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

TEST_P(AccountsTest, RefusesBadNamesShortPasswordsAndTakenNames) {
  auto accounts = open();
  EXPECT_EQ(accounts->add_user(named("../x"), kPassword).error().code, Errc::bad_name);
  EXPECT_EQ(accounts->add_user(named("maria"), "short").error().code, Errc::bad_input);
  EXPECT_EQ(accounts->add_user(named("maria"), "with a line\nbreak").error().code, Errc::bad_input);
  ASSERT_TRUE(accounts->add_user(named("maria"), kPassword));
  EXPECT_EQ(accounts->add_user(named("maria"), kPassword).error().code, Errc::not_allowed);
  EXPECT_EQ(accounts->set_password("nobody", kPassword).error().code, Errc::not_found);
  EXPECT_EQ(accounts->users().value().size(), 1U);
}

TEST_P(AccountsTest, GivesEachUserATenantOfItsOwnUnlessOneIsNamed) {
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

TEST_P(AccountsTest, ChangesTheLimitsThatAreNamedAndNoOthers) {
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

TEST_P(AccountsTest, OwnStepsAreAllowedWhenSomebodySaysSo) {
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

TEST_P(AccountsTest, OnesOfASchemaInBetweenAreBroughtUpToDate) {
  {
    auto accounts = open();
    User maria = named("maria");
    maria.max_priority = 7;
    ASSERT_TRUE(accounts->add_user(maria, kPassword));
  }
  make_older({"own_steps"}, 2);
  auto accounts = open();
  ASSERT_TRUE(accounts);
  EXPECT_EQ(accounts->user("maria").value()->max_priority, 7);
  EXPECT_FALSE(accounts->user("maria").value()->own_steps);
}

TEST_P(AccountsTest, OnesOfTheFirstSchemaAreBroughtUpToDate) {
  {
    auto accounts = open();
    ASSERT_TRUE(accounts->add_user(named("maria"), kPassword));
  }
  make_older({"max_priority", "max_held_bytes", "own_steps"}, 1);
  auto accounts = open();
  ASSERT_TRUE(accounts);
  EXPECT_EQ(accounts->user("maria").value()->max_priority, 0);
  EXPECT_FALSE(accounts->user("maria").value()->own_steps);
  EXPECT_TRUE(accounts->check_password("maria", kPassword));
}

TEST_P(AccountsTest, ADeviceLogsInForItsOwnUserUntilItIsRevokedAndNeverAgain) {
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

TEST_P(AccountsTest, EnrollingADeviceNameAgainReplacesAndRevokesItsOlderKey) {
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

TEST_P(AccountsTest, DisablingAndRemovingUsersShutsTheirDevicesOut) {
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

TEST_P(AccountsTest, ARemovedNodeIsRefusedUntilItIsAddedAgain) {
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

TEST_P(AccountsTest, RegisteringTheLocalNodeIsIdempotentAndRespectsItsRemoval) {
  config::StateDir state{folder_.path()};
  ASSERT_TRUE(register_local_node(state, place_, "node-1"));
  ASSERT_TRUE(register_local_node(state, place_, "node-1"));
  ASSERT_TRUE(register_local_node(state, place_, "renamed"));
  auto accounts = open();
  ASSERT_EQ(accounts->nodes().value().size(), 1U);
  EXPECT_EQ(accounts->nodes().value()[0].name, "renamed");
  ASSERT_TRUE(accounts->remove_node("renamed"));
  EXPECT_EQ(register_local_node(state, place_, "renamed").error().code, Errc::not_allowed);
}

TEST_P(AccountsTest, SeesWhatAnotherConnectionChanges) {
  auto central = open();
  auto command_line = open();
  const std::int64_t before = central->version().value();
  EXPECT_EQ(central->version().value(), before);
  ASSERT_TRUE(command_line->add_user(named("maria"), kPassword));
  EXPECT_NE(central->version().value(), before);
  EXPECT_TRUE(central->user("maria").value().has_value());
}

TEST_P(AccountsTest, OnesOfALaterSchemaAreRefusedAndLeftAlone) {
  {
    auto accounts = open();
    ASSERT_TRUE(accounts->add_user(named("maria"), kPassword));
  }
  make_older({}, 99);
  const auto refused = Accounts::open(place_, OnDamage::restore);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::unsupported_version);
  make_older({}, 4);
  EXPECT_TRUE(open()->user("maria").value());
}

TEST_P(AccountsTest, WhatADeviceIsSeenToBeIsNotedAndReplaced) {
  auto accounts = open();
  const auto key = link::make_signing_keys().public_key;
  ASSERT_TRUE(accounts->add_user(named("maria"), kPassword));
  ASSERT_TRUE(accounts->enrol("maria", "cam", key));
  ASSERT_TRUE(accounts->saw_devices({{key, {7, "10.0.0.1:5", "client 1"}}}));
  ASSERT_TRUE(
      accounts->saw_devices({{key, {9, "10.0.0.2:6", "client 2"}}, {link::make_signing_keys().public_key, {}}}));
  const auto devices = accounts->devices().value();
  ASSERT_EQ(devices.size(), 1U);
  EXPECT_EQ(devices[0].last_seen_unix_ms, 9);
  EXPECT_EQ(devices[0].address, "10.0.0.2:6");
  EXPECT_EQ(devices[0].agent, "client 2");
}

TEST_P(AccountsTest, ManyDevicesThatWereSeenAreNotedInPortionsUntilTheDeadline) {
  auto accounts = open();
  std::vector<std::pair<PublicKey, DeviceContact>> seen(600);
  for (auto& [key, contact] : seen) key = link::make_signing_keys().public_key;
  ASSERT_TRUE(accounts->add_user(named("maria"), kPassword));
  ASSERT_TRUE(accounts->enrol("maria", "first", seen.front().first));
  ASSERT_TRUE(accounts->enrol("maria", "last", seen.back().first));
  const auto write = [&](std::int64_t unix_ms, Instant deadline) {
    for (auto& [key, contact] : seen) contact = {unix_ms, "10.0.0." + std::to_string(unix_ms), "client"};
    const auto written = accounts->saw_devices(seen, deadline);
    EXPECT_TRUE(written) << written.error().detail;
    return written ? written.value() : 0;
  };
  const auto noted = [&] {
    std::string all;
    const auto devices = accounts->devices().value();
    for (const Device& device : devices) {
      all += device.name + " " + std::to_string(device.last_seen_unix_ms) + " " + device.address + ";";
    }
    return all;
  };
  EXPECT_EQ(write(1, Instant::max()), 600U);
  EXPECT_EQ(noted(), "first 1 10.0.0.1;last 1 10.0.0.1;");
  EXPECT_EQ(write(2, Clock::now() - seconds{1}), 256U) << "the first portion, and no other";
  EXPECT_EQ(noted(), "first 2 10.0.0.2;last 1 10.0.0.1;");
}

TEST_P(AccountsTest, TwoThatWriteAtTheSameTimeBothDo) {
  auto one = open();
  auto other = open();
  constexpr int kEach = 20;
  const auto write = [](Accounts& accounts, const char* prefix) {
    for (int i = 0; i < kEach; ++i) {
      const auto added = accounts.add_node(prefix + std::to_string(i), link::make_signing_keys().public_key);
      EXPECT_TRUE(added) << added.error().detail;
    }
  };
  std::thread beside([&] { write(*other, "b"); });
  write(*one, "a");
  beside.join();
  EXPECT_EQ(one->nodes().value().size(), 2U * kEach);
}

INSTANTIATE_TEST_SUITE_P(On, AccountsTest, ::testing::Values(Kind::sqlite, Kind::postgres), test::name_of);

}  // namespace
}  // namespace gearbox::central
