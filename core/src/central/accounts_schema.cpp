#include "central/accounts_schema.hpp"

#include <array>
#include <string_view>

namespace gearbox::central {

namespace {

/// Step N brings schema N to the next one. In SQLite's words.
constexpr std::array<const char*, kAccountsSchema> kSteps = {
    R"sql(
CREATE TABLE users(
  name TEXT PRIMARY KEY, hash TEXT NOT NULL, tenant INTEGER NOT NULL, weight INTEGER NOT NULL, tasks TEXT NOT NULL,
  max_requests INTEGER NOT NULL, max_upload_bytes INTEGER NOT NULL, created INTEGER NOT NULL, disabled INTEGER NOT NULL
) STRICT;
-- revoked: 0, or a number that rises with each revocation; a revoked key stays, so that it can never come back.
CREATE TABLE devices(
  key TEXT PRIMARY KEY, "user" TEXT NOT NULL, name TEXT NOT NULL, created INTEGER NOT NULL, last_seen INTEGER NOT NULL,
  revoked INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX device_names ON devices("user", name) WHERE revoked = 0;
CREATE INDEX device_revocations ON devices(revoked);
CREATE TABLE nodes(key TEXT PRIMARY KEY, name TEXT NOT NULL, created INTEGER NOT NULL, revoked INTEGER NOT NULL) STRICT;
CREATE UNIQUE INDEX node_names ON nodes(name) WHERE revoked = 0;
)sql",
    "ALTER TABLE users ADD COLUMN max_priority INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE users ADD COLUMN max_held_bytes INTEGER NOT NULL DEFAULT 0;",
    "ALTER TABLE users ADD COLUMN own_steps INTEGER NOT NULL DEFAULT 0;",
    // contacts: from where a device logged in last. commands: sent and answered are 0 as long as they were not.
    "CREATE TABLE IF NOT EXISTS contacts(device TEXT PRIMARY KEY, address TEXT NOT NULL, agent TEXT NOT NULL) STRICT;"
    "CREATE TABLE IF NOT EXISTS commands(device TEXT NOT NULL, number INTEGER NOT NULL, words TEXT NOT NULL, created "
    "INTEGER NOT NULL, sent INTEGER NOT NULL, answered INTEGER NOT NULL, ok INTEGER NOT NULL, answer TEXT NOT NULL, "
    "PRIMARY KEY(device, number)) STRICT, WITHOUT ROWID;",
    // expires: of the wall clock, for people, as of the last term.
    "CREATE TABLE IF NOT EXISTS leases(name TEXT PRIMARY KEY, holder TEXT NOT NULL, term INTEGER NOT NULL, ttl_ms "
    "INTEGER NOT NULL, expires INTEGER NOT NULL) STRICT;",
    // Of a database that is shared only: it knows which installation's it is (accounts_database.cpp).
    "",
};

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

}  // namespace

std::string schema_from(std::int64_t version, sql::Dialect dialect) {
  std::string all;
  for (std::int64_t at = version; at < kAccountsSchema; ++at) all += kSteps[static_cast<std::size_t>(at)];
  if (dialect == sql::Dialect::sqlite) return all;
  // SQLite's INTEGER has 64 bits.
  replace_all(all, "INTEGER", "BIGINT");
  replace_all(all, ") STRICT, WITHOUT ROWID;", ");");
  replace_all(all, ") STRICT;", ");");
  return all;
}

}  // namespace gearbox::central
