#include "cli/explain_page.hpp"

#include <boost/json/array.hpp>

#include <array>
#include <cstdint>
#include <cstdio>
#include <sstream>

#include "cli/json_facts.hpp"
#include "cli/plugin_rows.hpp"
#include "cli/table.hpp"
#include "gearbox/base/text.hpp"

namespace gearbox::cli {

namespace json = boost::json;

namespace {

std::string ms_text(std::uint64_t microseconds) {
  std::array<char, 32> out{};
  std::snprintf(out.data(), out.size(), microseconds < 1000 ? "%.2f ms" : "%.1f ms",
                static_cast<double>(microseconds) / 1000);
  return out.data();
}

std::string count_text(std::uint64_t count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

std::string indented(const std::string& text, std::size_t blanks) {
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) out += std::string(blanks, ' ') + line + "\n";
  return out;
}

std::string worker_text(const json::object& worker) {
  return "worker-" + std::to_string(number_in(worker, "slot")) + " (pid " + std::to_string(number_in(worker, "pid")) +
         ")";
}

std::string build_of(const json::object& balancer) {
  if (balancer.empty()) return "the balancer";
  std::string text = text_in(balancer, "name") + " " + text_in(balancer, "version");
  const std::string checksum = text_in(balancer, "checksum");
  return checksum.empty() ? text : text + " (" + short_checksum(checksum) + ")";
}

/// One line for each worker that was looked at.
std::string workers_text(const json::object& pick, bool bold) {
  Table table({"worker", ">pid", ">queued", ">running", ">holds at most", ">p95", "what was said of it"});
  const json::object& chosen = object_in(pick, "chosen");
  for (const char* const kind : {"candidates", "excluded"}) {
    for (const json::value& each : list_in(pick, kind)) {
      if (!each.is_object()) continue;
      const json::object& worker = each.get_object();
      const bool is_chosen = !chosen.empty() && number_in(chosen, "worker") == number_in(worker, "worker");
      const bool figures = worker.contains("capacity");
      const std::uint64_t p95 = number_in(worker, "p95_us");
      const std::string why = text_in(worker, "why");
      const std::uint64_t pid = number_in(worker, "pid");  // 0: it has no process just then
      table.add({"worker-" + std::to_string(number_in(worker, "slot")), pid > 0 ? std::to_string(pid) : "",
                 figures ? std::to_string(number_in(worker, "queued")) : "",
                 figures ? std::to_string(number_in(worker, "running")) : "",
                 figures ? std::to_string(number_in(worker, "capacity")) : "", p95 > 0 ? ms_text(p95) : "",
                 !why.empty() ? "excluded: " + why
                 : is_chosen  ? "chosen"
                              : "candidate"});
    }
  }
  std::string text = table.text(bold);
  if (const std::uint64_t more = number_in(pick, "left_out"); more > 0) {
    text += "and " + count_text(more, "further worker") + "\n";
  }
  return text;
}

std::string pick_text(const json::object& pick, bool bold) {
  std::string text = "    at " + ms_text(number_in(pick, "at_us")) + ": ";
  const json::object& balancer = object_in(pick, "balancer");
  const json::object& chosen = object_in(pick, "chosen");
  if (chosen.empty()) {
    text += "it had to wait: " + text_in(pick, "why");
  } else {
    text += "given to " + worker_text(chosen);
    text += truth_in(pick, "stood_in")
                ? ", the least busy one, for " + build_of(balancer) + " chose none that was there"
                : ", chosen by " + build_of(balancer);
  }
  text += "\n" + indented(workers_text(pick, bold), 6);
  if (const json::object& failed = object_in(pick, "failed"); !failed.empty()) {
    text += "    " + text_in(failed, "code") + " after " + ms_text(number_in(failed, "after_us")) + ": " +
            text_in(failed, "reason");
    if (text_in(failed, "code") == "worker_lost") {
      text += truth_in(failed, "begun") ? " (it was running the call)" : " (the call only waited there)";
    }
    text += "\n";
  }
  return text;
}

/// `over`: the request has ended.
std::string call_text(const json::object& call, bool over, bool bold) {
  std::string text = "  call";
  if (call.contains("item")) text += " of item " + std::to_string(number_in(call, "item"));
  text += " (" + text_in(call, "kept") + "), " + text_in(call, "state");
  if (call.contains("error")) text += " with " + text_in(call, "error");
  const bool again = number_in(call, "attempts") > 1;
  text +=
      ": waited " + ms_text(number_in(call, "queue_us")) + (again ? " until it got its last worker" : " at the node");
  if (call.contains("there_us")) {
    const std::string there = " been there for " + ms_text(number_in(call, "there_us"));
    text += over ? ", had" + there + " when the request ended" : ", has" + there;
  } else {
    text += " and " + ms_text(number_in(call, "worker_queue_us")) + " at the worker, ran " +
            ms_text(number_in(call, "run_us")) + ", in a batch of " + std::to_string(number_in(call, "batch"));
  }
  text += ", version " + text_in(call, "version") + "\n";
  if (const std::uint64_t parts = number_in(call, "parts"); parts > 0) {
    text +=
        "    " + count_text(parts, "part") + ", the first after " + ms_text(number_in(call, "first_part_us")) + "\n";
  }
  for (const json::value& pick : list_in(call, "picks")) {
    if (pick.is_object()) text += pick_text(pick.get_object(), bold);
  }
  if (const std::uint64_t more = number_in(call, "picks_left_out"); more > 0) {
    text += "    (" + count_text(more, "earlier look") + " for a worker not kept)\n";
  }
  return text;
}

std::string step_text(const json::object& step, bool over, bool bold) {
  std::string text =
      "\nstep " + text_in(step, "step") + ": " + text_in(step, "state") + ", model " + text_in(step, "model");
  if (!step.contains("version")) return text + "\n";
  text += " " + text_in(step, "version") + " (" + text_in(step, "asked") + " was asked for; " +
          text_in(step, "version_note");
  if (step.contains("newest")) text += "; the newest is " + text_in(step, "newest");
  const json::object& calls = object_in(step, "calls");
  text += ")\n  began at " + ms_text(number_in(step, "at_us")) + ", took " + ms_text(number_in(step, "took_us")) +
          "; " + count_text(number_in(calls, "made"), "call");
  const bool unanswered = step.contains("longest_open_us");
  if (!unanswered || number_in(calls, "answered") > 0) {  // else there is nothing that these could be of
    text += ", longest wait " + ms_text(number_in(step, "longest_queue_us")) + ", longest run " +
            ms_text(number_in(step, "longest_run_us"));
  }
  if (unanswered) text += ", longest at its worker without an answer " + ms_text(number_in(step, "longest_open_us"));
  for (const char* const what : {"failed", "retried", "open"}) {
    if (const std::uint64_t count = number_in(calls, what); count > 0) {
      text += ", " + std::to_string(count) + " " + what;
    }
  }
  text += "\n";
  for (const json::value& call : list_in(step, "kept")) {
    if (call.is_object()) text += call_text(call.get_object(), over, bold);
  }
  if (const std::uint64_t more = number_in(calls, "not_shown"); more > 0) {
    text += "  and " + count_text(more, "further call") + "\n";
  }
  return text;
}

std::string times_text(const json::object& times) {
  std::string text;
  const auto add = [&](const char* key, const char* before, const char* behind) {
    const json::value* value = times.if_contains(key);
    if (value == nullptr || !value->is_number()) return;
    text += (text.empty() ? "" : ", ") + std::string(before) + ms_text(number_in(times, key)) + behind;
  };
  add("wait_us", "waited ", " for memory or a place");
  add("upload_us", "upload ", "");
  add("steps_us", "steps ", "");
  add("reply_us", "reply ", "");
  add("acknowledged_us", "acknowledged after ", "");
  return text;
}

}  // namespace

std::string placement_text(const json::object& central, bool bold) {
  if (central.contains("unknown")) return "\nsent here by central: " + text_in(central, "unknown") + "\n";
  const std::string chosen = text_in(central, "chosen");
  std::string text = "\nsent to " + chosen + " by central, " + time_text(number_in(central, "at_unix_ms")) +
                     ", for task " + text_in(central, "task");
  text += truth_in(central, "stood_in") ? ": the least loaded node, for " + build_of(object_in(central, "balancer")) +
                                              " chose none that was there"
                                        : ": chosen by " + build_of(object_in(central, "balancer"));
  text += ", configuration " + text_in(central, "config").substr(0, 12) + "\n";
  if (truth_in(central, "ignoring_offered")) {
    text +=
        "  each node was at the balancer's limit with the devices sent there a moment before; by its own report one "
        "had room\n";
  }
  Table table(
      {"node", ">queued", ">running", ">just sent there", ">workers", ">p95", ">report's age", "what was said of it"});
  for (const char* const kind : {"candidates", "excluded"}) {
    for (const json::value& each : list_in(central, kind)) {
      if (!each.is_object()) continue;
      const json::object& node = each.get_object();
      const std::string name = text_in(node, "node");
      const std::string why = text_in(node, "why");
      const std::uint64_t p95 = number_in(node, "p95_us");
      table.add({name, std::to_string(number_in(node, "queued")), std::to_string(number_in(node, "running")),
                 std::to_string(number_in(node, "offered")), std::to_string(number_in(node, "capacity")),
                 p95 > 0 ? ms_text(p95) : "", std::to_string(number_in(node, "report_age_ms")) + " ms",
                 !why.empty()     ? "excluded: " + why
                 : name == chosen ? "chosen"
                                  : "candidate"});
    }
  }
  text += indented(table.text(bold), 2);
  if (const std::uint64_t more = number_in(central, "left_out"); more > 0) {
    text += "  and " + count_text(more, "further node") + "\n";
  }
  return text;
}

std::string explain_page(const json::object& facts, bool bold) {
  Table head({"request", text_in(facts, "request")});
  const json::object& error = object_in(facts, "error");
  std::string state = text_in(facts, "state");
  if (!error.empty()) state += ": " + text_in(error, "code") + ": " + text_in(error, "detail");
  head.add({"state", state});
  head.add({"announced", time_text(number_in(facts, "announced_unix_ms"))});
  head.add({"task", text_in(facts, "task")});
  head.add({"from", text_in(facts, "user") + ", " + device_text(text_in(facts, "device"))});
  if (const std::string pool = text_in(facts, "pool"); !pool.empty()) head.add({"pool", pool});
  head.add({"node", text_in(facts, "node") + ", configuration " + text_in(facts, "config").substr(0, 12)});
  const json::object& times = object_in(facts, "times");
  head.add({"total", ms_text(number_in(times, "total_us"))});
  head.add({"of that", times_text(times)});
  const json::object& bytes = object_in(facts, "bytes");
  head.add({"bytes", bytes_text(number_in(bytes, "uploaded")) + " uploaded, " + bytes_text(number_in(bytes, "plain")) +
                         " decoded, " + bytes_text(number_in(bytes, "result")) + " of result"});
  std::string page = head.text(bold);
  if (const json::object& central = object_in(facts, "central"); !central.empty()) {
    page += placement_text(central, bold);
  }
  const bool over = !error.empty() || text_in(facts, "state") == "done";
  for (const json::value& step : list_in(facts, "steps")) {
    if (step.is_object()) page += step_text(step.get_object(), over, bold);
  }
  return page;
}

}  // namespace gearbox::cli
