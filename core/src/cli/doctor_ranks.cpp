// doctor: models whose ranks live on several hosts; what of their traffic is not encrypted.
#include <filesystem>
#include <system_error>

#include "cli/doctor_checks.hpp"
#include "gearbox/toml/document.hpp"

namespace gearbox::cli {

namespace {

constexpr std::size_t kMostHosts = 64;

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

}  // namespace

std::vector<Finding> check_ranks(const config::Config& config) {
  std::vector<Finding> out;
  for (const model::Record& record : config.models) {
    const std::filesystem::path file = record.folder / "engine.toml";
    std::error_code unreadable;
    if (!std::filesystem::exists(file, unreadable)) continue;
    toml::Faults faults;  // the engine tells them with better words
    const auto document = toml::Document::read(file, "engine.toml", faults);
    if (!document) continue;
    const toml::Table root = document->root();
    if (root.tables("hosts", kMostHosts).empty() && root.text("role", "") != "ranks") continue;
    const std::string address = root.text("address", "127.0.0.1");
    if (is_loopback(address)) {
      out.push_back({"ranks " + record.name, Verdict::warn,
                     "ranks on several hosts, and those of this host listen on " + address + " only",
                     "set `address` in " + file.string() + " to this host's address on a network of the hosts alone"});
      continue;
    }
    out.push_back(
        {"ranks " + record.name, Verdict::warn,
         "torch.distributed carries activations between the hosts on " + address + ", not encrypted",
         "let that be an address on a network of the hosts alone, or within a tunnel (WireGuard, IPsec); orders, "
         "plans and cache go through the nodes, encrypted"});
  }
  return out;
}

}  // namespace gearbox::cli
