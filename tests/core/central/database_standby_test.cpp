#include "central/database_standby.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "gearbox/base/clock.hpp"
#include "serving/control_client.hpp"
#include "support/temp_dir.hpp"

namespace gearbox::central {
namespace {

class DatabaseStandbyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(state_.central_socket().parent_path());
    std::filesystem::permissions(state_.root, std::filesystem::perms::owner_all);
  }
  /// Stands by while the tries give `tries`, one after the other; `status_` is what it says before the last.
  Outcome<bool> stand_by(std::vector<Outcome<bool>> tries) {
    std::optional<serving::HoldSignals> held(std::in_place);
    const auto attempt = [this, tries = std::move(tries), next = std::size_t{0}]() mutable {
      if (next + 1 == tries.size()) {
        const auto status = serving::ask_control_now(state_.central_socket(), R"({"command":"status"})", seconds{10});
        status_ = status ? status.value() : status.error().detail;
      }
      tried_ = next + 1;
      return tries.at(next++);
    };
    return stand_by_database(state_, attempt, held);
  }
  gearbox::testing::TempDir folder_;
  config::StateDir state_{folder_.path()};
  std::string status_;
  std::size_t tried_ = 0;
};

TEST_F(DatabaseStandbyTest, WhatMayBeMendedAtTheDatabaseIsToldAndTriedAgain) {
  const auto ours = stand_by({Error{Errc::io_error, "permission denied for schema gearbox"},
                              Error{Errc::overloaded, "away"}, Error{Errc::no_space, "the disk is full"}, true});
  ASSERT_TRUE(ours) << ours.error().detail;
  EXPECT_TRUE(ours.value());
  EXPECT_EQ(tried_, 4U);
  EXPECT_NE(status_.find("the disk is full"), std::string::npos) << status_;
  EXPECT_NE(status_.find(R"("database_answers":false)"), std::string::npos) << status_;
}

TEST_F(DatabaseStandbyTest, WhatWaitingDoesNotMendEndsIt) {
  for (const Errc code : {Errc::wrong_server_key, Errc::unsupported_version}) {
    const auto ours = stand_by({false, Error{code, "for good"}});
    ASSERT_FALSE(ours);
    EXPECT_EQ(ours.error().code, code);
    EXPECT_EQ(tried_, 2U);
  }
}

}  // namespace
}  // namespace gearbox::central
