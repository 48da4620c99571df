#include "plugin_host/gate_answer.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <limits>

#include "gearbox/base/text.hpp"

namespace gearbox::plugin_host {

namespace json = boost::json;

namespace {

std::string text_in(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value != nullptr && value->is_string() ? escaped(std::string_view(value->get_string()), 300) : std::string();
}

double number_in(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  boost::system::error_code error;
  const double number = value == nullptr ? 0 : value->to_number<double>(error);
  return error ? 0 : number;
}

bool truth_in(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value != nullptr && value->is_bool() && value->get_bool();
}

template <class Take>
void each_in(const json::object& object, std::string_view key, const Take& take) {
  const json::value* list = object.if_contains(key);
  if (list == nullptr || !list->is_array()) return;
  for (const json::value& value : list->get_array()) {
    if (value.is_object()) take(value.get_object());
  }
}

/// By how much the candidate is worse, as a share of the other one.
double excess(const json::object& row) {
  const double against = number_in(row, "against");
  const double candidate = number_in(row, "candidate");
  if (against == 0) return std::numeric_limits<double>::max();
  return candidate > against ? candidate / against - 1 : 1 - candidate / against;
}

std::string row_text(const json::object& row, double tolerance_percent) {
  const double against = number_in(row, "against");
  const double candidate = number_in(row, "candidate");
  char numbers[96];
  std::snprintf(numbers, sizeof numbers, " %.4g -> %.4g", against, candidate);
  char change[96];
  if (against > 0) {
    std::snprintf(change, sizeof change, " (%+.1f %%; %g %% are tolerated)", 100 * (candidate / against - 1),
                  tolerance_percent);
  } else {
    std::snprintf(change, sizeof change, " (%g %% are tolerated)", tolerance_percent);
  }
  return text_in(row, "figure") + numbers + change;
}

void read_result(const json::object& line, GateAnswer& answer) {
  answer.whole = true;
  answer.passes = truth_in(line, "passes");
  answer.requests = static_cast<std::uint64_t>(std::max(0.0, number_in(line, "requests")));
  double most = -1;
  each_in(line, "figures", [&](const json::object& row) {
    if (!truth_in(row, "worse") || excess(row) <= most) return;
    most = excess(row);
    answer.worst = row_text(row, number_in(line, "tolerance_percent"));
  });
  each_in(line, "parts", [&](const json::object& part) {
    answer.parts.push_back(
        {text_in(part, "side"), text_in(part, "kind"), text_in(part, "name"), text_in(part, "checksum")});
  });
}

void read_line(std::string_view text, GateAnswer& answer) {
  boost::system::error_code error;
  const json::value parsed = json::parse(json::string_view(text.data(), text.size()), error);
  const json::object* line = error ? nullptr : parsed.if_object();
  if (line == nullptr) return;
  if (line->contains("replays")) answer.replays = text_in(*line, "replays");
  if (line->contains("error")) {
    std::string& fault = text_in(*line, "side") == "candidate" ? answer.candidate_fault : answer.setting_fault;
    fault = text_in(*line, "error");
    if (fault.empty()) fault = "it failed";
  }
  if (line->contains("passes")) read_result(*line, answer);
}

}  // namespace

bool GateAnswer::took_part(std::string_view side, const SwapPart& build) const {
  return std::any_of(parts.begin(), parts.end(), [&](const Part& part) {
    return part.side == side && part.kind == build.kind && part.name == build.name && part.checksum == build.checksum;
  });
}

std::string GateAnswer::while_text() const {
  if (replays == "candidate") return "while it was replayed: ";
  if (replays == "against") return "while the one in force was replayed: ";
  return {};
}

GateAnswer read_gate_answer(std::string_view output) {
  GateAnswer answer;
  while (!output.empty()) {
    const std::size_t end = std::min(output.find('\n'), output.size());
    read_line(output.substr(0, end), answer);
    output.remove_prefix(std::min(end + 1, output.size()));
  }
  return answer;
}

std::uint64_t requests_in(const std::filesystem::path& recording) {
  std::ifstream file(recording);
  std::uint64_t lines = 0;
  for (std::string line; std::getline(file, line);) lines += line.empty() || line.front() == '#' ? 0U : 1U;
  return lines == 0 ? 0 : lines - 1;  // the columns' names
}

}  // namespace gearbox::plugin_host
