// keys show | devices | revoke
#include <boost/json/object.hpp>

#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

#include "cli/accounts_commands.hpp"
#include "cli/json_facts.hpp"
#include "gearbox/base/text.hpp"
#include "gearbox/link/keys.hpp"

namespace gearbox::cli {

namespace json = boost::json;
using central::Accounts;
using central::Device;

namespace {

struct ShowOptions {
  std::string field;
  std::string make;
};

struct Shown {
  const char* name;
  std::optional<std::string> key;
  const char* meaning;
};

/// Public halves only. A missing key stays missing, unless `make`: then it is made, as the role would at its first
/// start.
Outcome<std::optional<std::string>> channel_key(const std::filesystem::path& file, bool make) {
  std::error_code ignored;  // a file that cannot be looked at fails below, with its reason
  if (!make && !std::filesystem::exists(file, ignored)) return std::optional<std::string>();
  BOOST_OUTCOME_TRY(const auto keys, link::load_or_make_channel_keys(file));
  return std::optional<std::string>(to_hex(keys.public_key));
}

Outcome<std::optional<std::string>> signing_key(const std::filesystem::path& file, bool make) {
  std::error_code ignored;  // as above
  if (!make && !std::filesystem::exists(file, ignored)) return std::optional<std::string>();
  BOOST_OUTCOME_TRY(const auto keys, link::load_or_make_signing_keys(file));
  return std::optional<std::string>(to_text(keys.public_key));
}

Outcome<std::vector<Shown>> read_keys(const config::StateDir& state, const std::string& make) {
  std::vector<Shown> shown = {
      {"central", {}, "central's channel: devices and nodes pin it (--server-key, node.central_key)"},
      {"central_signing", {}, "signs tickets; nodes learn it from central"},
      {"node", {}, "this node's identity: for `broker nodes add NAME KEY` on central's host"},
      {"node_channel", {}, "this node's channel; devices learn it from central"}};
  BOOST_OUTCOME_TRY(shown[0].key, channel_key(state.central_channel_key(), make == "central"));
  BOOST_OUTCOME_TRY(shown[1].key, signing_key(state.central_signing_key(), make == "central"));
  BOOST_OUTCOME_TRY(shown[2].key, signing_key(state.node_signing_key(), make == "node"));
  BOOST_OUTCOME_TRY(shown[3].key, channel_key(state.node_channel_key(), make == "node"));
  return shown;
}

void run_show(CliContext& context, const ShowOptions& options) {
  const Outcome<config::StateDir> state = open_state(context);
  if (!state) return fail(context, state.error());
  const Outcome<std::vector<Shown>> shown = read_keys(state.value(), options.make);
  if (!shown) return fail(context, shown.error());
  json::object facts;
  Table table({"key", "public half", "what it is for"});
  for (const Shown& each : shown.value()) {
    facts[each.name] = each.key ? json::value(*each.key) : json::value(nullptr);
    table.add({each.name, each.key.value_or("(made at the first start)"), each.meaning});
    if (options.field != each.name) continue;
    if (!each.key) {
      return fail(context, Error{Errc::not_found, "there is no key '" + options.field +
                                                      "' yet: it is made at the first start, or with --make"});
    }
    std::printf("%s\n", each.key->c_str());
    return;
  }
  if (context.json) return print_json(facts);
  const std::string text = table.text(colour_wanted());
  std::fwrite(text.data(), 1, text.size(), stdout);
}

void run_devices(CliContext& context, const std::string& user) {
  with_accounts(context, [&](Accounts& accounts, const config::StateDir&) -> Outcome<void> {
    BOOST_OUTCOME_TRY(const auto devices, accounts.devices());
    json::array facts;
    Table table({"user", "device", "state", "key", "enrolled", "last seen"});
    for (const Device& device : devices) {
      if (!user.empty() && device.user != user) continue;
      facts.push_back(json::object{{"user", device.user},
                                   {"name", device.name},
                                   {"key", to_text(device.key)},
                                   {"revoked", device.revoked},
                                   {"created_unix_ms", device.created_unix_ms},
                                   {"last_seen_unix_ms", device.last_seen_unix_ms}});
      table.add({device.user, device.name, device.revoked ? "revoked" : "enrolled", to_text(device.key),
                 time_text(device.created_unix_ms), time_text(device.last_seen_unix_ms)});
    }
    show(context, facts, table, "no devices yet; one joins with: pi_client enrol");
    return done();
  });
}

/// A key in hexadecimal, or USER/DEVICE.
Outcome<PublicKey> find_device(Accounts& accounts, const std::string& text) {
  if (const Outcome<PublicKey> key = public_key_from(text); key) return key;
  BOOST_OUTCOME_TRY(const auto devices, accounts.devices());
  for (const Device& device : devices) {
    if (!device.revoked && device.user + "/" + device.name == text) return device.key;
  }
  return Error{Errc::not_found, "there is no enrolled device '" + escaped(text) +
                                    "': give USER/DEVICE or a key, as `broker keys devices` lists them"};
}

void run_revoke(CliContext& context, const std::string& device) {
  with_accounts(context, [&](Accounts& accounts, const config::StateDir&) -> Outcome<void> {
    BOOST_OUTCOME_TRY(const PublicKey key, find_device(accounts, device));
    BOOST_OUTCOME_TRY(accounts.revoke_device(key));
    say_done(context, "revoked " + to_text(key) + ": central refuses it now, nodes within seconds");
    return done();
  });
}

}  // namespace

void add_key_commands(CLI::App& app, CliContext& context) {
  CLI::App* keys = app.add_subcommand("keys", "public keys of this host, and the device keys that central knows");
  keys->require_subcommand(1);
  keys->footer("Example:\n  broker keys show --field central\n  broker keys revoke maria/barn-cam");

  auto options = std::make_shared<ShowOptions>();
  CLI::App* show_command =
      add_command(*keys, context, "show", "the public keys of central and node on this host",
                  "broker keys show --field central    (what pi_client takes as --server-key)", true);
  show_command->add_option("--field", options->field, "print this one only, bare")
      ->check(CLI::IsMember({"central", "central_signing", "node", "node_channel"}));
  show_command->add_option("--make", options->make, "make the keys of this role now instead of at its first start")
      ->check(CLI::IsMember({"central", "node"}));
  show_command->callback([&context, options] { run_show(context, *options); });

  auto user = std::make_shared<std::string>();
  CLI::App* devices =
      add_command(*keys, context, "devices", "enrolled and revoked devices", "broker keys devices --user maria", true);
  devices->add_option("--user", *user, "of this account only")->type_name("NAME");
  devices->callback([&context, user] { run_devices(context, *user); });

  auto device = std::make_shared<std::string>();
  CLI::App* revoke = add_command(*keys, context, "revoke", "shut a device out for good (a stolen one, say)",
                                 "broker keys revoke maria/barn-cam", true);
  revoke->add_option("DEVICE", *device, "USER/DEVICE, or its key")->required();
  revoke->callback([&context, device] { run_revoke(context, *device); });
}

}  // namespace gearbox::cli
