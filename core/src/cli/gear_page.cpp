#include "cli/gear_page.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <utility>
#include <vector>

#include "cli/json_facts.hpp"
#include "cli/table.hpp"

namespace gearbox::cli {

namespace json = boost::json;

namespace {

template <class... Values>
std::string text(const char* format, Values... values) {
  std::array<char, 160> line{};
  std::snprintf(line.data(), line.size(), format, values...);
  return line.data();
}

std::string share_text(double share) {
  return share < 0 ? std::string() : text("%.0f %%", 100 * share);
}

std::string ms_text(double ms) {
  if (ms < 0) return {};
  return text(ms < 10 ? "%.1f ms" : "%.0f ms", ms);
}

/// Local time of the day with the date: what stands in logs beside it.
std::string clock_text(std::int64_t unix_ms) {
  const std::time_t seconds = unix_ms / 1000;
  std::tm local{};
  ::localtime_r(&seconds, &local);
  std::array<char, 32> line{};
  std::strftime(line.data(), line.size(), "%Y-%m-%d %H:%M:%S", &local);
  return line.data();
}

std::string gears_text(const json::object& from) {
  return "gear " + std::to_string(number_in(from, "from")) + " → " + std::to_string(number_in(from, "to"));
}

std::string state_of(const json::object& group, const json::object& record) {
  std::string state;
  const auto add = [&](const std::string& word) { state += (state.empty() ? "" : ", ") + word; };
  if (truth_in(group, "stale")) add("stale: " + text_in(group, "problem"));
  const std::string shift = text_in(group, "shift");
  if (!shift.empty()) {
    add("shifting (" + shift + ")");
  } else if (truth_in(record, "shifting")) {
    add("shifting");
  }
  const std::string phase = text_in(group, "phase");
  if (!phase.empty() && !truth_in(group, "stale") && shift.empty()) add(phase);
  if (truth_in(record, "held")) add("held");
  std::string allowed;
  for (const json::value& gear : list_in(record, "allowed")) {
    if (gear.is_number()) allowed += (allowed.empty() ? "" : ",") + std::to_string(gear.to_number<std::int64_t>());
  }
  if (!allowed.empty()) add("only gears " + allowed);
  return state;
}

std::string leader_text(const json::object& facts) {
  const json::value* found = facts.if_contains("scheduler");
  if (found == nullptr || !found->is_object()) return {};
  const json::object& scheduler = found->get_object();
  std::string line;
  const std::string term = std::to_string(number_in(scheduler, "term"));
  if (truth_in(scheduler, "leads")) {
    line = "'" + text_in(scheduler, "leader") + "' leads (term " + term + "), policy " + text_in(scheduler, "policy") +
           ", mode " + text_in(scheduler, "mode");
  } else if (const std::string leader = text_in(scheduler, "leader"); !leader.empty()) {
    line = "'" + leader + "' leads (term " + term + "), the scheduler here does not";
  } else {
    line = "nobody is known to lead";
  }
  if (truth_in(scheduler, "dry_run")) line += "; dry run: it decides and shifts nothing";
  for (const json::value& each : list_in(scheduler, "hosts")) {
    if (!each.is_object() || truth_in(each.get_object(), "own")) continue;
    const json::object& host = each.get_object();
    line += "\nhost " + text_in(host, "name") + ": ";
    if (const std::string away = text_in(host, "away"); !away.empty()) {
      line += "nothing is decided on its groups: " + away;
      continue;
    }
    line += std::to_string(number_in(host, "groups")) + " groups are decided on as well";
    if (const double trust = real_in(host, "trust", 1); trust < 1) line += text(", trust in it %.2f", trust);
  }
  const std::string problem = text_in(scheduler, "problem");
  if (!problem.empty()) line += "\nnothing is decided: " + problem;
  for (const json::value& each : list_in(scheduler, "left_out")) {
    if (each.is_object())
      line += "\nnot decided on: " + text_in(each.get_object(), "group") + ": " + text_in(each.get_object(), "why");
  }
  return line + "\n";
}

/// How the links to other hosts are, and how far this host is trusted for it.
std::string links_text(const json::object& facts) {
  std::string lines;
  for (const json::value& each : list_in(object_in(facts, "snapshot"), "links")) {
    if (!each.is_object()) continue;
    const json::object& link = each.get_object();
    lines += "link to " + text_in(link, "peer") + ": ";
    const double bandwidth = real_in(link, "bytes_per_s", 0), usual = real_in(link, "usual_bytes_per_s", 0);
    if (truth_in(link, "failed")) {
      lines += "no answer";
    } else {
      lines += text("%.0f us", real_in(link, "latency_us", 0));
      if (usual > 0) lines += text(", %.3g MB/s, usually %.3g", bandwidth / 1e6, usual / 1e6);
    }
    lines += text(", %.0f s ago\n", real_in(link, "age_ms", 0) / 1000);
  }
  const double trust = real_in(object_in(facts, "scheduler"), "trust", 1);
  if (!lines.empty() && trust < 1) lines += text("trust in this host: %.2f\n", trust);
  return lines;
}

std::string bound_text(const json::object& decision) {
  const json::object& assessment = object_in(decision, "assessment");
  const std::string figures = text_in(assessment, "figures");
  if (figures.empty()) return "not known: the model's shape is not told";
  return "compute " + share_text(real_in(assessment, "compute", 0)) + ", memory " +
         share_text(real_in(assessment, "memory", 0)) + ", communication " +
         share_text(real_in(assessment, "communication", 0)) + ", the rest " +
         share_text(real_in(assessment, "rest", 0)) + "\n            " + figures;
}

std::string verdict_of(const json::object& decision) {
  if (const std::uint64_t shift = number_in(decision, "shift_number"); shift != 0)
    return "pass: ordered as shift " + std::to_string(shift) + " in term " +
           std::to_string(number_in(decision, "term"));
  if (truth_in(decision, "dry_run")) return "pass, but this is a dry run: nothing was shifted";
  return "held back by " + text_in(decision, "governor") + ": " + text_in(decision, "why");
}

std::string priced_text(const json::object& decision, bool bold) {
  Table table({">gear", ">latency", ">carries", ""});
  for (const json::value& each : list_in(decision, "priced")) {
    if (!each.is_object()) continue;
    const json::object& gear = each.get_object();
    const std::uint64_t number = number_in(gear, "gear");
    const double latency = real_in(gear, "latency_s", -1);
    std::string note;
    if (number == number_in(decision, "to")) note = "chosen";
    if (number == number_in(decision, "from")) note = "now";
    if (number == number_in(decision, "runner_up")) note += note.empty() ? "runner-up" : ", runner-up";
    table.add({std::to_string(number), latency < 0 ? "does not keep up" : text("%.3g s", latency),
               text("%.3g requests/s", real_in(gear, "capacity_per_s", 0)), note});
  }
  if (table.empty()) return {};
  std::string indented;
  std::string rest = table.text(bold);
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size() - 1);
    indented += "    " + rest.substr(0, end + 1);
    rest.erase(0, end + 1);
  }
  return indented;
}

