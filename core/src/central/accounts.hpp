// accounts.hpp: users, their devices, and the nodes that may register: what central keeps on disk.
//
// SQLite in WAL mode at StateDir::central_db(): central and the command line have it open at the same time. After each
// change that somebody was promised, a copy is kept beside it (FILE.backup); a file that turns out damaged is set aside
// and the copy takes its place, so that accounts are never silently reset. Or a PostgreSQL database, which the centrals
// of several hosts share, and whose copies are its administrator's business. An object belongs to one thread at a time.
//
// Besides what stands at each function: overloaded when the database is away or busy (try again); shutting_down when
// another central has taken over, so that this one may write nothing any more.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "central/accounts_place.hpp"
#include "config/state_dir.hpp"
#include "gearbox/base/clock.hpp"
#include "gearbox/base/ids.hpp"
#include "gearbox/base/outcome.hpp"
#include "gearbox/wire/command.hpp"

namespace gearbox::central {

struct User {
  std::string name;
  std::uint32_t tenant = 0;  // 0 when added: a number of its own
  std::uint32_t weight = 1;
  std::vector<std::string> tasks{"*"};  // "*" = all
  std::uint32_t max_requests = 0;       // open ones of its tenant; 0 = the node's own limit
  std::uint64_t max_upload_bytes = 0;   // of one request; 0 = the node's default
  std::int64_t created_unix_ms = 0;     // wall clock, for people only
  bool disabled = false;
  std::uint8_t max_priority = 0;     // a request that asks for more gets this
  std::uint64_t max_held_bytes = 0;  // of its tenant's open requests together; 0 = the node's own limit
  bool own_steps = false;            // its devices may send their own lists of steps, of any model
  std::uint32_t devices = 0;         // enrolled and not revoked; filled by users()
};

struct Device {
  PublicKey key;
  std::string user;
  std::string name;
  std::int64_t created_unix_ms = 0;    // both for people only
  std::int64_t last_seen_unix_ms = 0;  // 0: never
  bool revoked = false;
  std::string address, agent;  // of its last contact, as noted: from outside
};

/// A login of a device, for people.
struct DeviceContact {
  std::int64_t unix_ms = 0;
  std::string address, agent;
};

/// Something that people asked a device to do.
struct DeviceCommand {
  static constexpr std::size_t kMostWaiting = 32;  // for one device
  static constexpr std::size_t kMostKept = 96;     // of one device, with those that have ended
  static constexpr std::chrono::hours kWaitsFor{24 * 7};
  static constexpr std::chrono::hours kKeptFor{24 * 30};

  std::uint64_t number = 0;  // rises from command to command of a device, across a restored database, too
  std::vector<std::string> words;
  std::int64_t created_unix_ms = 0;
  std::int64_t sent_unix_ms = 0;      // last; 0: never
  std::int64_t answered_unix_ms = 0;  // 0: not yet
  bool ok = false;
  std::string answer;  // as the device gave it

  /// "waiting", "sent" (not answered yet), "done", "failed", or "expired": not answered in time, and not sent any more;
  /// it may have been carried out when it was sent.
  const char* state(std::int64_t now_unix_ms) const;
};

struct NodeEntry {
  PublicKey key;
  std::string name;
  std::int64_t created_unix_ms = 0;
  bool removed = false;
};

enum class OnDamage { restore, refuse };  // central at its start restores; everybody else refuses

class Accounts {
 public:
  /// Opens, or makes at first start (mode 0600). Errors: io_error; corrupt_data, which says what to do: the file is
  /// damaged and (restore) there is no usable copy, or (refuse) central has to be started first; unsupported_version.
  static Outcome<std::unique_ptr<Accounts>> open(const std::filesystem::path& file, OnDamage on_damage);
  /// The same wherever they are. Of a shared place also: overloaded (it is away); unsupported_version.
  static Outcome<std::unique_ptr<Accounts>> open(const AccountsPlace& place, OnDamage on_damage);
  ~Accounts();

