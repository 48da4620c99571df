#include "central/accounts.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>
#include <variant>

#include "central/accounts_database.hpp"
#include "central/accounts_file.hpp"
#include "central/accounts_state.hpp"
#include "central/passwords.hpp"
#include "gearbox/base/clock.hpp"
#include "gearbox/base/text.hpp"
#include "gearbox/link/keys.hpp"
#include "sql/sqlite_connection.hpp"

namespace gearbox::central {

namespace {

constexpr const char* kUserColumns =
    "name, tenant, weight, tasks, max_requests, max_upload_bytes, created, disabled, max_priority, max_held_bytes, "
    "own_steps";
constexpr int kUserColumnCount = 11;
constexpr std::size_t kMaxTasks = 256;
constexpr std::size_t kContactsAtOnce = 256;  // in one transaction

std::int64_t wall_clock_ms() {
  return std::chrono::duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : " ") + name;
  return text;
}

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> names;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (end > 0) names.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return names;
}

User user_from(const sql::Statement& row) {
  User user;
  user.name = row.text(0);
  user.tenant = static_cast<std::uint32_t>(row.integer(1));
  user.weight = static_cast<std::uint32_t>(row.integer(2));
  user.tasks = split(row.text(3));
  user.max_requests = static_cast<std::uint32_t>(row.integer(4));
  user.max_upload_bytes = static_cast<std::uint64_t>(row.integer(5));
  user.created_unix_ms = row.integer(6);
  user.disabled = row.integer(7) != 0;
  user.max_priority = static_cast<std::uint8_t>(row.integer(8));
  user.max_held_bytes = static_cast<std::uint64_t>(row.integer(9));
  user.own_steps = row.integer(10) != 0;
  return user;
}

Error no_such(const char* what, std::string_view name) {
  return Error{Errc::not_found, std::string("there is no ") + what + " '" + escaped(name, kMaxNameBytes) + "'"};
}

Outcome<void> check_tasks(const std::vector<std::string>& tasks) {
  if (tasks.empty() || tasks.size() > kMaxTasks) {
    return Error{Errc::bad_input, "tasks: 1 to " + std::to_string(kMaxTasks) + " names, or '*' for all"};
  }
  for (const std::string& task : tasks) {
    if (task == "*") continue;
    BOOST_OUTCOME_TRY(check_name("task", task));
  }
  return done();
}

/// The database has no larger numbers.
Outcome<void> check_bytes(const char* what, std::uint64_t bytes) {
  if (bytes <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return done();
  return Error{Errc::bad_input, std::string(what) + " is too large"};
}

/// One answer for a device that cannot be let in, whether or not the account exists.
Error not_enrolled(std::string_view user) {
  return Error{Errc::auth_failed, "this device is not enrolled for '" + escaped(user, kMaxNameBytes) +
                                      "', or was revoked: enrol it (again, with a new key)"};
}

}  // namespace

Accounts::Accounts(std::unique_ptr<State> state) : state_(std::move(state)) {}
Accounts::~Accounts() = default;

Outcome<std::unique_ptr<Accounts>> Accounts::open(const std::filesystem::path& file, OnDamage on_damage) {
  AccountsPlace place;
  place.file = file;
  return open(place, on_damage);
}

Outcome<std::unique_ptr<Accounts>> Accounts::open(const AccountsPlace& place, OnDamage on_damage) {
  link::crypto_ready();
  auto state = std::make_unique<State>();
  if (place.is_shared()) {
    BOOST_OUTCOME_TRY(state->database, open_accounts_database(place));
  } else {
    state->file = place.file;
    BOOST_OUTCOME_TRY(auto file, open_accounts_file(place.file, on_damage));
    state->database = sql::connection_to(std::move(file));
  }
  sql::Connection& db = *state->database;
  const std::string user_by_name = std::string("SELECT ") + kUserColumns + " FROM users WHERE name = ?1";
  BOOST_OUTCOME_TRY(state->password, db.prepare("SELECT hash FROM users WHERE name = ?1"));
  BOOST_OUTCOME_TRY(state->user, db.prepare(user_by_name));
  BOOST_OUTCOME_TRY(state->login, db.prepare(R"(SELECT revoked FROM devices WHERE key = ?1 AND "user" = ?2)"));
  BOOST_OUTCOME_TRY(state->node, db.prepare("SELECT key, name, created, revoked FROM nodes WHERE key = ?1"));
  BOOST_OUTCOME_TRY(state->version, db.prepare(place.is_shared() ? kChangesOfAll : "PRAGMA data_version"));
  BOOST_OUTCOME_TRY(state->next_command, db.prepare("SELECT number, words FROM commands WHERE device = ?1 AND answered "
                                                    "= 0 AND created > ?2 ORDER BY number LIMIT 1"));
  return std::unique_ptr<Accounts>(new Accounts(std::move(state)));
}

