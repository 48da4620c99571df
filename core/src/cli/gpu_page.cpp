#include "cli/gpu_page.hpp"

#include <algorithm>
#include <map>

#include "cli/json_facts.hpp"
#include "cli/table.hpp"
#include "gearbox/base/text.hpp"

namespace gearbox::cli {

namespace json = boost::json;

namespace {

std::string worker_name(const json::object& worker) {
  return "worker-" + std::to_string(number_in(worker, "slot"));
}

std::string mb_text(const json::object& worker) {
  const std::uint64_t mb = number_in(worker, "gpu_memory_mb");
  return mb == 0 ? "whole" : std::to_string(mb) + " MB";
}

bool wants_gpu(const json::object& worker) {
  return text_in(worker, "devices").starts_with("cuda");
}

/// "0, 2": where it sits. `checked`: somebody knows that there are such GPUs.
std::string seats_of(const json::object& worker, bool checked) {
  std::string all;
  for (const json::value& each : list_in(worker, "gpus")) {
    boost::system::error_code none;
    const std::string one =
        each.is_string() ? escaped(each.get_string()) : std::to_string(each.to_number<std::uint64_t>(none));
    all += (all.empty() ? "" : ", ") + one;
  }
  if (!all.empty() && !checked) all += " (not checked)";
  return all;
}

std::string gpu_table(const json::object& node, const json::object& gpus, bool bold) {
  std::map<std::uint64_t, const json::object*> workers;
  for (const json::value& each : list_in(node, "workers")) {
    if (each.is_object()) workers[number_in(each.get_object(), "id")] = &each.get_object();
  }
  Table table({">GPU", "name", ">memory", ">used", ">left", ">busy", "workers", "reason"});
  for (const json::value& each : list_in(gpus, "list")) {
    if (!each.is_object()) continue;
    const json::object& gpu = each.get_object();
    std::string there;
    for (const json::value& id : list_in(gpu, "workers")) {
      boost::system::error_code none;
      const auto worker = workers.find(id.to_number<std::uint64_t>(none));
      if (worker == workers.end()) continue;
      there += (there.empty() ? "" : ", ") + worker_name(*worker->second) + " (" + mb_text(*worker->second) + ")";
    }
    const auto mb = [&](const char* key) { return std::to_string(number_in(gpu, key) >> 20) + " MB"; };
    const bool told = number_in(gpu, "memory_total_bytes") > 0;
    const json::value* busy = gpu.if_contains("busy_percent");
    table.add({std::to_string(number_in(gpu, "index")), text_in(gpu, "name"), told ? mb("memory_total_bytes") : "",
               told ? mb("memory_used_bytes") : "", std::to_string(number_in(gpu, "left_mb")) + " MB",
               busy != nullptr && !busy->is_null() ? std::to_string(number_in(gpu, "busy_percent")) + " %" : "", there,
               text_in(gpu, "error")});
  }
  return table.empty() ? std::string() : table.text(bold);
}

std::string worker_table(const json::object& node, bool checked, bool bold) {
  std::multimap<std::uint64_t, const json::object*> by_slot;
  for (const json::value& each : list_in(node, "workers")) {
    if (!each.is_object() || !wants_gpu(each.get_object())) continue;
    by_slot.emplace(number_in(each.get_object(), "slot"), &each.get_object());
  }
  Table table({"worker", "model", "version", "devices", ">GPU", ">needs", "state", "reason"});
  for (const auto& [slot, found] : by_slot) {
    const json::object& worker = *found;
    table.add({worker_name(worker), text_in(worker, "model"), text_in(worker, "version"), text_in(worker, "devices"),
               seats_of(worker, checked), mb_text(worker), text_in(worker, "state"), text_in(worker, "reason")});
  }
  return table.empty() ? std::string() : table.text(bold);
}

}  // namespace

std::string gpu_page(const json::object& node, bool bold) {
  const json::object& gpus = object_in(node, "gpus");
  if (gpus.empty()) return {};
  const std::string nvml = text_in(gpus, "nvml");
  std::string page;
  const json::array& workers = list_in(node, "workers");
  const bool wanted = std::any_of(workers.begin(), workers.end(), [](const json::value& each) {
    return each.is_object() && wants_gpu(each.get_object());
  });
  // Most hosts have no GPU, and nobody misses the figures.
  if (nvml == "none" && wanted) page = "GPUs: no figures, there is no NVML (" + text_in(gpus, "reason") + ")\n";
  if (nvml == "lost") page = "GPUs: NVML answers no more (" + text_in(gpus, "reason") + ")\n";
  if (nvml == "answers" && list_in(gpus, "list").empty()) page = "GPUs: NVML tells of none\n";
  page += gpu_table(node, gpus, bold);
  const bool checked = nvml == "answers" || nvml == "lost";
  const std::string table = worker_table(node, checked, bold);
  if (!table.empty()) page += (page.empty() ? "" : "\n") + table;
  return page;
}

}  // namespace gearbox::cli
