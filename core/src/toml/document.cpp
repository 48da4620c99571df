#include "gearbox/toml/document.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "gearbox/base/text.hpp"
#include "toml/library.hpp"

namespace gearbox::toml {

namespace lib = ::toml;

struct Table::Node {
  Document::State* document = nullptr;
  const lib::table* table = nullptr;
  std::string path;
  std::set<std::string, std::less<>> known;
};

struct Document::State {
  std::string text;
  std::string shown;
  Faults* faults = nullptr;
  lib::table root;
  std::map<const lib::table*, std::unique_ptr<Table::Node>> nodes;  // opened ones

  Table::Node* open(const lib::table& table, const std::string& path) {
    std::unique_ptr<Table::Node>& node = nodes[&table];
    if (!node) {
      node = std::make_unique<Table::Node>();
      node->document = this;
      node->table = &table;
      node->path = path;
    }
    return node.get();
  }

  void fault_at(const lib::source_region& where, std::string_view key, std::string_view what) const {
    faults->add(shown, where.begin.line, where.begin.column, key, what);
  }
};

namespace {

std::string joined(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : path + "." + std::string(key);
}

std::string_view type_name(const lib::node& node) {
  switch (node.type()) {
    case lib::node_type::table:
      return "a table";
    case lib::node_type::array:
      return node.as_array()->is_array_of_tables() ? "an array of tables" : "an array";
    case lib::node_type::string:
      return "a text";
    case lib::node_type::integer:
      return "an integer";
    case lib::node_type::floating_point:
      return "a number with a fraction";
    case lib::node_type::boolean:
      return "a boolean";
    default:
      return "a date or time";
  }
}

std::string shortest(double value) {
  std::string text = std::to_string(value);
  while (text.find('.') != std::string::npos && (text.back() == '0' || text.back() == '.')) {
    const bool point = text.back() == '.';
    text.pop_back();
    if (point) break;
  }
  return text;
}

std::string range_text(std::int64_t value, std::int64_t lowest, std::int64_t highest) {
  return std::to_string(value) + " is out of range (" + std::to_string(lowest) + " to " + std::to_string(highest) + ")";
}

/// LINE and COLUMN of the first byte that is no UTF-8.
std::pair<std::size_t, std::size_t> first_bad_byte(std::string_view text) {
  std::size_t line = 1;
  std::size_t start = 0;
  for (std::size_t end = text.find('\n');; end = text.find('\n', start)) {
    const std::string_view one = text.substr(start, end == std::string_view::npos ? end : end - start);
    if (!is_utf8(one) || end == std::string_view::npos) {
      std::size_t good = one.size();
      while (good > 0 && !is_utf8(one.substr(0, good))) --good;
      return {line, good + 1};
    }
    start = end + 1;
    ++line;
  }
}

}  // namespace

Document::Document(std::unique_ptr<State> state) : state_(std::move(state)) {}
Document::Document(Document&&) noexcept = default;
Document& Document::operator=(Document&&) noexcept = default;
Document::~Document() = default;

std::optional<Document> Document::read(const std::filesystem::path& path, std::string_view shown, Faults& faults) {
  Outcome<std::string> text = read_file(path);
  if (!text) {
    faults.add(shown, 0, 0, {}, text.error().code == Errc::not_found ? "no such file" : text.error().detail);
    return std::nullopt;
  }
  return parse(std::move(text).value(), shown, faults);
}

std::optional<Document> Document::parse(std::string text, std::string_view shown, Faults& faults) {
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
    faults.add(shown, 0, 0, {}, "is empty");
    return std::nullopt;
  }
  if (text.size() > kMaxFileBytes) {
    faults.add(shown, 0, 0, {}, "is larger than " + std::to_string(kMaxFileBytes) + " bytes");
    return std::nullopt;
  }
  if (!is_utf8(text)) {
    const auto [line, column] = first_bad_byte(text);
    faults.add(shown, line, column, {}, "is not UTF-8");
    return std::nullopt;
  }
  if (const std::size_t nul = text.find('\0'); nul != std::string::npos) {
    const auto line =
        static_cast<std::size_t>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(nul), '\n'));
    faults.add(shown, line + 1, nul - (line == 0 ? 0 : text.rfind('\n', nul) + 1) + 1, {}, "contains a NUL byte");
    return std::nullopt;
  }
  if (Outcome<void> shallow = check_nesting(text); !shallow) {
    faults.add(std::string(shown) + ":" + shallow.error().detail.substr(0, shallow.error().detail.rfind(": ")), 0, 0,
               {}, shallow.error().detail.substr(shallow.error().detail.rfind(": ") + 2));
    return std::nullopt;
  }
  auto state = std::make_unique<State>();
  state->text = std::move(text);
  state->shown = std::string(shown);
  state->faults = &faults;
  lib::parse_result result = lib::parse(std::string_view(state->text), std::string_view());
  if (!result) {
    const lib::parse_error& error = result.error();
    faults.add(shown, error.source().begin.line, error.source().begin.column, {}, error.description());
    return std::nullopt;
  }
  state->root = std::move(result).table();
  return Document(std::move(state));
}

