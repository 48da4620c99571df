// table.hpp: facts for people: aligned columns, numbers to the right.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gearbox::cli {

class Table {
 public:
  /// A column whose title begins with '>' is aligned to the right.
  explicit Table(std::vector<std::string> titles);
  /// Missing cells are empty; surplus ones are dropped. Text from outside must have been escaped.
  void add(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }
  /// Title line and rows, each ended, no trailing blanks; a column with nothing in any row is left out. `bold` puts the
  /// titles in bold.
  std::string text(bool bold) const;

 private:
  std::vector<std::string> titles_;
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;
};

/// "3.4 MB": decimal, three digits at most.
std::string bytes_text(std::uint64_t bytes);
/// Who sent a request, from the hexadecimal device key that the store has: "this host (uid 1000)", or the key.
std::string device_text(const std::string& hex);
/// "2 h 5 min", "34 s"
std::string duration_text(std::uint64_t seconds);

}  // namespace gearbox::cli