std::string seen_text(const json::object& decision) {
  const json::object& inputs = object_in(decision, "inputs");
  if (inputs.empty()) return {};
  const json::object& fast = object_in(inputs, "fast");
  std::string line = "    seen: snapshot " + std::to_string(number_in(inputs, "sequence")) + " (" +
                     std::to_string(number_in(inputs, "age_ms")) + " ms old), pool " + text_in(inputs, "pool") + ", " +
                     std::to_string(number_in(inputs, "running")) + " running, " +
                     std::to_string(number_in(inputs, "waiting")) + " waiting";
  const double busy = real_in(inputs, "busy_mean", -1);
  if (busy >= 0) line += ", busy " + share_text(busy) + " (peak " + share_text(real_in(inputs, "busy_peak", -1)) + ")";
  const double pressure = real_in(inputs, "memory_pressure", -1);
  if (pressure >= 0) line += ", cache " + share_text(pressure) + " full";
  const double rate = real_in(fast, "requests_per_s", 0);
  if (rate > 0) {
    line += text(", %.3g requests/s of %.0f + %.0f tokens", rate, real_in(fast, "prompt_tokens", 0),
                 real_in(fast, "output_tokens", 0));
  }
  return line + "\n";
}

}  // namespace

double real_in(const json::object& object, std::string_view key, double fallback) {
  const json::value* value = object.if_contains(json::string_view(key.data(), key.size()));
  if (value == nullptr || !value->is_number()) return fallback;
  boost::system::error_code bad;
  const double number = value->to_number<double>(bad);
  return bad ? fallback : number;
}

