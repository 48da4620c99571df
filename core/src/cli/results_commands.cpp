// results list and results get: what the node has kept of finished requests.
#include "cli/commands.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <array>
#include <cstdio>
#include <ctime>
#include <memory>

#include "cli/json_facts.hpp"
#include "cli/table.hpp"
#include "gearbox/base/text.hpp"
#include "store/store.hpp"

namespace gearbox::cli {

namespace json = boost::json;

namespace {

json::value parsed(const std::string& text) {
  boost::system::error_code error;
  json::value value = json::parse(text, error);
  return error ? json::value(nullptr) : value;
}

std::string time_text(std::int64_t unix_ms) {
  const std::time_t seconds = static_cast<std::time_t>(unix_ms / 1000);
  std::tm local{};
  std::array<char, 32> out{};
  if (::localtime_r(&seconds, &local) == nullptr || std::strftime(out.data(), out.size(), "%F %T", &local) == 0)
    return "?";
  return out.data();
}

json::object row_json(const store::Row& row) {
  return json::object{{"request", row.request},
                      {"device", row.device},
                      {"user", row.user},
                      {"task", row.task},
                      {"ok", row.ok},
                      {"error", row.error},
                      {"finished_unix_ms", row.finished_unix_ms},
                      {"inputs", parsed(row.inputs_json)},
                      {"outputs", parsed(row.outputs_json)},
                      {"timing", parsed(row.timing_json)},
                      {"input_bytes", row.input_bytes},
                      {"output_bytes", row.output_bytes},
                      {"input_file", row.input_file.string()},
                      {"output_file", row.output_file.string()}};
}

struct ListOptions {
  std::string task;
  std::size_t limit = 20;
};

void run_list(CliContext& context, const ListOptions& options) {
  const Outcome<config::StateDir> state = open_state(context);
  if (!state) return fail(context, state.error());
  const Outcome<std::vector<store::Row>> rows = store::list(state.value().store(), options.task, options.limit);
  if (!rows) return fail(context, rows.error());
  if (context.json) {
    json::array all;
    for (const store::Row& row : rows.value()) all.push_back(row_json(row));
    return print_json(all);
  }
  Table table({"request", "finished", "task", "user", "state", ">in", ">out", "error"});
  for (const store::Row& row : rows.value()) {
    table.add({row.request.substr(0, 12), time_text(row.finished_unix_ms), escaped(row.task), escaped(row.user),
               row.ok ? "done" : "failed", bytes_text(row.input_bytes), bytes_text(row.output_bytes),
               escaped(row.error, 80)});
  }
  const std::string text = table.text(colour_wanted());
  std::fwrite(text.data(), 1, text.size(), stdout);
}

std::string ms_text(std::uint64_t microseconds) {
  std::array<char, 32> out{};
  std::snprintf(out.data(), out.size(), "%.1f ms", static_cast<double>(microseconds) / 1000);
  return out.data();
}

/// "boxes FP32 [4,4,2], scores FP32 [4]"
std::string tensors_text(const std::string& specs_json) {
  std::string out;
  const json::value specs = parsed(specs_json);
  if (!specs.is_array()) return out;
  for (const json::value& spec : specs.get_array()) {
    if (!spec.is_object()) continue;
    std::string shape;
    for (const json::value& extent : list_in(spec.get_object(), "shape"))
      shape += (shape.empty() ? "" : ",") + json::serialize(extent);
    out += (out.empty() ? "" : ", ") + text_in(spec.get_object(), "name") + " " + text_in(spec.get_object(), "dtype") +
           " [" + shape + "]";
  }
  return out;
}

void print_row(const store::Row& row) {
  Table table({"request", row.request});
  table.add({"state", row.ok ? "done" : "failed: " + escaped(row.error)});
  table.add({"finished", time_text(row.finished_unix_ms)});
  table.add({"task", escaped(row.task)});
  table.add({"user", escaped(row.user)});
  table.add({"device", device_text(row.device)});
  table.add({"input", bytes_text(row.input_bytes) + ": " + tensors_text(row.inputs_json)});
  if (row.ok) table.add({"output", bytes_text(row.output_bytes) + ": " + tensors_text(row.outputs_json)});
  const json::value timing = parsed(row.timing_json);
  if (timing.is_object() && number_in(timing.get_object(), "total_us") > 0) {
    const json::object& times = timing.get_object();
    table.add({"upload", ms_text(number_in(times, "upload_us"))});
    table.add({"queue", ms_text(number_in(times, "queue_us"))});
    for (const json::value& step : list_in(times, "steps")) {
      if (!step.is_object()) continue;
      const json::object& each = step.get_object();
      table.add({"step", ms_text(number_in(each, "run_us")) + ": " + text_in(each, "step") + ", " +
                             text_in(each, "model") + " " + text_in(each, "version")});
    }
    table.add({"total", ms_text(number_in(times, "total_us"))});
  }
  if (!row.input_file.empty()) table.add({"input file", row.input_file.string()});
  if (!row.output_file.empty()) table.add({"output file", row.output_file.string()});
  const std::string text = table.text(colour_wanted());
  std::fwrite(text.data(), 1, text.size(), stdout);
}

void run_get(CliContext& context, const std::string& request, const std::filesystem::path& out) {
  const Outcome<config::StateDir> state = open_state(context);
  if (!state) return fail(context, state.error());
  const Outcome<store::Row> row = store::find(state.value().store(), request);
  if (!row) return fail(context, row.error());
  if (!out.empty()) {
    std::error_code error;
    std::filesystem::create_directories(out, error);
    for (const std::filesystem::path& file : {row.value().input_file, row.value().output_file}) {
      if (file.empty() || error) continue;
      std::filesystem::copy_file(file, out / file.filename(), std::filesystem::copy_options::overwrite_existing, error);
    }
    if (error) return fail(context, Error{Errc::io_error, out.string() + ": " + error.message()});
  }
  if (context.json) return print_json(row_json(row.value()));
  print_row(row.value());
  if (!out.empty()) std::printf("copied to    %s\n", out.c_str());
}

}  // namespace

void add_results_commands(CLI::App& app, CliContext& context) {
  CLI::App* group = app.add_subcommand("results", "requests that have ended: list them, get their bytes");
  group->require_subcommand(1);
  group->footer("Example:\n  broker results list --task read-text");
  CLI::App* list = add_command(*group, context, "list", "the newest results first",
                               "broker results list --task read-text --limit 5", true);
  const auto options = std::make_shared<ListOptions>();
  list->add_option("--task", options->task, "only those of this task")->type_name("NAME");
  list->add_option("--limit", options->limit, "how many")->check(CLI::Range(1, 10000))->capture_default_str();
  list->callback([&context, options] { run_list(context, *options); });
  CLI::App* get = add_command(*group, context, "get", "all that is known of one request, and its files",
                              "broker results get 3f2a9c01 --out /tmp/result", true);
  const auto request = std::make_shared<std::string>();
  const auto out = std::make_shared<std::filesystem::path>();
  get->add_option("request", *request, "the request's id, or its first characters")->required()->type_name("ID");
  get->add_option("--out", *out, "copy input and result files into this folder")->type_name("DIR");
  get->callback([&context, request, out] { run_get(context, *request, *out); });
}

}  // namespace gearbox::cli
