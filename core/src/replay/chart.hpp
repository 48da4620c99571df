// chart.hpp: line charts and strips as SVG text, for the report.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gearbox::replay {

struct Line {
  std::string name;
  std::string colour;  // a CSS value
  std::vector<std::pair<double, double>> points;
  bool area = false;   // filled down to the axis
  bool steps = false;  // from point to point level, then up or down
};

struct Chart {
  std::string title;  // for those who do not see it
  std::string x_unit, y_unit;
  bool x_logarithmic = false;
  double y_most = 0;  // 0: as the lines need
  std::vector<Line> lines;
};
std::string svg_of(const Chart& chart);

/// A bar of a row from `from` to `until`.
struct Strip {
  std::size_t row = 0;
  double from = 0, until = 0;
  std::string colour, told;  // `told` is shown when it is pointed at
};
struct Strips {
  std::string title;
  std::vector<std::string> rows;  // their names
  double until = 0;               // seconds
  std::vector<Strip> strips;
};
std::string svg_of(const Strips& strips);

/// For HTML: & < > " escaped.
std::string html_text(std::string_view text);
/// Seconds as people write them: "250 ms", "3.1 s", "12 min".
std::string time_text(double seconds);

}  // namespace gearbox::replay