Outcome<void> Accounts::keep_copy() {
  if (state_->file.empty()) return done();
  // The change itself is already safe in the database; a copy that cannot be written is worth a warning, not a refusal.
  if (Outcome<void> kept = copy_accounts_file(*state_->database, state_->file); !kept) {
    spdlog::warn("event=accounts_copy_failed reason=\"{}\"", escaped(describe(kept.error())));
  }
  return done();
}

Outcome<void> Accounts::add_user(User user, std::string_view password) {
  BOOST_OUTCOME_TRY(check_name("user", user.name));
  BOOST_OUTCOME_TRY(check_tasks(user.tasks));
  if (user.weight == 0) return Error{Errc::bad_input, "weight: at least 1"};
  BOOST_OUTCOME_TRY(check_bytes("max_upload_bytes", user.max_upload_bytes));
  BOOST_OUTCOME_TRY(check_bytes("max_held_bytes", user.max_held_bytes));
  BOOST_OUTCOME_TRY(check_new_password(password));
  BOOST_OUTCOME_TRY(const std::string hash, hash_password(password));
  sql::Transaction transaction(*state_->database);
  BOOST_OUTCOME_TRY(transaction.begin());
  if (user.tenant == 0) {
    BOOST_OUTCOME_TRY(auto highest, state_->database->prepare("SELECT coalesce(max(tenant), 0) FROM users"));
    BOOST_OUTCOME_TRY(highest.first());
    user.tenant = static_cast<std::uint32_t>(highest.integer(0)) + 1;
  }
  BOOST_OUTCOME_TRY(
      auto insert,
      state_->database->prepare(
          "INSERT INTO users(name, hash, tenant, weight, tasks, max_requests, max_upload_bytes, created, disabled, "
          "max_priority, max_held_bytes, own_steps) VALUES(?1,?2,?3,?4,?5,?6,?7,?8,0,?9,?10,?11) "
          "ON CONFLICT DO NOTHING"));
  BOOST_OUTCOME_TRY(insert.first(user.name, hash, std::int64_t{user.tenant}, std::int64_t{user.weight},
                                 join(user.tasks), std::int64_t{user.max_requests},
                                 static_cast<std::int64_t>(user.max_upload_bytes), wall_clock_ms(),
                                 std::int64_t{user.max_priority}, static_cast<std::int64_t>(user.max_held_bytes),
                                 std::int64_t{user.own_steps ? 1 : 0}));
  if (state_->database->changed_rows() == 0)
    return Error{Errc::not_allowed, "there is already a user '" + user.name + "'"};
  BOOST_OUTCOME_TRY(transaction.commit());
  return keep_copy();
}

Outcome<void> Accounts::set_password(std::string_view name, std::string_view password) {
  BOOST_OUTCOME_TRY(const auto known, user(name));
  if (!known) return no_such("user", name);
  BOOST_OUTCOME_TRY(check_new_password(password));
  BOOST_OUTCOME_TRY(const std::string hash, hash_password(password));
  sql::Transaction transaction(*state_->database);
  BOOST_OUTCOME_TRY(transaction.begin());
  BOOST_OUTCOME_TRY(auto update, state_->database->prepare("UPDATE users SET hash = ?2 WHERE name = ?1"));
  BOOST_OUTCOME_TRY(update.first(name, hash));
  if (state_->database->changed_rows() == 0) return no_such("user", name);
  BOOST_OUTCOME_TRY(transaction.commit());
  return keep_copy();
}

