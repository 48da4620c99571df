// kinds.hpp: the two kinds of places that central's accounts may be in; what is promised of accounts holds on both.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "central/accounts_place.hpp"
#include "gearbox/base/clock.hpp"
#include "sql/pg_link.hpp"
#include "support/postgres_server.hpp"

namespace gearbox::central::test {

enum class Kind { sqlite, postgres };

inline std::string name_of(const ::testing::TestParamInfo<Kind>& kind) {
  return kind.param == Kind::sqlite ? "Sqlite" : "Postgres";
}

/// One statement as the database's own people would run it; its first value.
inline std::string as_administrator(const std::string& sql) {
  sql::PgLink link(gearbox::testing::PostgresServer::get().connection(), "SET search_path TO gearbox");
  const Instant deadline = after(Clock::now(), seconds{20});
  const auto connected = link.connect(deadline);
  EXPECT_TRUE(connected && connected.value()) << (connected ? "not in time" : connected.error().detail);
  if (!connected || !connected.value()) return {};
  const auto rows = link.run(sql, {}, deadline);
  EXPECT_TRUE(rows) << rows.error().detail;
  return rows && rows.value().count() > 0 ? rows.value().text(0, 0) : std::string();
}

/// An empty place of `kind`. On a machine without PostgreSQL `missing` says so.
inline AccountsPlace empty_place(Kind kind, const std::filesystem::path& folder, std::string& missing) {
  AccountsPlace place;
  place.file = folder / "central.db";
  if (kind == Kind::sqlite) return place;
  gearbox::testing::PostgresServer& server = gearbox::testing::PostgresServer::get();
  missing = server.missing();
  if (!missing.empty()) return place;
  as_administrator("DROP SCHEMA IF EXISTS gearbox CASCADE");
  place.database = server.connection();
  return place;
}

}  // namespace gearbox::central::test
