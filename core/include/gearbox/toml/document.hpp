// document.hpp: guarded reading of one TOML file: what is in it is checked here, so that nothing outside sees a raw
// value.
//
// toml++ guards arrays and inline tables only: a dotted key of 100,000 parts ends the process. So the text is scanned
// first, and refused when it is too large, nested too deeply, or no UTF-8. Then every value is read through a Table,
// which knows the type and the range asked for; what nobody asked for is an unknown key. All faults are collected, none
// is thrown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "gearbox/base/outcome.hpp"

namespace gearbox::toml {

inline constexpr std::size_t kMaxFileBytes = 256 * 1024;
inline constexpr std::size_t kMaxNesting =
    32;  // parts of a dotted key or header; arrays and inline tables in each other
inline constexpr std::size_t kMaxListed = 50;  // faults told; the others are counted

/// Collects "FILE:LINE:COLUMN: key: what" of any number of documents. Not thread-safe.
class Faults {
 public:
  /// `line` and `column` start at 1; 0 for a fault of the file as a whole. `key` may be empty. Outside text is escaped
  /// here.
  void add(std::string_view file, std::size_t line, std::size_t column, std::string_view key, std::string_view what);
  /// Takes over the lines of another collection's error(), each behind `prefix`.
  void add_told(const Error& error, std::string_view prefix = {});
  bool empty() const { return count_ == 0; }
  std::size_t count() const { return count_; }
  /// bad_config; the detail has one line for each fault, in the order found.
  Error error() const;

 private:
  std::vector<std::string> lines_;
  std::size_t count_ = 0;
};

/// Reads a regular file of at most `limit` bytes (never waits on a FIFO or device).
/// Errors: not_found; too_large; io_error. The detail does not repeat the path.
Outcome<std::string> read_file(const std::filesystem::path& path, std::size_t limit = kMaxFileBytes);

/// What must hold before toml++ may see `text`. Errors: bad_config, the detail is "LINE:COLUMN: what".
Outcome<void> check_nesting(std::string_view text);

using Scalar = std::variant<std::int64_t, double, bool, std::string>;

/// A view of one TOML table; copies are cheap. Each getter makes its key known, adds a fault for a value of another
/// type or outside the range, and then gives `fallback`, so that reading goes on and finds the other faults too. Valid
/// as long as its Document.
class Table {
 public:
  bool has(std::string_view key) const;

  std::int64_t integer(std::string_view key, std::int64_t fallback, std::int64_t lowest, std::int64_t highest) const;
  double number(std::string_view key, double fallback, double lowest,
                double highest) const;  // finite; takes integers too
  bool boolean(std::string_view key, bool fallback) const;
  std::string text(std::string_view key, std::string_view fallback, std::size_t max_bytes = 1024) const;
  /// A text on the allow-list of names (base/text.hpp).
  std::string name(std::string_view key, std::string_view fallback) const;
  /// An array of integers; nothing when the key is missing or wrong.
  std::optional<std::vector<std::int64_t>> integers(std::string_view key, std::int64_t lowest, std::int64_t highest,
                                                    std::size_t max_count) const;
  /// An array of texts of at most `max_bytes` each; nothing when the key is missing or wrong.
  std::optional<std::vector<std::string>> texts(std::string_view key, std::size_t max_count,
                                                std::size_t max_bytes) const;
  /// Adds a fault when `key` is missing; true when it is there.
  bool require(std::string_view key) const;

  /// [key]: nothing when it is missing or no table (a fault).
  std::optional<Table> table(std::string_view key) const;
  /// [[key]]: empty when it is missing; a fault when it is no array of tables or has more than `max_count`.
  std::vector<Table> tables(std::string_view key, std::size_t max_count) const;

  /// For tables whose keys are the user's: all keys, in the file's order, not yet known.
  std::vector<std::string> keys() const;
  /// The scalar at `key`; nothing, with a fault, when it is a date, an array or a table.
  std::optional<Scalar> scalar(std::string_view key) const;
  bool is_table(std::string_view key) const;
  bool is_text(std::string_view key) const;

  /// Adds a fault at the place of `key` (of the table when the key is missing).
  void fault(std::string_view key, std::string_view what) const;
  /// "node.limits": the table's own name in faults; empty for the root.
  const std::string& path() const { return path_; }

 private:
  friend class Document;
  struct Node;
  Table(Node* node, std::string path) : node_(node), path_(std::move(path)) {}
  Node* node_;
  std::string path_;
};

/// One parsed file. Movable. `faults` given to parse() must outlive it.
class Document {
 public:
  /// Reads and parses; `shown` is the file's name in faults. Nothing, with at least one fault, when that cannot be
  /// done. An empty file is a fault: it is one that is still being written.
  static std::optional<Document> read(const std::filesystem::path& path, std::string_view shown, Faults& faults);
  static std::optional<Document> parse(std::string text, std::string_view shown, Faults& faults);
  Document(Document&&) noexcept;
  Document& operator=(Document&&) noexcept;
  ~Document();

  Table root() const;
  const std::string& text() const;
  /// Call it when all has been read: each key that no getter asked for is a fault, with the nearest valid name.
  void report_unknown_keys() const;

 private:
  struct State;
  friend class Table;
  explicit Document(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace gearbox::toml