Outcome<void> Accounts::set_disabled(std::string_view name, bool disabled) {
  sql::Transaction transaction(*state_->database);
  BOOST_OUTCOME_TRY(transaction.begin());
  BOOST_OUTCOME_TRY(auto update, state_->database->prepare("UPDATE users SET disabled = ?2 WHERE name = ?1"));
  BOOST_OUTCOME_TRY(update.first(name, std::int64_t{disabled ? 1 : 0}));
  if (state_->database->changed_rows() == 0) return no_such("user", name);
  BOOST_OUTCOME_TRY(transaction.commit());
  return keep_copy();
}

Outcome<void> Accounts::set_limits(std::string_view name, const Limits& limits) {
  if (limits.weight == 0U) return Error{Errc::bad_input, "weight: at least 1"};
  BOOST_OUTCOME_TRY(check_bytes("max_upload_bytes", limits.max_upload_bytes.value_or(0)));
  BOOST_OUTCOME_TRY(check_bytes("max_held_bytes", limits.max_held_bytes.value_or(0)));
  sql::Transaction transaction(*state_->database);
  BOOST_OUTCOME_TRY(transaction.begin());
  BOOST_OUTCOME_TRY(const auto known, user(name));
  if (!known) return no_such("user", name);
  BOOST_OUTCOME_TRY(
      auto update, state_->database->prepare("UPDATE users SET weight = ?2, max_requests = ?3, max_upload_bytes = ?4, "
                                             "max_held_bytes = ?5, max_priority = ?6, own_steps = ?7 WHERE name = ?1"));
  BOOST_OUTCOME_TRY(update.first(name, std::int64_t{limits.weight.value_or(known->weight)},
                                 std::int64_t{limits.max_requests.value_or(known->max_requests)},
                                 static_cast<std::int64_t>(limits.max_upload_bytes.value_or(known->max_upload_bytes)),
                                 static_cast<std::int64_t>(limits.max_held_bytes.value_or(known->max_held_bytes)),
                                 std::int64_t{limits.max_priority.value_or(known->max_priority)},
                                 std::int64_t{limits.own_steps.value_or(known->own_steps) ? 1 : 0}));
  BOOST_OUTCOME_TRY(transaction.commit());
  return keep_copy();
}

Outcome<void> Accounts::remove_user(std::string_view name) {
  sql::Transaction transaction(*state_->database);
  BOOST_OUTCOME_TRY(transaction.begin());
  BOOST_OUTCOME_TRY(auto remove, state_->database->prepare("DELETE FROM users WHERE name = ?1"));
  BOOST_OUTCOME_TRY(remove.first(name));
  if (state_->database->changed_rows() == 0) return no_such("user", name);
  BOOST_OUTCOME_TRY(auto revoke,
                    state_->database->prepare("UPDATE devices SET revoked = (SELECT max(revoked) FROM devices) + 1 "
                                              "WHERE \"user\" = ?1 AND revoked = 0"));
  BOOST_OUTCOME_TRY(revoke.first(name));
  BOOST_OUTCOME_TRY(transaction.commit());
  return keep_copy();
}

Outcome<std::vector<User>> Accounts::users() {
  BOOST_OUTCOME_TRY(auto rows, state_->database->prepare(
                                   std::string("SELECT ") + kUserColumns +
                                   ", (SELECT count(*) FROM devices WHERE \"user\" = users.name AND revoked = 0) "
                                   "FROM users ORDER BY name"));
  std::vector<User> users;
  BOOST_OUTCOME_TRY(bool more, rows.first());
  while (more) {
    users.push_back(user_from(rows));
    users.back().devices = static_cast<std::uint32_t>(rows.integer(kUserColumnCount));
    BOOST_OUTCOME_TRY(more, rows.next());
  }
  return users;
}

Outcome<std::optional<User>> Accounts::user(std::string_view name) {
  BOOST_OUTCOME_TRY(const bool found, state_->user.first(name));
  std::optional<User> user;
  if (found) user = user_from(state_->user);
  state_->user.rewind();
  return user;
}

