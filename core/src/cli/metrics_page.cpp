#include "cli/metrics_page.hpp"

#include <boost/json/object.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace gearbox::cli {

namespace {

/// Backslash, quote and line end are all that the format forbids in a label's value.
std::string quoted(std::string_view value) {
  std::string text = "\"";
  for (const char letter : value) {
    if (letter == '\\' || letter == '"') text += '\\';
    if (letter == '\n') {
      text += "\\n";
    } else {
      text += letter;
    }
  }
  return text + '"';
}

std::string number(double value) {
  char text[32];
  const bool whole = std::abs(value) < 1e15 && value == std::floor(value);
  std::snprintf(text, sizeof text, whole ? "%.0f" : "%.9g", value);
  return text;
}

}  // namespace

void MetricsPage::add(std::string_view name, std::string_view type, std::string_view help, double value,
                      const Labels& labels) {
  auto metric = std::find_if(metrics_.begin(), metrics_.end(), [&](const Metric& known) { return known.name == name; });
  if (metric == metrics_.end()) {
    metrics_.push_back({std::string(name), std::string(type), std::string(help), {}});
    metric = metrics_.end() - 1;
  }
  std::string& samples = metric->samples;
  samples += name;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    samples += i == 0 ? '{' : ',';
    samples += labels[i].first;
    samples += '=';
    samples += quoted(labels[i].second);
  }
  if (!labels.empty()) samples += '}';
  samples += ' ' + number(value) + '\n';
}

void MetricsPage::add_member(std::string_view name, std::string_view type, std::string_view help,
                             const boost::json::object& object, std::string_view key, const Labels& labels,
                             double scale) {
  const boost::json::value* found = object.if_contains(key);
  if (found == nullptr) return;
  if (found->is_bool()) return add(name, type, help, found->get_bool() ? 1 : 0, labels);
  if (!found->is_number()) return;
  boost::system::error_code bad;
  const auto value = found->to_number<double>(bad);
  if (!bad && value >= 0) add(name, type, help, value * scale, labels);
}

std::string MetricsPage::text() const {
  std::string all;
  for (const Metric& metric : metrics_) {
    all += "# HELP " + metric.name + ' ' + metric.help + "\n# TYPE " + metric.name + ' ' + metric.type + '\n';
    all += metric.samples;
  }
  return all;
}

}  // namespace gearbox::cli
