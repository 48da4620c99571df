// nodes add | list | remove
#include <boost/json/object.hpp>

#include "cli/accounts_commands.hpp"
#include "gearbox/base/text.hpp"

namespace gearbox::cli {

namespace json = boost::json;
using central::Accounts;
using central::NodeEntry;

namespace {

struct NodeOptions {
  std::string name, key;
};

void run_list(CliContext& context) {
  with_accounts(context, [&](Accounts& accounts, const config::StateDir&) -> Outcome<void> {
    BOOST_OUTCOME_TRY(const auto nodes, accounts.nodes());
    json::array facts;
    Table table({"node", "state", "key", "added"});
    for (const NodeEntry& node : nodes) {
      facts.push_back(json::object{{"name", node.name},
                                   {"key", to_text(node.key)},
                                   {"removed", node.removed},
                                   {"created_unix_ms", node.created_unix_ms}});
      table.add(
          {node.name, node.removed ? "removed" : "registered", to_text(node.key), time_text(node.created_unix_ms)});
    }
    show(context, facts, table,
         "no nodes yet; `broker up` registers this host's, `broker nodes add NAME KEY` another's");
    return done();
  });
}

void run_add(CliContext& context, const NodeOptions& options) {
  with_accounts(context, [&](Accounts& accounts, const config::StateDir&) -> Outcome<void> {
    BOOST_OUTCOME_TRY(check_name("node", options.name));
    const Outcome<PublicKey> key = public_key_from(options.key);
    if (!key) {
      return Error{Errc::bad_input,
                   "KEY: 64 hexadecimal digits are wanted, as `broker keys show` prints them on the node"};
    }
    BOOST_OUTCOME_TRY(accounts.add_node(options.name, key.value()));
    say_done(context, "added node '" + options.name + "'");
    return done();
  });
}

void run_remove(CliContext& context, const NodeOptions& options) {
  with_accounts(context, [&](Accounts& accounts, const config::StateDir&) -> Outcome<void> {
    BOOST_OUTCOME_TRY(accounts.remove_node(options.name));
    say_done(context, "removed node '" + options.name + "': it is not offered any more");
    return done();
  });
}

}  // namespace

void add_node_commands(CLI::App& app, CliContext& context) {
  CLI::App* nodes = app.add_subcommand("nodes", "GPU hosts that may register with this central");
  nodes->require_subcommand(1);
  nodes->footer("Example:\n  broker nodes list\n  broker nodes add barn $(ssh barn broker keys show --field node)");
  auto options = std::make_shared<NodeOptions>();
  CLI::App* add =
      add_command(*nodes, context, "add", "let a node register, by its identity key",
                  "broker nodes add barn 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", true);
  add->add_option("NAME", options->name, "its name")->required();
  add->add_option("KEY", options->key, "its identity key: `broker keys show --field node` on the node")->required();
  add->callback([&context, options] { run_add(context, *options); });
  add_command(*nodes, context, "list", "all nodes", "broker nodes list --json", true)->callback([&context] {
    run_list(context);
  });
  CLI::App* remove =
      add_command(*nodes, context, "remove", "let a node in no longer", "broker nodes remove barn", true);
  remove->add_option("NAME", options->name, "its name")->required();
  remove->callback([&context, options] { run_remove(context, *options); });
}

}  // namespace gearbox::cli
