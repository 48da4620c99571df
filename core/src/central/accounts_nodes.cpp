// The nodes that may register, and how this host's own becomes one of them.
#include <chrono>
#include <string>

#include "central/accounts.hpp"
#include "central/accounts_state.hpp"
#include "gearbox/base/clock.hpp"
#include "gearbox/base/text.hpp"
#include "gearbox/link/keys.hpp"

namespace gearbox::central {

namespace {

std::int64_t wall_clock_ms() {
  return std::chrono::duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Outcome<NodeEntry> node_from(const sql::Statement& row) {
  NodeEntry node;
  BOOST_OUTCOME_TRY(node.key, public_key_from(row.text(0)));
  node.name = row.text(1);
  node.created_unix_ms = row.integer(2);
  node.removed = row.integer(3) != 0;
  return node;
}

}  // namespace

Outcome<void> Accounts::add_node(std::string_view name, const PublicKey& key) {
  BOOST_OUTCOME_TRY(check_name("node", name));
  const std::string hex = to_text(key);
  sql::Transaction transaction(*state_->database);
  BOOST_OUTCOME_TRY(transaction.begin());
  BOOST_OUTCOME_TRY(auto taken,
                    state_->database->prepare("SELECT 1 FROM nodes WHERE name = ?1 AND revoked = 0 AND key <> ?2"));
  BOOST_OUTCOME_TRY(const bool is_taken, taken.first(name, hex));
  if (is_taken) {
    return Error{Errc::not_allowed, "the node name '" + std::string(name) +
                                        "' belongs to another key: `broker nodes remove " + std::string(name) +
                                        "` first, or use another name"};
  }
  BOOST_OUTCOME_TRY(auto upsert,
                    state_->database->prepare("INSERT INTO nodes VALUES(?1,?2,?3,0) "
                                              "ON CONFLICT(key) DO UPDATE SET name = excluded.name, revoked = 0"));
  BOOST_OUTCOME_TRY(upsert.first(hex, name, wall_clock_ms()));
  BOOST_OUTCOME_TRY(transaction.commit());
  return keep_copy();
}

Outcome<void> Accounts::remove_node(std::string_view name) {
  sql::Transaction transaction(*state_->database);
  BOOST_OUTCOME_TRY(transaction.begin());
  BOOST_OUTCOME_TRY(auto update,
                    state_->database->prepare("UPDATE nodes SET revoked = 1 WHERE name = ?1 AND revoked = 0"));
  BOOST_OUTCOME_TRY(update.first(name));
  if (state_->database->changed_rows() == 0)
    return Error{Errc::not_found, "there is no node '" + escaped(name, kMaxNameBytes) + "'"};
  BOOST_OUTCOME_TRY(transaction.commit());
  return keep_copy();
}

Outcome<std::vector<NodeEntry>> Accounts::nodes() {
  BOOST_OUTCOME_TRY(auto rows,
                    state_->database->prepare("SELECT key, name, created, revoked FROM nodes ORDER BY name, created"));
  std::vector<NodeEntry> nodes;
  BOOST_OUTCOME_TRY(bool more, rows.first());
  while (more) {
    BOOST_OUTCOME_TRY(NodeEntry node, node_from(rows));
    nodes.push_back(std::move(node));
    BOOST_OUTCOME_TRY(more, rows.next());
  }
  return nodes;
}

Outcome<NodeEntry> Accounts::node(const PublicKey& key) {
  BOOST_OUTCOME_TRY(const bool found, state_->node.first(to_text(key)));
  if (!found) return Error{Errc::auth_failed, "no node with this key is registered: `broker nodes add NAME KEY`"};
  Outcome<NodeEntry> node = node_from(state_->node);
  state_->node.rewind();
  if (node && node.value().removed) return Error{Errc::auth_failed, "this node was removed with `broker nodes remove`"};
  return node;
}

Outcome<void> register_local_node(const config::StateDir& state, std::string_view name) {
  AccountsPlace place;
  place.file = state.central_db();
  return register_local_node(state, place, name);
}

Outcome<void> register_local_node(const config::StateDir& state, const AccountsPlace& place, std::string_view name) {
  BOOST_OUTCOME_TRY(const auto keys, link::load_or_make_signing_keys(state.node_signing_key()));
  BOOST_OUTCOME_TRY(const auto accounts, Accounts::open(place, OnDamage::restore));
  BOOST_OUTCOME_TRY(const auto known, accounts->nodes());
  for (const NodeEntry& node : known) {
    if (node.key != keys.public_key) continue;
    if (node.removed) {
      return Error{Errc::not_allowed, "this host's node was removed; `broker nodes add " + std::string(name) + " " +
                                          to_text(node.key) + "` brings it back"};
    }
    if (node.name == name) return done();
  }
  return accounts->add_node(name, keys.public_key);
}

}  // namespace gearbox::central
