// The report for a browser: figures, distributions, load and gears over time.
#include <algorithm>
#include <cstdio>

#include "replay/chart.hpp"
#include "replay/report.hpp"
#include "replay/report_style.hpp"

namespace gearbox::replay {

namespace {

constexpr std::size_t kMostRows = 64;  // groups in one picture
constexpr std::size_t kMostShifts = 200;
constexpr std::size_t kCurve = 240;  // points
constexpr std::size_t kColours = 8;

std::string number(const char* format, double value) {
  char line[64];
  std::snprintf(line, sizeof line, format, value);
  return line;
}

std::string colour_of(std::size_t contender) {
  return "var(--c" + std::to_string(contender % kColours) + ")";
}

std::string gear_colour(std::uint8_t gear) {
  return "var(--g" + std::to_string(gear) + ")";
}

std::string key_of(const std::string& colour, const std::string& name) {
  return "<span class=\"key\"><i style=\"background:" + colour + "\"></i>" + html_text(name) + "</span>";
}

std::string legend(const std::vector<Scored>& all) {
  std::string html = "<p class=\"legend\">";
  for (std::size_t i = 0; i < all.size(); ++i) html += key_of(colour_of(i), all[i].contender.name);
  return html + "</p>";
}

struct Column {
  const char* title;
  const char* figure;
  bool is_time;
  bool less_is_better;
  double factor;
  const char* format;
};

constexpr Column kColumns[] = {{"mean", "mean_s", true, true, 1, ""},
                               {"p50", "p50_s", true, true, 1, ""},
                               {"p95", "p95_s", true, true, 1, ""},
                               {"p99", "p99_s", true, true, 1, ""},
                               {"first token p50", "first_token_p50_s", true, true, 1, ""},
                               {"first token p99", "first_token_p99_s", true, true, 1, ""},
                               {"per token p50", "per_token_p50_s", true, true, 1, ""},
                               {"within SLO", "good_share", false, false, 100, "%.1f %%"},
                               {"goodput/s", "goodput_per_s", false, false, 1, "%.2f"},
                               {"saturated at/s", "saturation_requests_per_s", false, false, 1, "%.1f"},
                               {"busy", "busy_share", false, false, 100, "%.0f %%"},
                               {"shifts", "shifts", false, false, 1, "%.0f"},
                               {"shift cost, request-s", "shift_cost_request_s", false, false, 1, "%.0f"}};

const Figure* find(const Scored& scored, const std::string& name) {
  for (const auto& [its, figure] : scored.figures) {
    if (its == name) return &figure;
  }
  return nullptr;
}

std::string cell(const Column& column, const Figure& figure) {
  if (!column.is_time) return number(column.format, column.factor * figure.mean);
  std::string text = time_text(figure.mean);
  if (figure.high > figure.low) text += "<small> ±" + time_text((figure.high - figure.low) / 2) + "</small>";
  return text;
}

std::string figures_table(const std::vector<Scored>& all) {
  std::string html = "<div class=\"wide\"><table><thead><tr><th>contender</th>";
  std::vector<const Column*> shown;
  for (const Column& column : kColumns) {
    if (std::none_of(all.begin(), all.end(), [&](const Scored& each) { return find(each, column.figure) != nullptr; }))
      continue;
    shown.push_back(&column);
    html += "<th>" + std::string(column.title) + "</th>";
  }
  html += "</tr></thead><tbody>";
  for (std::size_t i = 0; i < all.size(); ++i) {
    html += "<tr><th>" + key_of(colour_of(i), all[i].contender.name) + "</th>";
    for (const Column* column : shown) {
      const Figure* figure = find(all[i], column->figure);
      if (figure == nullptr) {
        html += "<td></td>";
        continue;
      }
      const bool best = column->is_time && all.size() > 1 &&
                        std::all_of(all.begin(), all.end(),
                                    [&](const Scored& each) { return each.figure(column->figure) >= figure->mean; });
      html += std::string(best ? "<td class=\"best\">" : "<td>") + cell(*column, *figure) + "</td>";
    }
    html += "</tr>";
  }
  return html + "</tbody></table></div>";
}

std::string distribution(const std::vector<Scored>& all, const std::string& title, Histogram Result::*which) {
  Chart chart;
  chart.title = title;
  chart.x_unit = "at most this long (logarithmic)";
  chart.y_unit = "%";
  chart.x_logarithmic = true;
  chart.y_most = 1;
  for (std::size_t i = 0; i < all.size(); ++i) {
    Line line;
    line.name = all[i].contender.name;
    line.colour = colour_of(i);
    for (const Histogram::Point& point : (all[i].first.*which).curve(kCurve)) {
      if (point.seconds > 0) line.points.emplace_back(point.seconds, point.share);
    }
    chart.lines.push_back(std::move(line));
  }
  return "<figure><figcaption>" + html_text(title) + "</figcaption>" + svg_of(chart) + "</figure>";
}

std::string load_chart(const std::vector<Scored>& all) {
  Chart chart;
  chart.title = "Arrivals";
  chart.x_unit = "time";
  chart.y_unit = "requests/s";
  Line line;
  line.name = "arrivals";
  line.colour = "var(--quiet)";
  line.area = true;
  for (const LoadPoint& point : all.front().first.load)
    line.points.emplace_back(in_seconds(point.at), point.arrivals_per_s);
  chart.lines.push_back(std::move(line));
  return "<figure><figcaption>Arrivals, requests a second</figcaption>" + svg_of(chart) + "</figure>";
}

std::string waiting_chart(const std::vector<Scored>& all) {
  Chart chart;
  chart.title = "Requests in the system";
  chart.x_unit = "time";
  chart.y_unit = "requests";
  for (std::size_t i = 0; i < all.size(); ++i) {
    Line line;
    line.name = all[i].contender.name;
    line.colour = colour_of(i);
    for (const LoadPoint& point : all[i].first.load)
      line.points.emplace_back(in_seconds(point.at), point.waiting + point.running);
    chart.lines.push_back(std::move(line));
  }
  return "<figure><figcaption>Requests in the system, waiting and running</figcaption>" + svg_of(chart) + "</figure>";
}

std::string gears_chart(const Scored& scored) {
  Strips strips;
  strips.title = "Gears of " + scored.contender.name;
  strips.until = scored.first.span_s;
  strips.rows.assign(
      scored.first.groups.begin(),
      scored.first.groups.begin() + static_cast<std::ptrdiff_t>(std::min(kMostRows, scored.first.groups.size())));
  for (const GearSpan& span : scored.first.gears) {
    if (span.group >= strips.rows.size()) continue;
    const std::string name =
        span.gear == 0 ? "down" : "gear " + std::to_string(span.gear) + ", " + gears::gear_name(span.gear);
    strips.strips.push_back({span.group, in_seconds(span.from), in_seconds(span.until), gear_colour(span.gear),
                             strips.rows[span.group] + ": " + name + ", " + time_text(in_seconds(span.from)) + " to " +
                                 time_text(in_seconds(span.until))});
  }
  std::string more;
  if (scored.first.groups.size() > kMostRows)
    more =
        " (the first " + std::to_string(kMostRows) + " of " + std::to_string(scored.first.groups.size()) + " groups)";
  return "<figure><figcaption>" + html_text(scored.contender.name) + html_text(more) + "</figcaption>" +
         svg_of(strips) + "</figure>";
}

std::string gears_section(const std::vector<Scored>& all) {
  std::string html;
  for (const Scored& scored : all) {
    if (!scored.first.shifts.empty()) html += gears_chart(scored);
  }
  if (html.empty()) return "";
  std::string keys = "<p class=\"legend\">";
  for (std::uint8_t gear = 1; gear <= gears::kGears; ++gear)
    keys += key_of(gear_colour(gear), std::to_string(gear) + " " + gears::gear_name(gear));
  keys += key_of(gear_colour(0), "down") + "</p>";
  return "<section><h2>Gears over time</h2>" + keys + html + "</section>";
}

std::string shifts_section(const std::vector<Scored>& all) {
  std::string html;
  for (const Scored& scored : all) {
    if (scored.first.shifts.empty() && scored.first.held_back.empty()) continue;
    html += "<details><summary>" + html_text(scored.contender.name) + ": " +
            std::to_string(scored.first.shifts.size()) +
            " shifts</summary><table><thead><tr><th>at</th><th>group</th>"
            "<th>gears</th><th>rule</th><th>paused</th><th>cost, request-s</th></tr></thead><tbody>";
    std::size_t told = 0;
    for (const ShiftDone& shift : scored.first.shifts) {
      if (++told > kMostShifts) break;
      html += "<tr><td>" + time_text(in_seconds(shift.at)) + "</td><td>" + html_text(scored.first.groups[shift.group]) +
              "</td><td>" + std::to_string(shift.from) + " → " + std::to_string(shift.to) + "</td><td>" +
              html_text(shift.rule) + (shift.urgent ? " (urgent)" : "") + "</td><td>" + time_text(shift.pause_s) +
              "</td><td>" + number("%.1f", shift.paused_requests_s) + "</td></tr>";
    }
    html += "</tbody></table>";
    if (!scored.first.held_back.empty()) {
      html += "<p>Held back by the governor: ";
      bool first = true;
      for (const auto& [rule, times] : scored.first.held_back) {
        html += (first ? "" : ", ") + html_text(rule) + " " + std::to_string(times) + "×";
        first = false;
      }
      html += ".</p>";
    }
    html += "</details>";
  }
  return html.empty() ? "" : "<section><h2>Shifts of the first seed</h2>" + html + "</section>";
}

}  // namespace

std::string html_of(const Report& report) {
  const std::vector<Scored>& all = report.contenders;
  std::string html =
      "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width,initial-scale=1\"><title>Replay: ";
  html += html_text(report.experiment.cluster.name) + "</title><style>" + kReportStyle + "</style></head><body><main>";
  html += "<header><h1>Replay</h1><p>" + html_text(headline_of(report)) + ".</p></header>";
  html += "<section><h2>Figures</h2>" + figures_table(all);
  if (report.bound) {
    html += "<p>Clairvoyant: mean " + time_text(report.bound->mean_s) + ", p99 " + time_text(report.bound->p99_s) +
            ". For each window of 20 s the best of " + std::to_string(report.bound->layouts) +
            " fixed layouts, as if changes were free.</p>";
  }
  html +=
      "<p class=\"note\">All of it is simulated, by a price model that meets published measurements of a 7B model on "
      "A100 "
      "within 15 %; other cards may be off by more, consumer cards up to twofold. Differences smaller than that "
      "between kinds of hardware tell nothing; between policies on the same hardware the error is common to both. "
      "Intervals are of 95 % over seeds.</p></section>";
  if (!all.empty()) {
    html += "<section><h2>How long requests took</h2>" + legend(all) +
            distribution(all, "From arrival to the last token", &Result::latency) +
            distribution(all, "From arrival to the first token", &Result::first_token) + "</section>";
    html += "<section><h2>Load over time</h2>" + load_chart(all) + legend(all) + waiting_chart(all) + "</section>";
    html += gears_section(all) + shifts_section(all);
  }
  return html + "</main></body></html>\n";
}

}  // namespace gearbox::replay
