// metrics_page.hpp: samples brought together by metric, as the exposition format wants them.
#pragma once

#include <boost/json/value.hpp>

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gearbox::cli {

class MetricsPage {
 public:
  using Labels = std::vector<std::pair<std::string_view, std::string>>;

  /// `type`: "counter" or "gauge". All samples of one name have the type and help of the first.
  void add(std::string_view name, std::string_view type, std::string_view help, double value,
           const Labels& labels = {});
  /// The member `key` of `object`, a number or a truth, times `scale`; nothing when it is missing or below zero, which
  /// is how roles say that nobody knows it.
  void add_member(std::string_view name, std::string_view type, std::string_view help,
                  const boost::json::object& object, std::string_view key, const Labels& labels = {}, double scale = 1);
  std::string text() const;

 private:
  struct Metric {
    std::string name, type, help, samples;
  };
  std::vector<Metric> metrics_;  // in the order in which they came
};

}  // namespace gearbox::cli
