// users, nodes, keys, device: what is in central's accounts and the state folder's keys. Works beside a running
// central.
#include "cli/accounts_commands.hpp"

#include <array>
#include <cstdio>
#include <ctime>
#include <filesystem>

#include "cli/commands.hpp"
#include "cli/json_facts.hpp"

namespace gearbox::cli {

void add_accounts_commands(CLI::App& app, CliContext& context) {
  add_user_commands(app, context);
  add_node_commands(app, context);
  add_key_commands(app, context);
  add_device_commands(app, context);
}

namespace {

/// By the configuration that is named; else as this host's central has noted it; else by the default configuration.
Outcome<central::AccountsPlace> find_accounts(const CliContext& context, const config::StateDir& state) {
  if (context.config_dir.empty()) {
    BOOST_OUTCOME_TRY(central::AccountsPlace noted, central::noted_accounts_place(state));
    if (noted.is_shared() || !noted.file.empty()) return noted;
    std::error_code ignored;  // a folder that cannot be looked at has no configuration for us
    if (!std::filesystem::exists(default_config_dir() / "gearbox.toml", ignored)) {
      return central::accounts_place(state, config::CentralConfig{});
    }
  }
  BOOST_OUTCOME_TRY(const config::Snapshot config, load_config(context));
  return central::accounts_place(state, config->central);
}

}  // namespace

void with_accounts(CliContext& context,
                   const std::function<Outcome<void>(central::Accounts&, const config::StateDir&)>& work) {
  const Outcome<config::StateDir> state = open_state(context);
  if (!state) return fail(context, state.error());
  const auto place = find_accounts(context, state.value());
  if (!place) return fail(context, place.error());
  const auto accounts = central::Accounts::open(place.value(), central::OnDamage::refuse);
  if (!accounts) return fail(context, accounts.error());
  if (const Outcome<void> worked = work(*accounts.value(), state.value()); !worked) fail(context, worked.error());
}

void say_done(const CliContext& context, const std::string& what) {
  if (context.json) return print_json(boost::json::object{{"ok", true}});
  std::printf("%s\n", what.c_str());
}

void show(const CliContext& context, const boost::json::array& facts, const Table& table, const std::string& nothing) {
  if (context.json) return print_json(facts);
  const std::string text = table.empty() ? nothing + "\n" : table.text(colour_wanted());
  std::fwrite(text.data(), 1, text.size(), stdout);
}

std::string time_text(std::int64_t unix_ms) {
  if (unix_ms <= 0) return "never";
  const std::time_t seconds = static_cast<std::time_t>(unix_ms / 1000);
  std::tm utc{};
  std::array<char, 32> out{};
  if (::gmtime_r(&seconds, &utc) == nullptr || std::strftime(out.data(), out.size(), "%F %H:%M UTC", &utc) == 0)
    return "?";
  return out.data();
}

}  // namespace gearbox::cli