Table Document::root() const {
  return Table(state_->open(state_->root, {}), {});
}
const std::string& Document::text() const {
  return state_->text;
}

void Document::report_unknown_keys() const {
  // In the file's order, whatever order the tables were opened in.
  std::vector<std::pair<const lib::key*, const Table::Node*>> unknown;
  for (const auto& [table, node] : state_->nodes) {
    for (const auto& [key, value] : *table) {
      if (!node->known.contains(key.str())) unknown.emplace_back(&key, node.get());
    }
  }
  const auto place = [](const lib::key* key) {
    return std::pair(key->source().begin.line, key->source().begin.column);
  };
  std::sort(unknown.begin(), unknown.end(),
            [&](const auto& a, const auto& b) { return place(a.first) < place(b.first); });
  for (const auto& [key, node] : unknown) {
    const std::vector<std::string> names(node->known.begin(), node->known.end());
    const std::string_view near = nearest(key->str(), names);
    std::string what = "unknown key";
    if (!near.empty()) what += "; did you mean '" + std::string(near) + "'?";
    state_->fault_at(key->source(), joined(node->path, key->str()), what);
  }
}

bool Table::has(std::string_view key) const {
  const auto known = node_->known.find(key);
  if (known == node_->known.end()) node_->known.emplace(key);
  return node_->table->contains(key);
}

void Table::fault(std::string_view key, std::string_view what) const {
  const lib::node* value = key.empty() ? nullptr : node_->table->get(key);
  const lib::source_region where = value != nullptr ? value->source() : node_->table->source();
  node_->document->fault_at(where, key.empty() ? path_ : joined(path_, key), what);
}

std::int64_t Table::integer(std::string_view key, std::int64_t fallback, std::int64_t lowest,
                            std::int64_t highest) const {
  if (!has(key)) return fallback;
  const lib::node& value = *node_->table->get(key);
  if (!value.is_integer()) {
    fault(key, "expected an integer (" + std::to_string(lowest) + " to " + std::to_string(highest) + "), got " +
                   std::string(type_name(value)));
    return fallback;
  }
  const std::int64_t number = value.as_integer()->get();
  if (number < lowest || number > highest) {
    fault(key, range_text(number, lowest, highest));
    return fallback;
  }
  return number;
}

double Table::number(std::string_view key, double fallback, double lowest, double highest) const {
  if (!has(key)) return fallback;
  const lib::node& value = *node_->table->get(key);
  if (!value.is_number()) {
    fault(key, "expected a number, got " + std::string(type_name(value)));
    return fallback;
  }
  const double number =
      value.is_integer() ? static_cast<double>(value.as_integer()->get()) : value.as_floating_point()->get();
  if (!std::isfinite(number) || number < lowest || number > highest) {
    fault(key, shortest(number) + " is out of range (" + shortest(lowest) + " to " + shortest(highest) + ")");
    return fallback;
  }
  return number;
}

bool Table::boolean(std::string_view key, bool fallback) const {
  if (!has(key)) return fallback;
  const lib::node& value = *node_->table->get(key);
  if (!value.is_boolean()) {
    fault(key, "expected true or false, got " + std::string(type_name(value)));
    return fallback;
  }
  return value.as_boolean()->get();
}

std::string Table::text(std::string_view key, std::string_view fallback, std::size_t max_bytes) const {
  if (!has(key)) return std::string(fallback);
  const lib::node& value = *node_->table->get(key);
  if (!value.is_string()) {
    fault(key, "expected a text in quotes, got " + std::string(type_name(value)));
    return std::string(fallback);
  }
  const std::string& text = value.as_string()->get();
  if (text.size() > max_bytes || text.find('\0') != std::string::npos) {
    fault(key, text.size() > max_bytes ? "is longer than " + std::to_string(max_bytes) + " bytes" : "contains a NUL");
    return std::string(fallback);
  }
  return text;
}

std::string Table::name(std::string_view key, std::string_view fallback) const {
  if (!has(key)) return std::string(fallback);
  const lib::node& value = *node_->table->get(key);
  if (!value.is_string()) {
    fault(key, "expected a text in quotes, got " + std::string(type_name(value)));
    return std::string(fallback);
  }
  const std::string& text = value.as_string()->get();
  if (Outcome<void> good = check_name(key, text); !good) {
    fault(key, "'" + text.substr(0, kMaxNameBytes) +
                   "' is no name: 1 to 64 of A-Z a-z 0-9 . _ - are allowed, a letter or digit first");
    return std::string(fallback);
  }
  return text;
}

