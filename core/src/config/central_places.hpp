// central_places.hpp: the centrals that a node may report to, one by one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.hpp"

namespace gearbox::config {

/// Between the addresses in NodeConfig::central, and the keys in central_key; no address has it inside.
inline constexpr const char* kBetweenCentrals = ", ";

struct CentralPlace {
  std::string url;  // empty: this host's own central
  std::string key;  // its X25519 public key, hex; empty: as this host's own central tells
};

/// At least one. A single key is that of all addresses.
inline std::vector<CentralPlace> central_places(const NodeConfig& node) {
  const auto parts = [](std::string_view text) {
    std::vector<std::string> out;
    const std::string_view between = kBetweenCentrals;
    while (!text.empty()) {
      const std::size_t end = std::min(text.find(between), text.size());
      out.emplace_back(text.substr(0, end));
      text.remove_prefix(std::min(end + between.size(), text.size()));
    }
    if (out.empty()) out.emplace_back();
    return out;
  };
  const std::vector<std::string> urls = parts(node.central);
  const std::vector<std::string> keys = parts(node.central_key);
  std::vector<CentralPlace> places;
  for (std::size_t i = 0; i < urls.size(); ++i) places.push_back({urls[i], keys[keys.size() == urls.size() ? i : 0]});
  return places;
}

}  // namespace gearbox::config
