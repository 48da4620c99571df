#include "replay/trace.hpp"

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <optional>

#include "gearbox/base/text.hpp"
#include "gearbox/toml/document.hpp"

namespace gearbox::replay {

namespace {

namespace json = boost::json;

constexpr std::string_view kMagic = "# gearbox-trace 1";
constexpr std::string_view kColumns = "at_us,model,tenant,input_tokens,output_tokens,bytes";
constexpr std::string_view kAzure = "TIMESTAMP,ContextTokens,GeneratedTokens";
constexpr std::size_t kMostNames = 60'000;
constexpr double kLongest = 366 * 86'400.0;

using Fields = std::vector<std::string_view>;

Fields split(std::string_view line) {
  Fields fields;
  for (;;) {
    const std::size_t comma = line.find(',');
    fields.push_back(line.substr(0, comma));
    if (comma == std::string_view::npos) return fields;
    line.remove_prefix(comma + 1);
  }
}

template <class Number>
bool read_number(std::string_view text, Number& value) {
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failed == std::errc() && end == text.data() + text.size();
}

/// Days since 1970-01-01 of a date of the Gregorian calendar.
std::int64_t days_of(std::int64_t year, unsigned month, unsigned day) {
  year -= month <= 2 ? 1 : 0;
  const std::int64_t era = (year >= 0 ? year : year - 399) / 400;
  const auto of_era = static_cast<unsigned>(year - era * 400);
  const unsigned of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
  return era * 146'097 + static_cast<std::int64_t>(of_era * 365 + of_era / 4 - of_era / 100 + of_year) - 719'468;
}

/// "2023-11-16 18:17:03.9799600", in nanoseconds since 1970.
std::optional<Nanos> read_time(std::string_view text) {
  if (text.size() < 19 || text[4] != '-' || text[7] != '-' || text[13] != ':' || text[16] != ':') return {};
  int year = 0;
  unsigned month = 0, day = 0, hour = 0, minute = 0, second = 0;
  if (!read_number(text.substr(0, 4), year) || !read_number(text.substr(5, 2), month) ||
      !read_number(text.substr(8, 2), day) || !read_number(text.substr(11, 2), hour) ||
      !read_number(text.substr(14, 2), minute) || !read_number(text.substr(17, 2), second))
    return {};
  if (month < 1 || month > 12 || day < 1 || day > 31 || hour > 23 || minute > 59 || second > 60) return {};
  Nanos time = days_of(year, month, day) * 86'400 + hour * 3600 + minute * 60 + second;
  time *= kSecond;
  if (text.size() > 19) {
    if (text[19] != '.') return {};
    Nanos digit = kSecond / 10;
    for (const char c : text.substr(20)) {
      if (c < '0' || c > '9') return {};
      time += digit * (c - '0');
      digit /= 10;
    }
  }
  return time;
}

/// Index of a name among those seen, which are few.
class Names {
 public:
  explicit Names(std::vector<std::string>& names) : names_(names) {}
  std::optional<std::uint16_t> of(std::string_view name) {
    if (name.empty()) return std::uint16_t{0};
    if (const auto known = index_.find(name); known != index_.end()) return known->second;
    if (!is_name(name) || names_.size() >= kMostNames) return {};
    const auto index = static_cast<std::uint16_t>(names_.size());
    names_.emplace_back(name);
    index_.emplace(names_.back(), index);
    return index;
  }

 private:
  std::vector<std::string>& names_;
  std::map<std::string, std::uint16_t, std::less<>> index_;
};

/// Reads one line; false: `why` says what is wrong with it.
class LineReader {
 public:
  virtual ~LineReader() = default;
  virtual bool read(std::string_view line, Arrival& arrival, std::string& why) = 0;
};

bool tokens(std::string_view text, std::uint32_t& value, std::string& why) {
  if (read_number(text, value) && value <= kMostTokens) return true;
  why = "'" + escaped(text, 40) + "' is no number of tokens";
  return false;
}

class OwnLines final : public LineReader {
 public:
  OwnLines(Trace& trace, std::size_t columns) : models_(trace.models), tenants_(trace.tenants), columns_(columns) {}
  bool read(std::string_view line, Arrival& arrival, std::string& why) override {
    const Fields fields = split(line);
    std::int64_t at_us = 0;
    // Columns of a live node's recording follow, which are for people: times that this simulation is to find.
    if (fields.size() != columns_) {
      why = "it has " + std::to_string(fields.size()) + " fields instead of " + std::to_string(columns_);
      return false;
    }
    if (!read_number(fields[0], at_us) || at_us < 0 || static_cast<double>(at_us) > kLongest * 1e6) {
      why = "'" + escaped(fields[0], 40) + "' is no time in microseconds";
      return false;
    }
    const auto model = models_.of(fields[1]);
    const auto tenant = tenants_.of(fields[2]);
    if (!model || !tenant) {
      why = "'" + escaped(model ? fields[2] : fields[1], 64) + "' is no name";
      return false;
    }
    arrival.at = at_us * 1000;
    arrival.model = *model;
    arrival.tenant = *tenant;
    if (!read_number(fields[5], arrival.bytes)) {
      why = "'" + escaped(fields[5], 40) + "' is no number of bytes";
      return false;
    }
    return tokens(fields[3], arrival.input_tokens, why) && tokens(fields[4], arrival.output_tokens, why);
  }