std::string groups_page(const json::object& facts, bool bold) {
  const bool several =
      std::any_of(list_in(facts, "groups").begin(), list_in(facts, "groups").end(),
                  [](const auto& each) { return each.is_object() && each.get_object().contains("host"); });
  std::vector<std::string> columns{"group",  ">gear",   "plan",  ">epoch",      ">running", ">waiting",
                                   ">cache", ">memory", ">busy", ">last shift", "state"};
  if (several) columns.insert(columns.begin(), "host");
  Table table(columns);
  for (const json::value& each : list_in(facts, "groups")) {
    if (!each.is_object()) continue;
    const json::object& group = each.get_object();
    const json::object& record = object_in(group, "record");
    const double since = real_in(record, "since_shift_ms", -1);
    const bool seen = group.contains("gear");
    const double bytes = real_in(group, "memory_bytes", -1);
    const std::uint64_t gear = number_in(group, "gear");
    std::vector<std::string> row(
        {text_in(group, "name"), gear == 0 ? "" : std::to_string(gear), text_in(group, "plan"),
         seen ? std::to_string(number_in(group, "epoch")) : "", seen ? std::to_string(number_in(group, "running")) : "",
         seen ? std::to_string(number_in(group, "waiting")) : "", share_text(real_in(group, "memory_pressure", -1)),
         bytes < 0 ? "" : bytes_text(static_cast<std::uint64_t>(bytes)), share_text(real_in(group, "busy_mean", -1)),
         since < 0 ? "" : duration_text(static_cast<std::uint64_t>(since / 1000)) + " ago", state_of(group, record)});
    if (several) row.insert(row.begin(), text_in(group, "host"));
    table.add(std::move(row));
  }
  std::string page = table.empty() ? "no group runs here\n" : table.text(bold);
  if (const std::string leader = leader_text(facts); !leader.empty()) page += "\n" + leader;
  page += links_text(facts);
  for (const json::value& each : list_in(facts, "missing")) {
    if (each.is_object()) page += "\n" + text_in(each.get_object(), "why");
  }
  if (page.back() != '\n') page += '\n';
  return page;
}

std::string shifts_page(const json::array& shifts, bool bold) {
  Table table({">shift", "when", "group", "gears", "by", ">term", ">took", ">pause", "outcome"});
  for (const json::value& each : shifts) {
    if (!each.is_object()) continue;
    const json::object& shift = each.get_object();
    const json::object& report = object_in(shift, "report");
    const auto began = static_cast<std::int64_t>(number_in(shift, "began_unix_ms"));
    std::string outcome = truth_in(shift, "ok") ? "done" : "not done: " + text_in(shift, "why");
    if (truth_in(shift, "recovered")) outcome += " (told by the engine after the executor had lost sight of it)";
    const double whole = real_in(report, "shift_ms", -1);
    const double took = whole < 0 ? real_in(shift, "ended_unix_ms", 0) - static_cast<double>(began) : whole;
    table.add({std::to_string(number_in(shift, "number")), clock_text(began), text_in(shift, "group"),
               gears_text(shift), text_in(shift, "origin"), std::to_string(number_in(shift, "term")), ms_text(took),
               ms_text(real_in(report, "pause_ms", -1)), outcome});
  }
  return table.empty() ? "no group has shifted yet\n" : table.text(bold);
}

std::string decisions_page(const json::array& decisions, bool bold) {
  std::string page;
  for (const json::value& each : decisions) {
    if (!each.is_object()) continue;
    const json::object& decision = each.get_object();
    if (!page.empty()) page += "\n";
    const std::uint64_t times = number_in(decision, "times");
    page += clock_text(static_cast<std::int64_t>(number_in(decision, "first_unix_ms"))) + "  " +
            text_in(decision, "group") + ": " + gears_text(decision) + (truth_in(decision, "urgent") ? ", urgent" : "");
    if (times > 1) {
      page += ", " + std::to_string(times) + " times until " +
              clock_text(static_cast<std::int64_t>(number_in(decision, "last_unix_ms"))).substr(11);
    }
    page += "\n    policy: rule " + text_in(decision, "rule") + ": " + text_in(decision, "reason") + "\n";
    page += "    governor: " + verdict_of(decision) + "\n";
    page += "    bound by: " + bound_text(decision) + "\n";
    page += priced_text(decision, bold) + seen_text(decision);
  }
  return page.empty() ? "nothing has been decided yet: no policy has wished for a shift\n" : page;
}

}  // namespace gearbox::cli
