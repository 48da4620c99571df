// users, nodes, keys, device: what is in central's accounts and the state folder's keys. Works beside a running
// central.
#include "cli/accounts_commands.hpp"

#include <array>
#include <cstdio>
#include <ctime>

#include "cli/commands.hpp"
#include "cli/json_facts.hpp"

namespace gearbox::cli {

void add_accounts_commands(CLI::App& app, CliContext& context) {
  add_user_commands(app, context);
  add_node_commands(app, context);
  add_key_commands(app, context);
  add_device_commands(app, context);
}

void with_accounts(CliContext& context,
                   const std::function<Outcome<void>(central::Accounts&, const config::StateDir&)>& work) {
  const Outcome<config::StateDir> state = open_state(context);
  if (!state) return fail(context, state.error());
  const auto accounts = central::Accounts::open(state.value().central_db(), central::OnDamage::refuse);
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
