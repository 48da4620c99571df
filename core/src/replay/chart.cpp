#include "replay/chart.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>

namespace gearbox::replay {

namespace {

constexpr double kWidth = 920;
constexpr double kHeight = 300;
constexpr double kLeft = 58;
constexpr double kRight = 14;
constexpr double kTop = 12;
constexpr double kBottom = 40;
constexpr double kRow = 20;
constexpr double kNames = 96;

template <class... Values>
std::string text(const char* format, Values... values) {
  char line[256];
  std::snprintf(line, sizeof line, format, values...);
  return line;
}

/// 1, 2 or 5 times a power of ten, so that about `wanted` of them reach `span`.
double nice_step(double span, int wanted) {
  const double raw = span / wanted;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  const double mantissa = raw / power;
  return power * (mantissa < 1.5 ? 1 : mantissa < 3.5 ? 2 : mantissa < 7.5 ? 5 : 10);
}

/// Ticks of minutes and hours rather than of thousands of seconds.
double time_step(double span) {
  for (const double step : {1., 2., 5., 10., 30., 60., 120., 300., 600., 1200., 1800., 3600., 7200., 14400., 21600.}) {
    if (span / step <= 9) return step;
  }
  return 86400;
}

std::string number_text(double value) {
  if (value != 0 && std::abs(value) < 0.1) return text("%.2g", value);
  return text("%g", std::round(value * 100) / 100);
}

struct Scale {
  double low = 0, high = 1, from = 0, until = 1;
  bool logarithmic = false;
  double operator()(double value) const {
    const double share =
        logarithmic ? std::log(std::max(value, low) / low) / std::log(high / low) : (value - low) / (high - low);
    return from + std::clamp(share, 0.0, 1.0) * (until - from);
  }
};

std::string grid_y(const Chart& chart, const Scale& x, const Scale& y) {
  std::string svg;
  const double step = nice_step(y.high - y.low, 5);
  for (double at = 0; at <= y.high * 1.0001; at += step) {
    svg +=
        text("<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>", x.from, x.until, y(at), y(at));
    const std::string label = chart.y_unit == "%" ? number_text(at * 100) : number_text(at);
    svg += text("<text class=\"tick\" text-anchor=\"end\" x=\"%.1f\" y=\"%.1f\">%s</text>", x.from - 8, y(at) + 4,
                label.c_str());
  }
  return svg;
}

std::string tick_x(double at, const std::string& label, const Scale& x, const Scale& y) {
  return text("<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>", x(at), x(at), y.from, y.until) +
         text("<text class=\"tick\" text-anchor=\"middle\" x=\"%.1f\" y=\"%.1f\">%s</text>", x(at), y.from + 18,
              label.c_str());
}

std::string grid_x(const Scale& x, const Scale& y) {
  std::string svg;
  if (!x.logarithmic) {
    const double step = time_step(x.high - x.low);
    for (double at = 0; at <= x.high * 1.0001; at += step) svg += tick_x(at, time_text(at), x, y);
    return svg;
  }
  const double decades = std::log10(x.high / x.low);
  for (double power = std::pow(10, std::floor(std::log10(x.low))); power <= x.high * 1.001; power *= 10) {
    for (const double part : {1., 2., 5.}) {
      const double at = power * part;
      if (at < x.low * 0.999 || at > x.high * 1.001 || (decades > 3 && part != 1)) continue;
      svg += tick_x(at, time_text(at), x, y);
    }
  }
  return svg;
}

std::string path_of(const Line& line, const Scale& x, const Scale& y) {
  std::string path;
  double last = y.from;
  for (std::size_t i = 0; i < line.points.size(); ++i) {
    const double at_x = x(line.points[i].first);
    const double at_y = y(line.points[i].second);
    if (i == 0) {
      path += text("M%.1f %.1f", at_x, at_y);
    } else {
      if (line.steps) path += text("L%.1f %.1f", at_x, last);
      path += text("L%.1f %.1f", at_x, at_y);
    }
    last = at_y;
  }
  return path;
}

}  // namespace

std::string html_text(std::string_view raw) {
  std::string safe;
  for (const char c : raw) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

std::string time_text(double seconds) {
  if (seconds == 0) return "0";
  if (seconds < 0.001) return text("%.3g µs", seconds * 1e6);
  if (seconds < 1) return text("%.3g ms", seconds * 1e3);
  if (seconds < 120) return text("%.3g s", seconds);
  if (seconds < 7200) return text("%.3g min", seconds / 60);
  return text("%.3g h", seconds / 3600);
}

std::string svg_of(const Chart& chart) {
  Scale x;
  Scale y;
  x.from = kLeft;
  x.until = kWidth - kRight;
  y.from = kHeight - kBottom;
  y.until = kTop;
  x.logarithmic = chart.x_logarithmic;
  x.low = chart.x_logarithmic ? 1e300 : 0;
  x.high = 0;
  y.high = chart.y_most;
  for (const Line& line : chart.lines) {
    for (const auto& [at, value] : line.points) {
      if (chart.x_logarithmic && at > 0) x.low = std::min(x.low, at);
      x.high = std::max(x.high, at);
      if (chart.y_most == 0) y.high = std::max(y.high, value);
    }
  }
  if (x.high <= x.low) x.low = chart.x_logarithmic ? 1e-3 : 0, x.high = 1;
  if (y.high <= 0) y.high = 1;
  if (chart.y_most == 0) {
    const double step = nice_step(y.high, 5);
    y.high = step * std::ceil(y.high / step);
  }
  std::string svg = text("<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\">", kWidth, kHeight);
  svg += "<title>" + html_text(chart.title) + "</title>";
  svg += grid_y(chart, x, y) + grid_x(x, y);
  // Where lines lie on each other, those below are seen through the gaps of those above.
  constexpr const char* kDashes[] = {"", ";stroke-dasharray:9 6", ";stroke-dasharray:3 4",
                                     ";stroke-dasharray:12 4 3 4"};
  std::size_t drawn = 0;
  for (const Line& line : chart.lines) {
    if (line.points.empty()) continue;
    const char* const dashes = kDashes[drawn++ % std::size(kDashes)];
    const std::string path = path_of(line, x, y);
    if (line.area) {
      svg += "<path class=\"area\" style=\"fill:" + line.colour + "\" d=\"" + path +
             text("L%.1f %.1fL%.1f %.1fZ", x(line.points.back().first), y.from, x(line.points.front().first), y.from) +
             "\"/>";
    }
    svg += "<path class=\"line\" style=\"stroke:" + line.colour + dashes + "\" d=\"" + path + "\"><title>" +
           html_text(line.name) + "</title></path>";
  }
  svg += text("<text class=\"unit\" text-anchor=\"end\" x=\"%.1f\" y=\"%.1f\">%s</text>", x.until, kHeight - 6,
              html_text(chart.x_unit).c_str());
  svg += text("<text class=\"unit\" x=\"%.1f\" y=\"%.1f\">%s</text></svg>", 4.0, kHeight - 6,
              html_text(chart.y_unit).c_str());
  return svg;
}

std::string svg_of(const Strips& strips) {
  const double height = kTop + kRow * static_cast<double>(strips.rows.size()) + 30;
  Scale x;
  x.high = std::max(1e-9, strips.until);
  x.from = kNames;
  x.until = kWidth - kRight;
  Scale y;
  y.from = height - 26;
  y.until = kTop - 4;
  std::string svg = text("<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\">", kWidth, height);
  svg += "<title>" + html_text(strips.title) + "</title>" + grid_x(x, y);
  for (std::size_t i = 0; i < strips.rows.size(); ++i) {
    svg += text("<text class=\"tick\" text-anchor=\"end\" x=\"%.1f\" y=\"%.1f\">", kNames - 8,
                kTop + kRow * static_cast<double>(i) + 12) +
           html_text(strips.rows[i]) + "</text>";
  }
  for (const Strip& strip : strips.strips) {
    const double from = x(strip.from);
    svg += text("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"2\" style=\"fill:%s\"><title>", from,
                kTop + kRow * static_cast<double>(strip.row), std::max(0.8, x(strip.until) - from), kRow - 4,
                strip.colour.c_str()) +
           html_text(strip.told) + "</title></rect>";
  }
  return svg + "</svg>";
}

}  // namespace gearbox::replay
