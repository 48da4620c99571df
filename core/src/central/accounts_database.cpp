#include "central/accounts_database.hpp"

#include <sodium.h>
#include <spdlog/spdlog.h>

#include <array>
#include <cstddef>
#include <functional>
#include <utility>

#include "central/accounts_schema.hpp"
#include "gearbox/base/clock.hpp"
#include "gearbox/base/ids.hpp"
#include "gearbox/base/text.hpp"
#include "gearbox/link/keys.hpp"
#include "sql/postgres_connection.hpp"

namespace gearbox::central {

namespace {

// Of a call on a thread that serves others meanwhile.
constexpr milliseconds kLoopStatement{1'000};
constexpr milliseconds kLoopConnect{100};

constexpr const char* kMakeSchema = "CREATE SCHEMA IF NOT EXISTS gearbox;";
constexpr const char* kLeaderTable =
    "CREATE TABLE central(one BIGINT PRIMARY KEY CHECK (one = 1), schema BIGINT NOT NULL, term BIGINT NOT NULL, "
    "changes BIGINT NOT NULL, channel_key TEXT NOT NULL, signing_key TEXT NOT NULL);"
    "INSERT INTO central VALUES(1, 0, 0, 0, '', '');";
constexpr const char* kInstallationColumn =
    "ALTER TABLE gearbox.central ADD COLUMN IF NOT EXISTS installation TEXT NOT NULL DEFAULT '';";
constexpr const char* kInstallation = "SELECT installation FROM gearbox.central";
// Whoever comes second waits until the first has made the tables. The numbers are this project's own.
constexpr const char* kOneMaker = "SELECT pg_advisory_xact_lock(1734697330, 2);";

constexpr seconds kSayAgain{10};

/// The log of a central that serves: a line when the reason changes, and one now and then.
std::function<void(const Error&)> log_teller() {
  return [last = std::string(), at = Instant()](const Error& error) mutable {
    const Instant now = Clock::now();
    if (error.detail == last && now < after(at, kSayAgain)) return;
    last = error.detail;
    at = now;
    spdlog::warn("event=database_failed code={} reason=\"{}\"", name_of(error.code), escaped(error.detail, 500));
  };
}

sql::PostgresSettings settings_of(const AccountsPlace& place) {
  sql::PostgresSettings settings;
  settings.connection = place.database;
  settings.set_up = database_set_up();
  settings.begin = "UPDATE gearbox.central SET changes = changes + 1";
  if (place.term != 0) settings.begin += " WHERE term = " + std::to_string(place.term);
  if (place.term != 0 || place.on_loop) settings.tell = log_teller();
  return settings;
}

/// -1: there is nothing yet.
Outcome<std::int64_t> schema_of(sql::Connection& database) {
  BOOST_OUTCOME_TRY(auto there, database.prepare("SELECT count(*) FROM pg_catalog.pg_tables WHERE schemaname = "
                                                 "'gearbox' AND tablename = 'central'"));
  BOOST_OUTCOME_TRY(there.first());
  if (there.integer(0) == 0) return -1;
  BOOST_OUTCOME_TRY(auto asked, database.prepare("SELECT schema FROM gearbox.central"));
  BOOST_OUTCOME_TRY(const bool row, asked.first());
  if (!row) return Error{Errc::corrupt_data, "the table gearbox.central has no row"};
  return asked.integer(0);
}

std::string new_installation() {
  link::crypto_ready();
  std::array<std::byte, 16> random{};
  ::randombytes_buf(random.data(), random.size());
  return to_hex(random);
}

Outcome<void> make_or_upgrade(sql::Connection& database) {
  BOOST_OUTCOME_TRY(database.run(std::string("BEGIN;") + kOneMaker));
  const auto work = [&]() -> Outcome<void> {
    BOOST_OUTCOME_TRY(std::int64_t version, schema_of(database));  // by now somebody else may have done it
    if (version < 0) {
      BOOST_OUTCOME_TRY(auto schema, database.prepare("SELECT count(*) FROM pg_catalog.pg_namespace WHERE nspname = "
                                                      "'gearbox'"));
      BOOST_OUTCOME_TRY(schema.first());
      // Asked first: making it needs a right on the database even where it is there already.
      BOOST_OUTCOME_TRY(database.run((schema.integer(0) == 0 ? kMakeSchema : std::string()) + kLeaderTable));
      version = 0;
    }
    if (version < kAccountsSchema) {
      BOOST_OUTCOME_TRY(database.run(schema_from(version, sql::Dialect::postgres) + kInstallationColumn +
                                     "UPDATE gearbox.central SET installation = '" + new_installation() +
                                     "' WHERE installation = '';" +
                                     "UPDATE gearbox.central SET schema = " + std::to_string(kAccountsSchema) + ";"));
    }
    return database.run("COMMIT");
  };
  Outcome<void> worked = work();
  if (!worked) database.roll_back();
  return worked;
}

Error of_a_later_version(std::int64_t version) {
  return Error{Errc::unsupported_version,
               "the accounts in the database were written by a later version of Gearbox (schema " +
                   std::to_string(version) + ")"};
}

}  // namespace

std::string database_set_up() {
  // Two waits for the row that each write locks, one of them for a writer that stands still and is then ended.
  return "SET search_path TO gearbox; SET client_min_messages TO warning; SET statement_timeout TO '2s'; "
         "SET lock_timeout TO '1500ms'; SET idle_in_transaction_session_timeout TO '5s'; "
         // The server ends sessions whose host fell silent: they would pile up until it takes no more, and one that has
         // the lock keeps it from all others. That takes longer than its holder itself takes to notice: it has stopped
         // by then.
         "SET tcp_keepalives_idle TO 3; SET tcp_keepalives_interval TO 1; SET tcp_keepalives_count TO 3; "
         "SET tcp_user_timeout TO 6000";
}

Outcome<void> check_installation(const AccountsPlace& place, const std::string& found) {
  if (place.installation.empty() || place.installation == found) return done();
  return Error{Errc::bad_config,
               (found.empty() ? std::string("the database has no accounts")
                              : "the database has the accounts of another installation (" + found + ")") +
                   ", this host's are those of installation " + place.installation +
                   ": restore them from a copy, or correct central.database; if these are to be left for good, stop "
                   "this central and remove the file 'accounts' from its state folder"};
}

Outcome<std::unique_ptr<sql::Connection>> open_accounts_database(const AccountsPlace& place) {
  sql::PostgresSettings settings = settings_of(place);
  std::unique_ptr<sql::Connection> database = sql::connection_to(settings);
  BOOST_OUTCOME_TRY(const std::int64_t version, schema_of(*database));
  if (version > kAccountsSchema) {
    return Error{Errc::unsupported_version,
                 "the accounts in the database were written by a later version of Gearbox "
                 "(schema " +
                     std::to_string(version) + ")"};
  }
  // Never taken as new: all accounts and revocations would be forgotten.
  if (version < 0) {
    BOOST_OUTCOME_TRY(check_installation(place, {}));
  }
  if (version < kAccountsSchema) {
    BOOST_OUTCOME_TRY(make_or_upgrade(*database));
  }
  BOOST_OUTCOME_TRY(auto installation, database->prepare(kInstallation));
  BOOST_OUTCOME_TRY(const bool row, installation.first());
  BOOST_OUTCOME_TRY(check_installation(place, row ? installation.text(0) : std::string()));
  installation.rewind();
  if (!place.on_loop) return database;
  settings.statement_within = kLoopStatement;
  settings.connect_within = kLoopConnect;
  settings.connects_on_a_thread = true;
  database = sql::connection_to(settings);
  return database;
}

Outcome<std::string> look_at_accounts_database(const AccountsPlace& place) {
  const std::unique_ptr<sql::Connection> database = sql::connection_to(settings_of(place));
  BOOST_OUTCOME_TRY(const std::int64_t version, schema_of(*database));
  if (version < 0) return std::string("there are no accounts in it yet");
  if (version > kAccountsSchema) return of_a_later_version(version);
  BOOST_OUTCOME_TRY(auto row, database->prepare("SELECT term FROM gearbox.central"));
  BOOST_OUTCOME_TRY(row.first());
  return "schema " + std::to_string(version) + ", term " + std::to_string(row.integer(0));
}

}  // namespace gearbox::central