 private:
  Names models_, tenants_;
  std::size_t columns_;
};

class AzureLines final : public LineReader {
 public:
  bool read(std::string_view line, Arrival& arrival, std::string& why) override {
    const Fields fields = split(line);
    const auto at = read_time(fields[0]);
    if (fields.size() != 3 || !at) {
      why = "it is not TIME,TOKENS,TOKENS";
      return false;
    }
    arrival.at = *at;
    return tokens(fields[1], arrival.input_tokens, why) && tokens(fields[2], arrival.output_tokens, why);
  }
};

class MooncakeLines final : public LineReader {
 public:
  bool read(std::string_view line, Arrival& arrival, std::string& why) override {
    boost::system::error_code bad;
    const json::value value = json::parse(json::string_view(line.data(), line.size()), bad);
    const json::object* object = bad ? nullptr : value.if_object();
    double at_ms = 0, input = 0, output = 0;
    if (object == nullptr || !number(*object, "timestamp", at_ms) || !number(*object, "input_length", input) ||
        !number(*object, "output_length", output) || at_ms / 1e3 > kLongest || input > kMostTokens ||
        output > kMostTokens) {
      why = "it is no object with timestamp, input_length and output_length";
      return false;
    }
    arrival.at = from_seconds(at_ms / 1e3);
    arrival.input_tokens = static_cast<std::uint32_t>(input);
    arrival.output_tokens = static_cast<std::uint32_t>(output);
    return true;
  }

 private:
  static bool number(const json::object& object, const char* member, double& value) {
    const json::value* found = object.if_contains(member);
    if (found == nullptr || !found->is_number()) return false;
    value = found->to_number<double>();
    return value >= 0 && value == value;
  }
};

std::string_view next_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return line;
}

}  // namespace

Outcome<Trace> parse_trace(std::string_view text, const std::string& name) {
  Trace trace;
  trace.name = name;
  std::unique_ptr<LineReader> reader;
  std::string_view rest = text;
  std::size_t number = 1;
  const std::string_view first = next_line(rest);
  if (first == kMagic) {
    trace.origin = "gearbox-trace";
    ++number;
    const std::string_view columns = next_line(rest);
    if (columns != kColumns && !columns.starts_with(std::string(kColumns) + ","))
      return Error{Errc::bad_input, name + ":2: the columns are " + std::string(kColumns)};
    reader = std::make_unique<OwnLines>(trace, split(columns).size());
  } else if (first == kAzure) {
    trace.origin = "Azure LLM inference trace";
    reader = std::make_unique<AzureLines>();
  } else if (!first.empty() && first.front() == '{') {
    trace.origin = "Mooncake trace";
    reader = std::make_unique<MooncakeLines>();
    rest = text;
    number = 0;
  } else {
    return Error{Errc::bad_input, name + ":1: no known trace: it begins neither with '" + std::string(kMagic) +
                                      "' nor with '" + std::string(kAzure) + "' nor with a JSON object"};
  }
  while (!rest.empty()) {
    const std::string_view line = next_line(rest);
    ++number;
    if (line.empty() || line.front() == '#') continue;
    Arrival arrival;
    std::string why;
    if (!reader->read(line, arrival, why))
      return Error{Errc::bad_input, name + ":" + std::to_string(number) + ": " + why};
    if (arrival.output_tokens == 0 && arrival.input_tokens == 0 && trace.origin != "gearbox-trace") {
      ++trace.left_out;
      continue;
    }
    trace.arrivals.push_back(arrival);
  }
  if (trace.arrivals.empty()) return Error{Errc::bad_input, name + ": there is no request in it"};
  std::stable_sort(trace.arrivals.begin(), trace.arrivals.end(),
                   [](const Arrival& a, const Arrival& b) { return a.at < b.at; });
  const Nanos begin = trace.arrivals.front().at;
  for (Arrival& arrival : trace.arrivals) arrival.at -= begin;
  return trace;
}

Outcome<Trace> read_trace(const std::filesystem::path& file) {
  auto text = toml::read_file(file, kMostTraceBytes);
  if (!text) return Error{text.error().code, file.string() + ": " + describe(text.error())};
  return parse_trace(text.value(), file.filename().string());
}

std::string text_of(const Trace& trace) {
  std::string text(kMagic);
  text += '\n';
  text += kColumns;
  text += '\n';
  for (const Arrival& arrival : trace.arrivals) {
    text += std::to_string(arrival.at / 1000) + "," + trace.models[arrival.model] + "," +
            trace.tenants[arrival.tenant] + "," + std::to_string(arrival.input_tokens) + "," +
            std::to_string(arrival.output_tokens) + "," + std::to_string(arrival.bytes) + "\n";
  }
  return text;
}

}  // namespace gearbox::replay