Outcome<User> Accounts::check_password(std::string_view name, std::string_view password) {
  std::string hash;
  BOOST_OUTCOME_TRY(const bool found, state_->password.first(name));
  if (found) hash = state_->password.text(0);
  state_->password.rewind();
  const bool right = password.size() <= kMaxPasswordBytes && password_matches(hash, password);
  if (!right) return Error{Errc::auth_failed, "unknown user or wrong password"};
  BOOST_OUTCOME_TRY(auto known, user(name));
  if (!known) return Error{Errc::auth_failed, "unknown user or wrong password"};  // removed in the meantime
  if (known->disabled) return Error{Errc::not_allowed, "the account '" + known->name + "' is disabled"};
  return std::move(*known);
}

Outcome<void> Accounts::enrol(std::string_view user, std::string_view device, const PublicKey& key) {
  BOOST_OUTCOME_TRY(check_name("device", device));
  const std::string hex = to_text(key);
  sql::Transaction transaction(*state_->database);
  BOOST_OUTCOME_TRY(transaction.begin());
  BOOST_OUTCOME_TRY(const auto account, this->user(user));  // it may have been removed since its password was checked
  if (!account) return not_enrolled(user);
  BOOST_OUTCOME_TRY(auto known, state_->database->prepare(R"(SELECT "user", revoked FROM devices WHERE key = ?1)"));
  BOOST_OUTCOME_TRY(const bool found, known.first(hex));
  if (found && known.integer(1) != 0) {
    return Error{Errc::not_allowed, "this device key was revoked: enrol with a new key"};
  }
  if (found && known.text(0) != user) {
    return Error{Errc::not_allowed, "this device key belongs to another account: enrol with a new key"};
  }
  known.rewind();
  BOOST_OUTCOME_TRY(auto replace,
                    state_->database->prepare("UPDATE devices SET revoked = (SELECT max(revoked) FROM devices) + 1 "
                                              "WHERE \"user\" = ?1 AND name = ?2 AND revoked = 0 AND key <> ?3"));
  BOOST_OUTCOME_TRY(replace.first(user, device, hex));
  BOOST_OUTCOME_TRY(auto upsert, state_->database->prepare("INSERT INTO devices VALUES(?1,?2,?3,?4,0,0) "
                                                           "ON CONFLICT(key) DO UPDATE SET name = excluded.name"));
  BOOST_OUTCOME_TRY(upsert.first(hex, user, device, wall_clock_ms()));
  BOOST_OUTCOME_TRY(transaction.commit());
  return keep_copy();
}

Outcome<User> Accounts::login(std::string_view user_name, const PublicKey& key) {
  BOOST_OUTCOME_TRY(const bool found, state_->login.first(to_text(key), user_name));
  const bool revoked = found && state_->login.integer(0) != 0;
  state_->login.rewind();
  if (!found || revoked) return not_enrolled(user_name);
  BOOST_OUTCOME_TRY(auto known, user(user_name));
  if (!known) return not_enrolled(user_name);
  if (known->disabled) return Error{Errc::not_allowed, "the account '" + known->name + "' is disabled"};
  return std::move(*known);
}

Outcome<std::vector<Device>> Accounts::devices() {
  BOOST_OUTCOME_TRY(auto rows,
                    state_->database->prepare("SELECT key, \"user\", name, created, last_seen, revoked, "
                                              "coalesce(address, ''), coalesce(agent, '') FROM devices "
                                              "LEFT JOIN contacts ON device = key ORDER BY \"user\", name, created"));
  std::vector<Device> devices;
  BOOST_OUTCOME_TRY(bool more, rows.first());
  while (more) {
    Device device;
    BOOST_OUTCOME_TRY(device.key, public_key_from(rows.text(0)));
    device.user = rows.text(1);
    device.name = rows.text(2);
    device.created_unix_ms = rows.integer(3);
    device.last_seen_unix_ms = rows.integer(4);
    device.revoked = rows.integer(5) != 0;
    device.address = rows.text(6);
    device.agent = rows.text(7);
    devices.push_back(std::move(device));
    BOOST_OUTCOME_TRY(more, rows.next());
  }
  return devices;
}

