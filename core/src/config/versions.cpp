#include "config/versions.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "gearbox/base/text.hpp"

namespace gearbox::config {

namespace {

constexpr std::size_t kMaxRangeBytes = 128;
constexpr std::string_view kValid =
    "; valid are a version (\"1.2\"), \"latest\", comparisons (\">=1.2,<2\"), \"~1.2\" and \"1.*\"";

/// Takes the part before the next dot off `rest`.
std::string_view next_part(std::string_view& rest) {
  const std::string_view part = rest.substr(0, rest.find('.'));
  rest.remove_prefix(std::min(rest.size(), part.size() + 1));
  return part;
}

bool is_number(std::string_view part) {
  return std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// Does `version` begin with the parts of `prefix`, however its numbers are written? `rest`: what comes behind them.
bool begins_with(std::string_view version, std::string_view prefix, std::string_view& rest) {
  while (!prefix.empty()) {
    if (compare_versions(next_part(version), next_part(prefix)) != 0) return false;
  }
  rest = version;
  return true;
}

/// "2.rc1" of "2": older than it, but no version of what comes before 2.
bool is_preview_of(std::string_view version, std::string_view of) {
  std::string_view rest;
  return begins_with(version, of, rest) && !rest.empty() && !is_number(next_part(rest));
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

struct Comparison {
  std::string_view op;  // ">=", ">", "<=", "<", "=", "!=", "~", or "*" with the parts before the star
  std::string_view version;
};

std::optional<Comparison> read_comparison(std::string_view text) {
  constexpr std::array<std::string_view, 7> kOps = {">=", "<=", "!=", ">", "<", "=", "~"};  // longer ones first
  text = trimmed(text);
  if (text == "*") return Comparison{"*", {}};
  if (text.size() > 2 && text.substr(text.size() - 2) == ".*") {
    text.remove_suffix(2);
    return is_name(text) ? std::optional(Comparison{"*", text}) : std::nullopt;
  }
  const auto op = std::find_if(kOps.begin(), kOps.end(), [&](std::string_view one) { return text.starts_with(one); });
  if (op == kOps.end()) return std::nullopt;
  const std::string_view version = trimmed(text.substr(op->size()));
  return is_name(version) ? std::optional(Comparison{*op, version}) : std::nullopt;
}

/// With what a version has to begin that is like "~1.2.3".
std::string_view two_parts(std::string_view bound) {
  const std::size_t first = bound.find('.');
  return bound.substr(0, first == std::string_view::npos ? first : bound.find('.', first + 1));
}

bool holds(const Comparison& comparison, std::string_view version) {
  const auto& [op, bound] = comparison;
  std::string_view rest;
  if (op == "*") return begins_with(version, bound, rest);
  const auto order = compare_versions(version, bound);
  if (op == "~") return order >= 0 && begins_with(version, two_parts(bound), rest);
  if (op == ">=") return order >= 0;
  if (op == ">") return order > 0;
  if (op == "<=") return order <= 0;
  if (op == "<") return order < 0 && !is_preview_of(version, bound);
  return (op == "=") == (order == 0);
}

/// Calls `each(text)` for the pieces between commas as long as it says true; did it always?
template <class Each>
bool all_pieces(std::string_view asked, Each each) {
  for (;;) {
    const std::size_t comma = std::min(asked.find(','), asked.size());
    if (!each(asked.substr(0, comma))) return false;
    if (comma == asked.size()) return true;
    asked.remove_prefix(comma + 1);
  }
}

/// The versions between two bounds, as far as the comparisons of a range narrow them.
struct Bounds {
  struct End {
    std::string_view version;
    bool strict = false;  // the version itself is outside
  };
  std::optional<End> lower, upper;
  std::vector<std::string_view> prefixes;  // with which a version has to begin

  void add(const Comparison& comparison) {
    const auto& [op, bound] = comparison;
    if (op == "*" && !bound.empty()) prefixes.push_back(bound);
    if (op == "~") prefixes.push_back(two_parts(bound));
    if (op == ">" || op == ">=" || op == "=" || op == "~") {
      const auto order = lower ? compare_versions(bound, lower->version) : std::strong_ordering::greater;
      if (order > 0 || (order == 0 && op == ">")) lower = End{bound, op == ">"};
    }
    if (op == "<" || op == "<=" || op == "=") {
      const auto order = upper ? compare_versions(bound, upper->version) : std::strong_ordering::less;
      if (order < 0 || (order == 0 && op == "<")) upper = End{bound, op == "<"};
    }
  }

  bool are_apart() const {
    std::string_view rest;
    if (lower && upper) {
      const auto order = compare_versions(lower->version, upper->version);
      if (order > 0 || (order == 0 && (lower->strict || upper->strict))) return true;
    }
    for (const std::string_view prefix : prefixes) {
      const auto beside = [&](const std::optional<End>& end) {  // no version that begins so is next to that end
        return end && !begins_with(end->version, prefix, rest) && !begins_with(prefix, end->version, rest);
      };
      if (beside(lower) && compare_versions(prefix, lower->version) < 0) return true;
      if (upper && upper->strict && begins_with(prefix, upper->version, rest)) return true;  // "<1" has no 1.rc1 either
      if (beside(upper) && compare_versions(prefix, upper->version) > 0) return true;
      for (const std::string_view other : prefixes) {
        if (!begins_with(other, prefix, rest) && !begins_with(prefix, other, rest)) return true;
      }
    }
    return false;
  }
};

/// Is there no version that all comparisons of `asked` hold for? False where that is not plain to see.
bool is_empty_in_itself(std::string_view asked) {
  Bounds bounds;
  all_pieces(asked, [&](std::string_view piece) {
    if (const auto comparison = read_comparison(piece)) bounds.add(*comparison);
    return true;
  });
  return bounds.are_apart();
}

}  // namespace

std::strong_ordering compare_versions(std::string_view a, std::string_view b) {
  while (!a.empty() || !b.empty()) {
    const std::string_view part_a = a.substr(0, a.find('.'));
    const std::string_view part_b = b.substr(0, b.find('.'));
    a.remove_prefix(std::min(a.size(), part_a.size() + 1));
    b.remove_prefix(std::min(b.size(), part_b.size() + 1));
    const auto number = [](std::string_view part) {
      return std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    };
    std::strong_ordering order = std::strong_ordering::equal;
    if (number(part_a) && number(part_b)) {
      // By length without leading zeros, then by digits: no number is too long for that. A missing part counts as 0.
      const auto significant = [](std::string_view part) {
        return part.substr(std::min(part.find_first_not_of('0'), part.size()));
      };
      const std::string_view digits_a = significant(part_a);
      const std::string_view digits_b = significant(part_b);
      order =
          digits_a.size() != digits_b.size() ? digits_a.size() <=> digits_b.size() : digits_a.compare(digits_b) <=> 0;
    } else if (number(part_a) != number(part_b)) {
      order =
          number(part_a) ? std::strong_ordering::greater : std::strong_ordering::less;  // "1.0" is newer than "1.rc"
    } else {
      order = part_a.compare(part_b) <=> 0;
    }
    if (order != std::strong_ordering::equal) return order;
  }
  return std::strong_ordering::equal;
}

Asked kind_of(std::string_view asked) {
  if (asked.empty() || asked == "latest") return Asked::latest;
  return is_name(asked) ? Asked::exact : Asked::range;
}

std::string asked_fault(std::string_view asked) {
  if (kind_of(asked) != Asked::range) return {};
  std::string fault;
  if (asked.size() > kMaxRangeBytes) {
    fault = "is longer than " + std::to_string(kMaxRangeBytes) + " bytes";
  } else {
    all_pieces(asked, [&](std::string_view piece) {
      if (!read_comparison(piece)) fault = "'" + std::string(trimmed(piece)) + "' is no version and no comparison";
      return fault.empty();
    });
  }
  if (!fault.empty()) return fault + std::string(kValid);
  if (is_empty_in_itself(asked)) return "'" + std::string(asked) + "' is an empty range: no version can be in it";
  return {};
}

bool admits(std::string_view asked, std::string_view version) {
  switch (kind_of(asked)) {
    case Asked::latest:
      return true;
    case Asked::exact:
      return asked == version;
    case Asked::range:
      break;
  }
  return all_pieces(asked, [&](std::string_view piece) {
    const auto comparison = read_comparison(piece);
    return comparison && holds(*comparison, version);
  });
}

}  // namespace gearbox::config
