#include "plugin_host/gate_folder.hpp"

#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <system_error>
#include <type_traits>

namespace gearbox::plugin_host {

namespace fs = std::filesystem;

namespace {

/// A basic string of TOML.
std::string toml_text(std::string_view text) {
  std::string all = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      all += '\\';
      all += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      static constexpr char kDigits[] = "0123456789abcdef";
      const auto code = static_cast<unsigned char>(c);
      all += "\\u00";
      all += kDigits[code >> 4];
      all += kDigits[code & 15];
    } else {
      all += c;
    }
  }
  return all + '"';
}

std::string value_text(const config::OptionValue& value) {
  return std::visit(
      [](const auto& held) -> std::string {
        using Held = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<Held, bool>) {
          return held ? "true" : "false";
        } else if constexpr (std::is_same_v<Held, std::int64_t>) {
          return std::to_string(held);
        } else if constexpr (std::is_same_v<Held, double>) {
          std::array<char, 40> digits{};  // the shortest that reads back as the same number
          std::string text(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), held).ptr);
          if (text.find_first_of(".einf") == std::string::npos) text += ".0";
          return text;
        } else {
          return toml_text(held);
        }
      },
      value);
}

std::string gears_text(const config::GearsConfig& gears, bool enabled, const std::string& policy) {
  std::string text = "[gears]\nenabled = " + std::string(enabled ? "true" : "false") +
                     "\npolicy = " + toml_text(policy) + "\ndry_run = " + (gears.dry_run ? "true" : "false");
  const auto number = [&text](const char* key, auto value) {
    text += std::string("\n") + key + " = " + std::to_string(value);
  };
  number("interval_ms", gears.interval.count());
  number("dwell_ms", gears.dwell.count());
  number("urgent_dwell_ms", gears.urgent_dwell.count());
  number("reverse_cooldown_ms", gears.reverse_cooldown.count());
  number("at_once", gears.at_once);
  number("per_hour", gears.per_hour);
  text += "\nleast_gain = " + value_text(config::OptionValue(gears.least_gain)) + "\nhours = [";
  for (const std::string& hours : gears.hours) text += (text.back() == '[' ? "" : ", ") + toml_text(hours);
  return text + "]\n";
}

/// What a key of the configuration names now.
std::string named_by(const config::GateConfig& gate, std::string_view by, const std::string& otherwise) {
  for (const config::GateConfig::Use& use : gate.uses) {
    if (use.by == by) return use.name;
  }
  return otherwise;
}

Outcome<void> make_folder(const fs::path& path) {
  if (::mkdir(path.c_str(), 0700) == 0) return done();
  return Error{Errc::io_error, path.string() + ": " + std::generic_category().message(errno)};
}

Outcome<void> copy_plugin(const SwapPart& part, const fs::path& copies, const fs::path& folder) {
  std::error_code failed;
  const fs::path to = folder / (part.kind + "_" + part.name + ".so");
  fs::copy_file(copies / (part.checksum + ".so"), to, failed);
  if (!failed) fs::permissions(to, fs::perms(0600), failed);
  if (failed) return Error{Errc::io_error, to.string() + ": " + failed.message()};
  return done();
}

Outcome<void> fill_side(const Swap& swap, const SwapPart& side, const fs::path& copies, const fs::path& folder) {
  BOOST_OUTCOME_TRY(make_folder(folder));
  BOOST_OUTCOME_TRY(make_folder(folder / "plugins"));
  BOOST_OUTCOME_TRY(copy_plugin(side, copies, folder / "plugins"));
  for (const SwapPart& other : swap.others) {
    if (other.kind == side.kind && other.name == side.name) continue;
    BOOST_OUTCOME_TRY(copy_plugin(other, copies, folder / "plugins"));
  }
  const fs::path file = folder / "gearbox.toml";
  std::ofstream out(file, std::ios::binary);
  out << gate_config_text(swap, side);
  out.close();
  if (!out) return Error{Errc::io_error, file.string() + " cannot be written"};
  return done();
}

}  // namespace

std::string options_text(const Given& options) {
  std::string text;
  for (const auto& [key, value] : options) text += toml_text(key) + " = " + value_text(value) + "\n";
  return text;
}

std::string gate_config_text(const Swap& swap, const SwapPart& side) {
  const config::GateConfig& gate = swap.gate;
  const bool is_balancer = side.kind == "balancer";
  // Which of the two balancers a replay asks depends on the model: both are the one that is judged.
  const std::string usual = named_by(gate, "central.balancer", named_by(gate, "node.balancer", "least_loaded"));
  const std::string central = is_balancer ? side.name : usual;
  const std::string node = is_balancer ? side.name : named_by(gate, "node.balancer", usual);
  std::string text = "[central]\nbalancer = " + toml_text(central) + "\n[node]\nbalancer = " + toml_text(node) + "\n";
  text += gears_text(gate.rules, gate.rules.enabled || !is_balancer, is_balancer ? gate.rules.policy : side.name);
  const auto add = [&text](const SwapPart& part) {
    if (!part.options.empty()) text += "[plugins." + toml_text(part.name) + "]\n" + options_text(part.options);
  };
  add(side);
  for (const SwapPart& other : swap.others) {
    if (other.name != side.name) add(other);
  }
  return text;
}

GateFolder::GateFolder(const HostPaths& paths) : path_(paths.copies / ("gate-" + paths.calling.stem().string())) {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

GateFolder::~GateFolder() {
  std::error_code ignored;  // the next one removes it
  fs::remove_all(path_, ignored);
}

Outcome<void> GateFolder::fill(const Swap& swap, const fs::path& copies) const {
  BOOST_OUTCOME_TRY(make_folder(path_));
  BOOST_OUTCOME_TRY(make_folder(path_ / "tmp"));
  BOOST_OUTCOME_TRY(fill_side(swap, swap.candidate, copies, path_ / "candidate"));
  return fill_side(swap, swap.against, copies, path_ / "against");
}

}  // namespace gearbox::plugin_host
