#include <algorithm>
#include <array>
#include <charconv>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "config/hours.hpp"
#include "config/reading.hpp"
#include "config/values.hpp"
#include "gearbox/base/text.hpp"

namespace gearbox::config {

namespace {

constexpr std::size_t kMaxPools = 64;
constexpr std::size_t kMaxNamed = 256;
constexpr std::size_t kMaxNameLength = 64;
constexpr std::size_t kMaxGroupLength = 129;  // NODE/GROUP
constexpr std::size_t kMaxPeers = 64;
constexpr std::size_t kMaxNodes = 64;
constexpr std::size_t kMaxPlace = 262;  // a name, a colon, a port
constexpr std::int64_t kMostBurstKb = 64 * 1024;
constexpr std::int64_t kHighestGear = 6;
constexpr std::size_t kMaxTenants = 1000;
constexpr std::uint32_t kMostKb = 64U << 20;
constexpr std::int64_t kHourMs = 3'600'000;
constexpr std::array kCards = {"cpu", "a100-80g", "v100-32g", "rtx3090"};

/// What a mode stands for: before the single values are read, so that each of them can be given beside it.
void set_mode(GearsConfig& gears) {
  if (gears.mode == "aggressive") {
    gears.dwell = milliseconds{30'000};
    gears.urgent_dwell = milliseconds{5'000};
    gears.reverse_cooldown = milliseconds{15'000};
    gears.least_gain = 0.02;
    gears.at_once = 8;
    gears.per_hour = 100;
  } else if (gears.mode == "gentle") {
    gears.dwell = milliseconds{300'000};
    gears.urgent_dwell = milliseconds{60'000};
    gears.reverse_cooldown = milliseconds{120'000};
    gears.least_gain = 0.10;
    gears.at_once = 1;
    gears.per_hour = 6;
  }
}

/// Names of nodes, in no order.
std::vector<std::string> read_nodes(const toml::Table& table, std::string_view key) {
  std::vector<std::string> nodes = table.texts(key, kMaxNodes, kMaxNameBytes).value_or(std::vector<std::string>());
  for (const std::string& node : nodes) {
    if (!is_name(node)) table.fault(key, "'" + node + "' is no node's name: letters, digits, '-', '_' and '.'");
  }
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  return nodes;
}

void read_pool(const toml::Table& table, const GearsConfig& gears, PoolConfig& pool) {
  if (table.require("name")) pool.name = table.name("name", "");
  const bool twin = std::any_of(gears.pools.begin(), gears.pools.end(),
                                [&](const PoolConfig& other) { return other.name == pool.name; });
  if (twin && !pool.name.empty()) table.fault("name", "there is a pool called '" + pool.name + "' already");
  if (const auto models = table.texts("models", kMaxNamed, kMaxNameLength)) {
    pool.models = *models;
    for (const std::string& model : pool.models) {
      const auto named = std::find_if(gears.pools.begin(), gears.pools.end(), [&](const PoolConfig& other) {
        return std::find(other.models.begin(), other.models.end(), model) != other.models.end();
      });
      if (named != gears.pools.end()) table.fault("models", "'" + model + "' belongs to pool '" + named->name + "'");
    }
  }
  if (const auto groups = table.texts("groups", kMaxNamed, kMaxGroupLength)) {
    pool.groups = *groups;
    for (const std::string& group : pool.groups) {
      const auto named = std::find_if(gears.pools.begin(), gears.pools.end(), [&](const PoolConfig& other) {
        return std::find(other.groups.begin(), other.groups.end(), group) != other.groups.end();
      });
      if (named != gears.pools.end()) table.fault("groups", "'" + group + "' belongs to pool '" + named->name + "'");
    }
  }
  if (const auto allowed = table.integers("gears", 1, kHighestGear, kHighestGear)) {
    if (allowed->empty()) table.fault("gears", "is empty: leave the line out for all gears");
    for (const std::int64_t gear : *allowed) pool.gears.push_back(static_cast<std::uint32_t>(gear));
    std::sort(pool.gears.begin(), pool.gears.end());
    pool.gears.erase(std::unique(pool.gears.begin(), pool.gears.end()), pool.gears.end());
  }
}

/// Whose requests its workers serve first.
void read_class(const toml::Table& table, PoolConfig& pool) {
  if (const auto tenants = table.integers("tenants", 0, std::numeric_limits<std::uint32_t>::max(), kMaxTenants)) {
    for (const std::int64_t tenant : *tenants) pool.tenants.push_back(static_cast<std::uint32_t>(tenant));
    if (pool.tenants.empty()) table.fault("tenants", "is empty: leave the line out for all tenants");
  }
  pool.least_bytes = std::uint64_t{read_count(table, "least_kb", 0, 0, kMostKb)} << 10;
  pool.most_bytes = std::uint64_t{read_count(table, "most_kb", 0, 0, kMostKb)} << 10;
  if (pool.most_bytes > 0 && pool.most_bytes < pool.least_bytes) table.fault("most_kb", "is less than least_kb");
  pool.lends_percent = read_count(table, "lends_percent", pool.lends_percent, 0, 100);
}

/// "10.0.0.5:7611", "[::1]:7611", "gpu-2:7611". What is wrong with it; empty: nothing is.
std::string place_fault(std::string_view text, unsigned lowest_port) {
  constexpr std::string_view kForm = "expected HOST:PORT";
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return std::string(kForm);
  const std::string_view host = text.substr(0, colon);
  const bool bracketed = host.starts_with('[') && host.ends_with(']') && host.size() > 2;
  if (!bracketed && host.find_first_of("[]:") != std::string_view::npos) return std::string(kForm);
  if (!std::all_of(host.begin(), host.end(), [](char c) { return c > ' ' && c < 0x7F; })) return std::string(kForm);
  const std::string_view digits = text.substr(colon + 1);
  unsigned port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size() || port < lowest_port || port > 65535)
    return "the port is no number from " + std::to_string(lowest_port) + " to 65535";
  return {};
}

void read_links(const toml::Table& table, LinksConfig& links) {
  links.listen = table.text("listen", links.listen, kMaxPlace);
  if (const std::string fault = place_fault(links.listen, 0); !links.listen.empty() && !fault.empty())
    table.fault("listen", fault);
  if (const auto peers = table.texts("peers", kMaxPeers, kMaxPlace)) {
    for (const std::string& peer : *peers) {
      if (const std::string fault = place_fault(peer, 1); !fault.empty())
        table.fault("peers", "'" + peer + "': " + fault);
    }
    links.peers = *peers;
    std::sort(links.peers.begin(), links.peers.end());
    links.peers.erase(std::unique(links.peers.begin(), links.peers.end()), links.peers.end());
  }
  links.ping = read_ms(table, "ping_ms", links.ping, 100, 60'000);
  links.burst_every = read_ms(table, "burst_every_ms", links.burst_every, 500, kHourMs);
  links.burst_bytes = std::uint64_t{read_count(table, "burst_kb", static_cast<std::uint32_t>(links.burst_bytes >> 10),
                                               16, kMostBurstKb)}
                      << 10;
}

std::string one_of(const toml::Table& table, std::string_view key, const std::string& fallback,
                   std::initializer_list<std::string_view> allowed) {
  std::string value = table.text(key, fallback, kMaxNameLength);
  if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return value;
  std::string all;
  for (const std::string_view one : allowed) all += (all.empty() ? "" : ", ") + std::string(one);
  table.fault(key, "expected one of " + all);
  return fallback;
}

}  // namespace

std::optional<Hours> read_hours(std::string_view text) {
  constexpr std::string_view kForm = "00:00-00:00";
  if (text.size() != kForm.size()) return std::nullopt;
  for (std::size_t i = 0; i < kForm.size(); ++i) {
    const bool digit = text[i] >= '0' && text[i] <= '9';
    if (kForm[i] == '0' ? !digit : text[i] != kForm[i]) return std::nullopt;
  }
  const auto two = [&](std::size_t at) { return static_cast<unsigned>((text[at] - '0') * 10 + text[at + 1] - '0'); };
  const unsigned from = two(0) * 60 + two(3);
  const unsigned until = two(6) * 60 + two(9);
  if (two(3) > 59 || two(9) > 59 || from >= kMinutesOfDay || until > kMinutesOfDay) return std::nullopt;
  return Hours{static_cast<std::uint16_t>(from), static_cast<std::uint16_t>(until)};
}

void read_gears(const toml::Table& table, GearsConfig& gears) {
  gears.enabled = table.boolean("enabled", gears.enabled);
  gears.policy = table.name("policy", gears.policy);
  gears.coordination = table.name("coordination", gears.coordination);
  gears.lease = table.name("lease", gears.lease);
  gears.hosts = read_nodes(table, "hosts");
  gears.leaders = read_nodes(table, "leaders");
  gears.mode = one_of(table, "mode", gears.mode, {"gentle", "normal", "aggressive"});
  set_mode(gears);
  gears.dry_run = table.boolean("dry_run", gears.dry_run);
  gears.interval = read_ms(table, "interval_ms", gears.interval, 100, 60'000);
  gears.dwell = read_ms(table, "dwell_ms", gears.dwell, 0, 24 * kHourMs);
  gears.urgent_dwell = read_ms(table, "urgent_dwell_ms", gears.urgent_dwell, 0, 24 * kHourMs);
  gears.reverse_cooldown = read_ms(table, "reverse_cooldown_ms", gears.reverse_cooldown, 0, 24 * kHourMs);
  gears.least_gain = table.number("least_gain", gears.least_gain, 0, 1);
  gears.at_once = read_count(table, "at_once", gears.at_once, 1, 1000);
  gears.per_hour = read_count(table, "per_hour", gears.per_hour, 1, 3600);
  if (gears.urgent_dwell > gears.dwell) table.fault("urgent_dwell_ms", "is longer than dwell_ms");
  if (const auto hours = table.texts("hours", 24, 16)) {
    for (const std::string& text : *hours) {
      if (!read_hours(text)) table.fault("hours", "'" + text + "' is no span of hours: \"22:00-06:00\"");
    }
    gears.hours = *hours;
  }
  gears.card = one_of(table, "card", gears.card, {kCards[0], kCards[1], kCards[2], kCards[3]});
  if (const auto links = table.table("links")) read_links(*links, gears.links);
  for (const toml::Table& pool_table : table.tables("pool", kMaxPools)) {
    PoolConfig pool;
    read_pool(pool_table, gears, pool);
    read_class(pool_table, pool);
    gears.pools.push_back(std::move(pool));
  }
}

}  // namespace gearbox::config
