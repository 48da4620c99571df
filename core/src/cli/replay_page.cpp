#include "cli/replay_page.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "cli/table.hpp"

namespace gearbox::cli {

namespace {

std::string text(const char* format, double value) {
  char line[64];
  std::snprintf(line, sizeof line, format, value);
  return line;
}

const replay::Figure* find(const replay::Scored& scored, const std::string& name) {
  const auto found =
      std::find_if(scored.figures.begin(), scored.figures.end(), [&](const auto& each) { return each.first == name; });
  return found == scored.figures.end() ? nullptr : &found->second;
}

/// With half the width of its interval, where there are several seeds.
std::string time_cell(const replay::Scored& scored, const std::string& name) {
  const replay::Figure* figure = find(scored, name);
  if (figure == nullptr) return "";
  std::string cell = seconds_text(figure->mean);
  if (figure->high > figure->low) cell += " ±" + seconds_text((figure->high - figure->low) / 2);
  return cell;
}

std::string number_cell(const replay::Scored& scored, const std::string& name, const char* format, double factor = 1) {
  const replay::Figure* figure = find(scored, name);
  return figure == nullptr ? "" : text(format, factor * figure->mean);
}

/// "1 62 %, 3 38 %"
std::string gears_cell(const replay::Scored& scored) {
  std::string cell;
  for (int gear = 1; gear <= 6; ++gear) {
    const double share = scored.figure("gear_" + std::to_string(gear) + "_share");
    if (share >= 0.005) cell += (cell.empty() ? "" : ", ") + std::to_string(gear) + ": " + text("%.0f %%", 100 * share);
  }
  return cell;
}

}  // namespace

std::string seconds_text(double seconds) {
  if (seconds >= 100) return text("%.0f s", seconds);
  if (seconds >= 1) return text("%.2f s", seconds);
  return text("%.1f ms", 1e3 * seconds);
}

std::string replay_page(const std::vector<replay::Scored>& all, bool bold) {
  Table times({"contender", ">mean", ">p50", ">p95", ">p99", ">first token p50", ">p99 ", ">per token p50", ">p99  "});
  Table rates({"contender", ">requests/s", ">tokens/s", ">within SLO", ">goodput/s", ">saturated at", ">busy",
               ">refused", ">begun anew", ">unfinished"});
  Table gears({"contender", ">shifts", ">paused", ">cost, request-s", "time in gears"});
  for (const replay::Scored& scored : all) {
    const std::string& name = scored.contender.name;
    times.add({name, time_cell(scored, "mean_s"), time_cell(scored, "p50_s"), time_cell(scored, "p95_s"),
               time_cell(scored, "p99_s"), time_cell(scored, "first_token_p50_s"),
               time_cell(scored, "first_token_p99_s"), time_cell(scored, "per_token_p50_s"),
               time_cell(scored, "per_token_p99_s")});
    const auto if_any = [&](const char* figure) {
      return scored.figure(figure) > 0 ? number_cell(scored, figure, "%.0f") : std::string();
    };
    rates.add({name, number_cell(scored, "requests_per_s", "%.2f"), number_cell(scored, "output_tokens_per_s", "%.0f"),
               number_cell(scored, "good_share", "%.1f %%", 100), number_cell(scored, "goodput_per_s", "%.2f"),
               number_cell(scored, "saturation_requests_per_s", "%.1f"),
               number_cell(scored, "busy_share", "%.1f %%", 100), if_any("refused"), if_any("retried"),
               if_any("unfinished")});
    gears.add({name, number_cell(scored, "shifts", "%.1f"), time_cell(scored, "shift_pause_s"),
               number_cell(scored, "shift_cost_request_s", "%.1f"), gears_cell(scored)});
  }
  return times.text(bold) + "\n" + rates.text(bold) + "\n" + gears.text(bold);
}

}  // namespace gearbox::cli