std::optional<std::vector<std::int64_t>> Table::integers(std::string_view key, std::int64_t lowest,
                                                         std::int64_t highest, std::size_t max_count) const {
  if (!has(key)) return std::nullopt;
  const lib::node& value = *node_->table->get(key);
  const lib::array* items = value.as_array();
  if (items == nullptr) {
    fault(key, "expected an array of integers, got " + std::string(type_name(value)));
    return std::nullopt;
  }
  if (items->size() > max_count) {
    fault(key, std::to_string(items->size()) + " entries, at most " + std::to_string(max_count) + " are allowed");
    return std::nullopt;
  }
  std::vector<std::int64_t> numbers;
  for (const lib::node& item : *items) {
    if (!item.is_integer()) {
      fault(key, "expected an array of integers, got " + std::string(type_name(item)) + " in it");
      return std::nullopt;
    }
    const std::int64_t number = item.as_integer()->get();
    if (number < lowest || number > highest) {
      fault(key, range_text(number, lowest, highest));
      return std::nullopt;
    }
    numbers.push_back(number);
  }
  return numbers;
}

std::optional<std::vector<std::string>> Table::texts(std::string_view key, std::size_t max_count,
                                                     std::size_t max_bytes) const {
  if (!has(key)) return std::nullopt;
  const lib::node& value = *node_->table->get(key);
  const lib::array* items = value.as_array();
  if (items == nullptr) {
    fault(key, "expected an array of texts, got " + std::string(type_name(value)));
    return std::nullopt;
  }
  if (items->size() > max_count) {
    fault(key, std::to_string(items->size()) + " entries, at most " + std::to_string(max_count) + " are allowed");
    return std::nullopt;
  }
  std::vector<std::string> texts;
  for (const lib::node& item : *items) {
    if (!item.is_string()) {
      fault(key, "expected an array of texts, got " + std::string(type_name(item)) + " in it");
      return std::nullopt;
    }
    const std::string& text = item.as_string()->get();
    if (text.size() > max_bytes || text.find('\0') != std::string::npos) {
      fault(key, "entry " + std::to_string(texts.size() + 1) +
                     (text.size() > max_bytes ? " is longer than " + std::to_string(max_bytes) + " bytes"
                                              : std::string(" contains a NUL")));
      return std::nullopt;
    }
    texts.push_back(text);
  }
  return texts;
}

bool Table::require(std::string_view key) const {
  if (has(key)) return true;
  fault({}, "'" + std::string(key) + "' is missing");
  return false;
}

std::optional<Table> Table::table(std::string_view key) const {
  if (!has(key)) return std::nullopt;
  const lib::node& value = *node_->table->get(key);
  if (!value.is_table()) {
    fault(key, "expected a table, got " + std::string(type_name(value)));
    return std::nullopt;
  }
  const std::string path = joined(path_, key);
  return Table(node_->document->open(*value.as_table(), path), path);
}

std::vector<Table> Table::tables(std::string_view key, std::size_t max_count) const {
  std::vector<Table> found;
  if (!has(key)) return found;
  const lib::node& value = *node_->table->get(key);
  const lib::array* items = value.as_array();
  if (items == nullptr || !(items->empty() || items->is_array_of_tables())) {
    fault(key, "expected [[" + joined(path_, key) + "]], got " + std::string(type_name(value)));
    return found;
  }
  if (items->size() > max_count) {
    fault(key, std::to_string(items->size()) + " entries, at most " + std::to_string(max_count) + " are allowed");
    return found;
  }
  for (const lib::node& item : *items) {
    // Counted from 1, as people do, and as the steps of a device's own file are told.
    const std::string path = joined(path_, key) + "[" + std::to_string(found.size() + 1) + "]";
    found.push_back(Table(node_->document->open(*item.as_table(), path), path));
  }
  return found;
}

std::vector<std::string> Table::keys() const {
  std::vector<const lib::key*> found;
  for (const auto& [key, value] : *node_->table) found.push_back(&key);
  std::sort(found.begin(), found.end(), [](const lib::key* a, const lib::key* b) {
    return std::pair(a->source().begin.line, a->source().begin.column) <
           std::pair(b->source().begin.line, b->source().begin.column);
  });
  std::vector<std::string> names;
  for (const lib::key* key : found) names.emplace_back(key->str());
  return names;
}

std::optional<Scalar> Table::scalar(std::string_view key) const {
  if (!has(key)) return std::nullopt;
  const lib::node& value = *node_->table->get(key);
  if (value.is_integer()) return Scalar(value.as_integer()->get());
  if (value.is_floating_point()) return Scalar(value.as_floating_point()->get());
  if (value.is_boolean()) return Scalar(value.as_boolean()->get());
  if (value.is_string()) return Scalar(value.as_string()->get());
  fault(key, "expected a number, true, false or a text, got " + std::string(type_name(value)));
  return std::nullopt;
}

bool Table::is_table(std::string_view key) const {
  const lib::node* value = node_->table->get(key);
  return value != nullptr && value->is_table();
}

bool Table::is_text(std::string_view key) const {
  const lib::node* value = node_->table->get(key);
  return value != nullptr && value->is_string();
}

}  // namespace gearbox::toml
