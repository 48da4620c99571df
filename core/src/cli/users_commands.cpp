// users add | set | list | passwd | disable | enable | remove
#include <boost/json/object.hpp>

#include <cstdint>
#include <memory>
#include <optional>

#include "central/passwords.hpp"
#include "cli/accounts_commands.hpp"
#include "gearbox/base/text.hpp"

namespace gearbox::cli {

namespace json = boost::json;
using central::Accounts;
using central::User;

namespace {

struct UserOptions {
  User user;
  std::uint64_t max_upload_mb = 0;
  std::uint64_t max_held_mb = 0;
  unsigned max_priority = 0;
  std::string password_file;
  std::string own_steps;  // "yes" or "no"
};

/// The options of `set`: those that were given.
struct SetOptions {
  std::optional<std::uint32_t> weight, max_requests;
  std::optional<std::uint64_t> max_upload_mb, max_held_mb;
  std::optional<unsigned> max_priority;
  std::string own_steps;  // "yes" or "no"; empty: as it is
};

void run_add(CliContext& context, UserOptions& options) {
  with_accounts(context, [&](Accounts& accounts, const config::StateDir&) -> Outcome<void> {
    // Asked before the password is, so that nobody types one in vain.
    BOOST_OUTCOME_TRY(check_name("user", options.user.name));
    BOOST_OUTCOME_TRY(const auto known, accounts.user(options.user.name));
    if (known) return Error{Errc::not_allowed, "there is already a user '" + options.user.name + "'"};
    BOOST_OUTCOME_TRY(const std::string password, read_password(options.password_file, true));
    options.user.max_upload_bytes = options.max_upload_mb << 20;
    options.user.max_held_bytes = options.max_held_mb << 20;
    options.user.max_priority = static_cast<std::uint8_t>(options.max_priority);
    options.user.own_steps = options.own_steps == "yes";
    BOOST_OUTCOME_TRY(accounts.add_user(options.user, password));
    say_done(context, "added user '" + options.user.name + "'; a device joins with: pi_client enrol --user " +
                          options.user.name);
    return done();
  });
}

void run_set(CliContext& context, const std::string& name, const SetOptions& options) {
  with_accounts(context, [&](Accounts& accounts, const config::StateDir&) -> Outcome<void> {
    const bool any = options.weight || options.max_requests || options.max_upload_mb || options.max_held_mb ||
                     options.max_priority || !options.own_steps.empty();
    if (!any) return Error{Errc::bad_input, "nothing to set was given; `broker users set --help` lists what there is"};
    Accounts::Limits limits;
    limits.weight = options.weight;
    limits.max_requests = options.max_requests;
    if (options.max_upload_mb) limits.max_upload_bytes = *options.max_upload_mb << 20;
    if (options.max_held_mb) limits.max_held_bytes = *options.max_held_mb << 20;
    if (options.max_priority) limits.max_priority = static_cast<std::uint8_t>(*options.max_priority);
    if (!options.own_steps.empty()) limits.own_steps = options.own_steps == "yes";
    BOOST_OUTCOME_TRY(accounts.set_limits(name, limits));
    say_done(context, "changed '" + name + "'; its devices get it with their next ticket");
    return done();
  });
}

void run_passwd(CliContext& context, const UserOptions& options) {
  with_accounts(context, [&](Accounts& accounts, const config::StateDir&) -> Outcome<void> {
    BOOST_OUTCOME_TRY(const auto known, accounts.user(options.user.name));
    if (!known) return Error{Errc::not_found, "there is no user '" + escaped(options.user.name, kMaxNameBytes) + "'"};
    BOOST_OUTCOME_TRY(const std::string password, read_password(options.password_file, true));
    BOOST_OUTCOME_TRY(accounts.set_password(options.user.name, password));
    say_done(context, "changed the password of '" + options.user.name + "'; enrolled devices stay enrolled");
    return done();
  });
}

std::string limit_text(std::uint64_t value) {
  return value == 0 ? "default" : std::to_string(value);
}

std::string size_text(std::uint64_t bytes) {
  return bytes == 0 ? "default" : bytes_text(bytes);
}

void run_list(CliContext& context) {
  with_accounts(context, [&](Accounts& accounts, const config::StateDir&) -> Outcome<void> {
    BOOST_OUTCOME_TRY(const auto users, accounts.users());
    json::array facts;
    Table table({"user", "state", ">devices", "tasks", "own steps", ">tenant", ">weight", ">priority", ">requests",
                 ">held", ">upload", "created"});
    for (const User& user : users) {
      facts.push_back(json::object{{"name", user.name},
                                   {"disabled", user.disabled},
                                   {"devices", user.devices},
                                   {"tasks", json::array(user.tasks.begin(), user.tasks.end())},
                                   {"tenant", user.tenant},
                                   {"weight", user.weight},
                                   {"max_requests", user.max_requests},
                                   {"max_upload_bytes", user.max_upload_bytes},
                                   {"own_steps", user.own_steps},
                                   {"max_held_bytes", user.max_held_bytes},
                                   {"max_priority", unsigned{user.max_priority}},
                                   {"created_unix_ms", user.created_unix_ms}});
      std::string tasks;
      for (const std::string& task : user.tasks) tasks += (tasks.empty() ? "" : ",") + task;
      table.add({user.name, user.disabled ? "disabled" : "active", std::to_string(user.devices), tasks,
                 user.own_steps ? "yes" : "no", std::to_string(user.tenant), std::to_string(user.weight),
                 std::to_string(user.max_priority), limit_text(user.max_requests), size_text(user.max_held_bytes),
                 size_text(user.max_upload_bytes), time_text(user.created_unix_ms)});
    }
    show(context, facts, table, "no users yet; add one with: broker users add NAME");
    return done();
  });
}

void run_simple(CliContext& context, const std::string& what, const std::function<Outcome<void>(Accounts&)>& change) {
  with_accounts(context, [&](Accounts& accounts, const config::StateDir&) -> Outcome<void> {
    BOOST_OUTCOME_TRY(change(accounts));
    say_done(context, what);
    return done();
  });
}

CLI::App* add_named(CLI::App& users, CliContext& context, UserOptions& options, const std::string& name,
                    const std::string& summary, const std::string& example) {
  CLI::App* command = add_command(users, context, name, summary, example, true);
  command->add_option("NAME", options.user.name, "the account's name")->required();
  return command;
}

CLI::Range weights() {
  return CLI::Range(1U, 1000U);
}
CLI::Range priorities() {
  return CLI::Range(0U, 255U);
}
CLI::Range requests() {
  return CLI::Range(0U, 1'000'000U);
}
CLI::Range megabytes() {
  return CLI::Range(std::uint64_t{0}, std::uint64_t{1} << 20);
}
constexpr const char* kWeightHelp = "share of busy workers, relative to other tenants";
constexpr const char* kPriorityHelp = "a request that asks for more gets this; higher goes first";
constexpr const char* kRequestsHelp = "open requests of its tenant at a node (0: the node's limit)";
constexpr const char* kHeldHelp = "MiB that its tenant's open requests may hold at a node (0: the node's limit)";
constexpr const char* kUploadHelp = "size of one request in MiB (0: the node's default)";

void add_own_steps_option(CLI::App& command, std::string& into) {
  command.add_option("--own-steps", into, "may its devices send their own lists of steps, of any model?")
      ->type_name("yes|no")
      ->check(CLI::IsMember({"yes", "no"}), "");
}

void add_set_command(CLI::App& users, CliContext& context, UserOptions& options) {
  CLI::App* set = add_named(users, context, options, "set", "change an account's share and limits",
                            "broker users set maria --weight 3 --max-priority 10");
  const auto changes = std::make_shared<SetOptions>();
  set->add_option("--weight", changes->weight, kWeightHelp)->check(weights());
  set->add_option("--max-priority", changes->max_priority, kPriorityHelp)->check(priorities());
  set->add_option("--max-requests", changes->max_requests, kRequestsHelp)->check(requests());
  set->add_option("--max-held-mb", changes->max_held_mb, kHeldHelp)->check(megabytes());
  set->add_option("--max-upload-mb", changes->max_upload_mb, kUploadHelp)->check(megabytes());
  add_own_steps_option(*set, changes->own_steps);
  set->callback([&context, &options, changes] { run_set(context, options.user.name, *changes); });
}

void add_password_option(CLI::App& command, UserOptions& options) {
  command
      .add_option("--password-file", options.password_file,
                  "read the password (" + std::to_string(central::kMinPasswordBytes) +
                      " bytes or more) from this file, or - for standard input; without it you are asked")
      ->type_name("FILE");
}

}  // namespace

void add_user_commands(CLI::App& app, CliContext& context) {
  CLI::App* users = app.add_subcommand("users", "accounts that devices enrol with");
  users->require_subcommand(1);
  users->footer("Example:\n  broker users add maria\n  broker users list --json");
  auto options = std::make_shared<UserOptions>();

  CLI::App* add = add_named(*users, context, *options, "add", "make an account",
                            "broker users add maria --task read-text --max-requests 8\n  broker users add maria "
                            "--password-file - < secret.txt");
  add_password_option(*add, *options);
  add->add_option("--task", options->user.tasks,
                  "a task that the account may use; give it several times; '*' (default): all")
      ->type_name("TASK")
      ->allow_extra_args(false);
  add->add_option("--tenant", options->user.tenant, "number of the tenant (default: one of its own)")
      ->check(CLI::Range(1U, 0xFFFFFFFEU));
  add->add_option("--weight", options->user.weight, kWeightHelp)->check(weights())->capture_default_str();
  add->add_option("--max-priority", options->max_priority, kPriorityHelp)->check(priorities())->capture_default_str();
  add->add_option("--max-requests", options->user.max_requests, kRequestsHelp)
      ->check(requests())
      ->capture_default_str();
  add->add_option("--max-held-mb", options->max_held_mb, kHeldHelp)->check(megabytes())->capture_default_str();
  add->add_option("--max-upload-mb", options->max_upload_mb, kUploadHelp)->check(megabytes())->capture_default_str();
  add_own_steps_option(*add, options->own_steps);
  add->callback([&context, options] { run_add(context, *options); });

  add_set_command(*users, context, *options);

  add_command(*users, context, "list", "all accounts", "broker users list --json", true)->callback([&context] {
    run_list(context);
  });

  CLI::App* passwd =
      add_named(*users, context, *options, "passwd", "change an account's password", "broker users passwd maria");
  add_password_option(*passwd, *options);
  passwd->callback([&context, options] { run_passwd(context, *options); });

  add_named(*users, context, *options, "disable", "shut an account and its devices out until it is enabled again",
            "broker users disable maria")
      ->callback([&context, options] {
        run_simple(context, "disabled '" + options->user.name + "'",
                   [&](Accounts& accounts) { return accounts.set_disabled(options->user.name, true); });
      });
  add_named(*users, context, *options, "enable", "let a disabled account in again", "broker users enable maria")
      ->callback([&context, options] {
        run_simple(context, "enabled '" + options->user.name + "'",
                   [&](Accounts& accounts) { return accounts.set_disabled(options->user.name, false); });
      });
  add_named(*users, context, *options, "remove", "remove an account and revoke its devices for good",
            "broker users remove maria")
      ->callback([&context, options] {
        run_simple(context, "removed '" + options->user.name + "' and revoked its devices",
                   [&](Accounts& accounts) { return accounts.remove_user(options->user.name); });
      });
}

}  // namespace gearbox::cli
