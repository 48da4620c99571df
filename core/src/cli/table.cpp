#include "cli/table.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

#include "gearbox/base/bytes.hpp"
#include "gearbox/base/ids.hpp"
#include "gearbox/base/text.hpp"

namespace gearbox::cli {

namespace {

/// Columns that a terminal gives to UTF-8 text: continuation bytes take none. Wide characters are not told apart.
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

}  // namespace

Table::Table(std::vector<std::string> titles) : titles_(std::move(titles)) {
  for (std::string& title : titles_) {
    right_.push_back(title.starts_with('>'));
    if (right_.back()) title.erase(0, 1);
  }
}

void Table::add(std::vector<std::string> cells) {
  cells.resize(titles_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::text(bool bold) const {
  std::vector<bool> empty(titles_.size(), !rows_.empty());  // a column that says nothing of any row
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) empty[i] = empty[i] && row[i].empty();
  }
  std::vector<std::size_t> widths;
  for (const std::string& title : titles_) widths.push_back(width(title));
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
  }
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string out;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (empty[i]) continue;
      const std::string blanks(widths[i] - width(cells[i]), ' ');
      out += right_[i] ? blanks + cells[i] : cells[i] + blanks;
      out += "  ";
    }
    out.erase(out.find_last_not_of(' ') + 1);
    return out;
  };
  std::string out = bold ? "\033[1m" + line(titles_) + "\033[0m\n" : line(titles_) + "\n";
  for (const auto& row : rows_) out += line(row) + "\n";
  return out;
}

std::string device_text(const std::string& hex) {
  PublicKey key;
  if (!from_hex(hex, key.bytes)) return escaped(hex);
  // A request of this host has no device key: the node writes the user id there, four bytes, and zeros behind it.
  const bool local = std::all_of(key.bytes.begin() + 4, key.bytes.end(), [](std::byte b) { return b == std::byte{0}; });
  if (!local) return hex;
  return "this host (uid " + std::to_string(load_le<std::uint32_t>(key.bytes.data())) + ")";
}

std::string bytes_text(std::uint64_t bytes) {
  static constexpr std::array kUnits = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1000 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  std::array<char, 32> out;
  std::snprintf(out.data(), out.size(), unit == 0 || value >= 100 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return out.data();
}

std::string duration_text(std::uint64_t seconds) {
  if (seconds < 60) return std::to_string(seconds) + " s";
  if (seconds < 3600) return std::to_string(seconds / 60) + " min " + std::to_string(seconds % 60) + " s";
  if (seconds < 86400) return std::to_string(seconds / 3600) + " h " + std::to_string(seconds % 3600 / 60) + " min";
  return std::to_string(seconds / 86400) + " d " + std::to_string(seconds % 86400 / 3600) + " h";
}

}  // namespace gearbox::cli