  // --- users; each change: not_found when there is no such account
  /// Slow (hashes). Errors: bad_name, bad_input (password, tasks), not_allowed (the name is taken).
  Outcome<void> add_user(User user, std::string_view password);
  Outcome<void> set_password(std::string_view name, std::string_view password);
  Outcome<void> set_disabled(std::string_view name, bool disabled);
  /// What is set here is changed; devices get it with their next ticket.
  struct Limits {
    std::optional<std::uint32_t> weight, max_requests;
    std::optional<std::uint64_t> max_upload_bytes, max_held_bytes;
    std::optional<std::uint8_t> max_priority;
    std::optional<bool> own_steps;
  };
  Outcome<void> set_limits(std::string_view name, const Limits& limits);
  /// Also revokes the account's devices.
  Outcome<void> remove_user(std::string_view name);
  Outcome<std::vector<User>> users();
  Outcome<std::optional<User>> user(std::string_view name);

  /// Slow (hashes), and as slow for an account that does not exist.
  /// Errors: auth_failed (unknown account or wrong password, the same answer); not_allowed (right password, but
  /// disabled).
  Outcome<User> check_password(std::string_view name, std::string_view password);

  // --- devices
  /// Registers a device of an account whose password was checked. The same key again renames it; another key under the
  /// same device name replaces, and revokes, the older one. Errors: bad_name; not_allowed (key revoked, or another
  /// account's).
  Outcome<void> enrol(std::string_view user, std::string_view device, const PublicKey& key);
  /// The account that a device with a proven key speaks for. Errors: auth_failed, which does not tell whether the
  /// account exists; not_allowed when the account is disabled.
  Outcome<User> login(std::string_view user, const PublicKey& key);
  Outcome<std::vector<Device>> devices();
  Outcome<void> revoke_device(const PublicKey& key);  // not_found
  /// Each key at most once. In portions, none of which begins after `deadline` except for the first; tells how many of
  /// `contacts`, from the first on, were written.
  Outcome<std::size_t> saw_devices(const std::vector<std::pair<PublicKey, DeviceContact>>& contacts,
                                   Instant deadline = Instant::max());
  /// Revoked keys and those of disabled accounts, newest revocation first, at most `limit`.
  Outcome<std::vector<PublicKey>> revoked(std::size_t limit);

  // --- commands for devices (accounts_commands.cpp); `now` is the wall clock
  /// Keeps it for the device's next contact; returns its number. Errors: not_found (no such device, or revoked);
  /// bad_input (its words); overloaded (too many wait).
  Outcome<std::uint64_t> add_command(const PublicKey& device, const std::vector<std::string>& words,
                                     std::int64_t now_unix_ms);
  /// The oldest one that the device is to be sent.
  Outcome<std::optional<wire::Command>> next_command(const PublicKey& device, std::int64_t now_unix_ms);
  Outcome<void> command_sent(const PublicKey& device, std::uint64_t number, std::int64_t now_unix_ms);
  /// Durable when it returns; the first answer stays. False: it had one already, or there is no such command.
  Outcome<bool> command_answered(const PublicKey& device, const wire::CommandAnswer& answer, std::int64_t now_unix_ms);
  /// What is known of a device's commands, oldest first.
  Outcome<std::vector<DeviceCommand>> commands(const PublicKey& device);

  // --- nodes
  /// Also brings a removed node back. Errors: bad_name; not_allowed (the name belongs to another key).
  Outcome<void> add_node(std::string_view name, const PublicKey& key);
  Outcome<void> remove_node(std::string_view name);  // not_found
  Outcome<std::vector<NodeEntry>> nodes();           // removed ones too
  /// Errors: auth_failed when no such node is registered, or it was removed.
  Outcome<NodeEntry> node(const PublicKey& key);

  /// Another number when another connection, of this process or another, has changed anything. Cheap.
  Outcome<std::int64_t> version();

 private:
  struct State;
  explicit Accounts(std::unique_ptr<State> state);
  Outcome<void> keep_copy();
  std::unique_ptr<State> state_;
};

/// Registers this host's own node, whose key lies in the state folder (made when missing): `broker up` calls it before
/// it starts central. Errors: those of open() and add_node(); not_allowed when somebody removed it with `broker nodes
/// remove`.
Outcome<void> register_local_node(const config::StateDir& state, std::string_view name);
Outcome<void> register_local_node(const config::StateDir& state, const AccountsPlace& place, std::string_view name);

}  // namespace gearbox::central