Outcome<void> Accounts::revoke_device(const PublicKey& key) {
  sql::Transaction transaction(*state_->database);
  BOOST_OUTCOME_TRY(transaction.begin());
  BOOST_OUTCOME_TRY(auto update, state_->database->prepare(
                                     "UPDATE devices SET revoked = CASE revoked WHEN 0 "
                                     "THEN (SELECT max(revoked) FROM devices) + 1 ELSE revoked END WHERE key = ?1"));
  BOOST_OUTCOME_TRY(update.first(to_text(key)));
  if (state_->database->changed_rows() == 0) return no_such("device", to_text(key));
  BOOST_OUTCOME_TRY(transaction.commit());
  return keep_copy();
}

Outcome<std::size_t> Accounts::saw_devices(const std::vector<std::pair<PublicKey, DeviceContact>>& contacts,
                                           Instant deadline) {
  // No transaction is long: it holds the lock that each other write waits for.
  std::size_t written = 0;
  while (written < contacts.size() && (written == 0 || Clock::now() < deadline)) {
    const std::size_t end = std::min(written + kContactsAtOnce, contacts.size());
    // One statement for all, since each one is a way to the database and back.
    std::string rows;
    std::vector<std::variant<std::string, std::int64_t>> values;
    const auto add = [&](std::variant<std::string, std::int64_t> value) {
      values.push_back(std::move(value));
      return "?" + std::to_string(values.size());
    };
    for (std::size_t i = written; i < end; ++i) {
      const auto& [key, contact] = contacts[i];
      rows += rows.empty() ? "(" : ", (";
      rows += add(to_text(key)) + ", ";
      rows += add(contact.unix_ms) + ", ";
      rows += add(contact.address) + ", ";
      rows += add(contact.agent) + ")";
    }
    sql::Transaction transaction(*state_->database);
    BOOST_OUTCOME_TRY(transaction.begin());
    BOOST_OUTCOME_TRY(auto update,
                      state_->database->prepare("UPDATE devices SET last_seen = seen.column2 FROM (VALUES " + rows +
                                                ") AS seen WHERE devices.key = seen.column1"));
    BOOST_OUTCOME_TRY(update.first_of(values));
    update.rewind();
    BOOST_OUTCOME_TRY(
        auto note,
        state_->database->prepare("INSERT INTO contacts SELECT devices.key, seen.column3, seen.column4 FROM devices, "
                                  "(VALUES " +
                                  rows +
                                  ") AS seen WHERE devices.key = seen.column1 ON CONFLICT(device) DO UPDATE SET "
                                  "address = excluded.address, agent = excluded.agent"));
    BOOST_OUTCOME_TRY(note.first_of(values));
    note.rewind();
    BOOST_OUTCOME_TRY(transaction.commit());  // no copy: nobody was promised anything
    written = end;
  }
  return written;
}

Outcome<std::vector<PublicKey>> Accounts::revoked(std::size_t limit) {
  BOOST_OUTCOME_TRY(auto rows, state_->database->prepare("SELECT key FROM devices WHERE revoked > 0 OR \"user\" IN "
                                                         "(SELECT name FROM users WHERE disabled <> 0) "
                                                         "ORDER BY revoked = 0 DESC, revoked DESC LIMIT ?1"));
  std::vector<PublicKey> keys;
  BOOST_OUTCOME_TRY(bool more, rows.first(static_cast<std::int64_t>(limit)));
  while (more) {
    BOOST_OUTCOME_TRY(const PublicKey key, public_key_from(rows.text(0)));
    keys.push_back(key);
    BOOST_OUTCOME_TRY(more, rows.next());
  }
  return keys;
}

Outcome<std::int64_t> Accounts::version() {
  BOOST_OUTCOME_TRY(state_->version.first());
  const std::int64_t version = state_->version.integer(0);
  state_->version.rewind();
  return version;
}

}  // namespace gearbox::central
