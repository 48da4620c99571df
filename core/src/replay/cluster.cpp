#include "replay/cluster.hpp"

#include <optional>

#include "gearbox/toml/document.hpp"

namespace gearbox::replay {

namespace {

constexpr std::size_t kMostSets = 64;
constexpr std::size_t kMostHappenings = 1000;
constexpr std::size_t kMostPools = 64;
constexpr double kGiga = 1e9;
constexpr double kTera = 1e12;
constexpr double kDay = 86'400;

/// Figures of the file go before those of the named card.
void read_card(const toml::Table& table, NodeSet& set) {
  set.card_name = table.text("card", "", 64);
  if (!table.require("card")) return;
  if (const gears::Card* known = gears::card_named(set.card_name.c_str()); known != nullptr) {
    set.card = *known;
  } else if (!table.has("tflops") || !table.has("memory_gb_s") || !table.has("memory_gb")) {
    table.fault("card",
                "no card of that name is known (a100-80g, v100-32g, rtx3090, cpu); one of your own needs tflops, "
                "memory_gb_s and memory_gb");
  }
  gears::Card& card = set.card;
  card.flops = kTera * table.number("tflops", card.flops / kTera, 1e-3, 1e6);
  card.memory_bandwidth = kGiga * table.number("memory_gb_s", card.memory_bandwidth / kGiga, 1e-1, 1e6);
  card.memory_bytes = kGiga * table.number("memory_gb", card.memory_bytes / kGiga, 1e-1, 1e5);
  card.compute_share = table.number("compute_share", card.compute_share, 1e-3, 1);
  card.bandwidth_share = table.number("bandwidth_share", card.bandwidth_share, 1e-3, 1);
  card.attention_share = table.number("attention_share", card.attention_share, 1e-3, 1);
  card.bus_bandwidth = kGiga * table.number("bus_gb_s", card.bus_bandwidth / kGiga, 0, 1e5);
  card.peer_bandwidth = kGiga * table.number("peer_gb_s", card.peer_bandwidth / kGiga, 0, 1e5);
  card.host_step_s = 1e-3 * table.number("host_step_ms", 1e3 * card.host_step_s, 0, 1e4);
  if (table.has("reduce_start_us")) {
    const double start_s = 1e-6 * table.number("reduce_start_us", 0, 0, 1e6);
    for (double& each : card.reduce_start_s) each = start_s;
  }
  card.prefill_chunk = static_cast<std::uint32_t>(table.integer("prefill_chunk", card.prefill_chunk, 1, 1 << 20));
  if (set.cards > 1 && (card.bus_bandwidth <= 0 || card.peer_bandwidth <= 0))
    table.fault("card", "several cards need bus_gb_s and peer_gb_s above 0");
}

NodeSet read_set(const toml::Table& table) {
  NodeSet set;
  set.name = table.name("name", "");
  table.require("name");
  set.count = static_cast<std::uint32_t>(table.integer("count", 1, 1, kMostNodes));
  set.cards = static_cast<std::uint32_t>(table.integer("cards", 1, 1, kMostCardsOfNode));
  set.groups = static_cast<std::uint32_t>(table.integer("groups", 1, 1, kMostCardsOfNode));
  set.gear = static_cast<std::uint8_t>(table.integer("gear", 1, 1, 6));
  set.full_speed = table.number("full_speed_replicas", 0, 0, kMostCardsOfNode);
  if (set.full_speed > 0 && set.full_speed < 1) table.fault("full_speed_replicas", "is 0, or 1 and more");
  if (set.cards % set.groups != 0) table.fault("groups", "the node's cards cannot be split evenly among so many");
  read_card(table, set);
  return set;
}

/// "a100-2": the node's index among all; "a100": each of the set's.
std::vector<std::uint32_t> nodes_called(const Cluster& cluster, const std::string& name) {
  std::vector<std::uint32_t> found;
  std::uint32_t first = 0;
  for (const NodeSet& set : cluster.sets) {
    for (std::uint32_t i = 0; i < set.count; ++i) {
      if (name == set.name || name == set.name + "-" + std::to_string(i)) found.push_back(first + i);
    }
    first += set.count;
  }
  return found;
}

void read_happening(const toml::Table& table, Cluster& cluster) {
  Happening made;
  const std::string kind = table.text("kind", "fail", 32);
  if (kind == "slow_link") {
    made.kind = Happening::Kind::slow_link;
    table.require("slowdown");
  } else if (kind != "fail") {
    table.fault("kind", "\"fail\" or \"slow_link\"");
  }
  made.slowdown = table.number("slowdown", 1, 1, 1e4);
  made.from = from_seconds(table.number("at_s", 0, 0, 366 * kDay));
  if (table.has("for_s")) made.until = made.from + from_seconds(table.number("for_s", 0, 0, 366 * kDay));
  table.require("node");
  const std::string node = table.text("node", "", 80);
  const std::vector<std::uint32_t> nodes = nodes_called(cluster, node);
  if (nodes.empty()) table.fault("node", "no node of that name");
  for (const std::uint32_t each : nodes) {
    made.node = each;
    cluster.happenings.push_back(made);
  }
}

PoolSpec read_pool(const toml::Table& table, const Cluster& cluster) {
  PoolSpec pool;
  pool.name = table.name("name", "");
  table.require("name");
  pool.model = table.text("model", "", 64);
  pool.nodes = table.texts("nodes", kMostSets, 64).value_or(std::vector<std::string>());
  pool.tenants = table.texts("tenants", 1000, 64).value_or(std::vector<std::string>());
  const auto gears = table.integers("gears", 1, 6, 6);
  for (const std::int64_t gear : gears.value_or(std::vector<std::int64_t>()))
    pool.gears.push_back(static_cast<std::uint32_t>(gear));
  pool.most_input_tokens = static_cast<std::uint64_t>(table.integer("most_input_tokens", 0, 0, 1 << 30));
  pool.borrow = table.boolean("borrow", true);
  for (const std::string& name : pool.nodes) {
    bool known = false;
    for (const NodeSet& set : cluster.sets) known = known || set.name == name;
    if (!known) table.fault("nodes", "no [[nodes]] are called '" + name + "'");
  }
  return pool;
}

void read_shift(const toml::Table& table, ShiftCost& shift) {
  const std::string how = table.text("how", "in_flight", 32);
  if (how == "drain") {
    shift.how = ShiftCost::How::drain;
  } else if (how == "recompute") {
    shift.how = ShiftCost::How::recompute;
  } else if (how != "in_flight") {
    table.fault("how", "\"in_flight\", \"drain\" or \"recompute\"");
  }
  shift.rehearse_s = 1e-3 * table.number("rehearse_ms", 1e3 * shift.rehearse_s, 0, 1e7);
  shift.pause_s = 1e-3 * table.number("pause_ms", 1e3 * shift.pause_s, 0, 1e7);
}

Outcome<Cluster> read(std::optional<toml::Document> document, toml::Faults& faults) {
  if (!document) return faults.error();
  Cluster cluster;
  const toml::Table root = document->root();
  cluster.name = root.name("name", "cluster");
  cluster.broker_s = 1e-3 * root.number("broker_ms", 0, 0, 1e6);
  cluster.token_s = 1e-6 * root.number("token_us", 0, 0, 1e6);
  cluster.position_s = 1e-9 * root.number("position_ns", 0, 0, 1e9);
  cluster.mixed_s = 1e-6 * root.number("mixed_us", 0, 0, 1e9);
  cluster.pads = root.boolean("pads", false);
  cluster.restart_s = root.number("restart_s", cluster.restart_s, 0, kDay);
  cluster.memory_share = root.number("memory_share", cluster.memory_share, 0.1, 1);
  cluster.tells_activity = root.boolean("tells_activity", false);
  root.require("nodes");
  for (const toml::Table& table : root.tables("nodes", kMostSets)) {
    NodeSet set = read_set(table);
    for (const NodeSet& other : cluster.sets) {
      if (other.name == set.name) table.fault("name", "there are nodes of that name already");
    }
    cluster.sets.push_back(std::move(set));
  }
  if (cluster.nodes() > kMostNodes) root.fault("nodes", "more than " + std::to_string(kMostNodes) + " nodes");
  if (const auto shift = root.table("shift")) read_shift(*shift, cluster.shift);
  for (const toml::Table& table : root.tables("happenings", kMostHappenings)) read_happening(table, cluster);
  for (const toml::Table& table : root.tables("pools", kMostPools)) cluster.pools.push_back(read_pool(table, cluster));
  document->report_unknown_keys();
  if (!faults.empty()) return faults.error();
  return cluster;
}

}  // namespace

std::uint32_t Cluster::nodes() const {
  std::uint32_t all = 0;
  for (const NodeSet& set : sets) all += set.count;
  return all;
}

std::uint32_t Cluster::cards() const {
  std::uint32_t all = 0;
  for (const NodeSet& set : sets) all += set.count * set.cards;
  return all;
}

Outcome<Cluster> read_cluster(const std::filesystem::path& file) {
  toml::Faults faults;
  return read(toml::Document::read(file, file.string(), faults), faults);
}

Outcome<Cluster> parse_cluster(std::string text, const std::string& shown) {
  toml::Faults faults;
  return read(toml::Document::parse(std::move(text), shown, faults), faults);
}

}  // namespace gearbox::replay
