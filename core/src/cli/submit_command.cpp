// submit: run a task on files of this host, through the node's unix socket.
#include "cli/commands.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>

#include "cli/json_facts.hpp"
#include "cli/local_request.hpp"
#include "gearbox/base/text.hpp"

namespace gearbox::cli {

namespace json = boost::json;

namespace {

struct SubmitOptions {
  std::string task;
  std::string steps_file;
  std::string tensor = "image";
  std::vector<std::string> files;
  unsigned timeout_ms = 60000;
};

Outcome<Bytes> read_whole(const std::string& path, std::uint64_t limit) {
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error) return Error{Errc::io_error, path + ": " + error.message()};
  if (size > limit) {
    return Error{Errc::too_large, path + ": " + std::to_string(size) + " bytes; the limit is " + std::to_string(limit)};
  }
  std::ifstream in(path, std::ios::binary);
  Bytes bytes(static_cast<std::size_t>(size));
  in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!in || static_cast<std::uintmax_t>(in.gcount()) != size) return Error{Errc::io_error, path + ": cannot be read"};
  return bytes;
}

/// The elements of a BYTES tensor; nothing when the lengths do not fit.
std::optional<std::vector<std::string_view>> elements(ByteView bytes) {
  std::vector<std::string_view> out;
  while (!bytes.empty()) {
    if (bytes.size() < 4) return std::nullopt;
    const auto length = load_le<std::uint32_t>(bytes.data());
    bytes = bytes.subspan(4);
    if (length > bytes.size()) return std::nullopt;
    out.push_back(text_of(bytes.first(length)));
    bytes = bytes.subspan(length);
  }
  return out;
}

std::string shape_text(const wire::TensorSpec& spec) {
  std::string out = "[";
  for (const std::int64_t size : spec.shape) out += (out.size() > 1 ? "," : "") + std::to_string(size);
  return out + "]";
}

json::object timing_json(const wire::Timing& timing) {
  json::array steps;
  for (const wire::StepTiming& step : timing.steps) {
    json::object each{{"step", step.step},      {"model", step.model},       {"version", step.version},
                      {"calls", step.calls},    {"queue_us", step.queue_us}, {"run_us", step.run_us},
                      {"retries", step.retries}};
    steps.push_back(std::move(each));
  }
  return json::object{{"upload_us", timing.upload_us},
                      {"queue_us", timing.queue_us},
                      {"total_us", timing.total_us},
                      {"steps", std::move(steps)}};
}

json::object answer_json(const std::string& file, const LocalAnswer& answer) {
  json::array tensors;
  ByteView rest(answer.payload);
  for (const wire::TensorSpec& spec : answer.result.tensors) {
    const ByteView bytes = rest.first(std::min<std::size_t>(spec.bytes, rest.size()));
    rest = rest.subspan(bytes.size());
    json::array shape(spec.shape.begin(), spec.shape.end());
    json::object each{{"name", spec.name},
                      {"dtype", std::string(wire::name_of(spec.dtype))},
                      {"shape", std::move(shape)},
                      {"bytes", spec.bytes}};
    const auto words = spec.dtype == wire::DType::bytes ? elements(bytes) : std::nullopt;
    if (words) {
      json::array values;
      for (const std::string_view word : *words) {
        values.emplace_back(is_utf8(word) ? std::string(word) : escaped(word, word.size() * 4));
      }
      each["values"] = std::move(values);
    }
    tensors.push_back(std::move(each));
  }
  return json::object{{"file", file},
                      {"ok", true},
                      {"request", to_text(answer.request)},
                      {"tensors", std::move(tensors)},
                      {"timing", timing_json(answer.result.timing)}};
}

void print_answer(const LocalAnswer& answer) {
  ByteView rest(answer.payload);
  for (const wire::TensorSpec& spec : answer.result.tensors) {
    const ByteView bytes = rest.first(std::min<std::size_t>(spec.bytes, rest.size()));
    rest = rest.subspan(bytes.size());
    const auto words = spec.dtype == wire::DType::bytes ? elements(bytes) : std::nullopt;
    if (words) {
      for (const std::string_view word : *words) std::printf("%s\n", escaped(word, 4096).c_str());
    } else {
      std::printf("%s: %s %s\n", spec.name.c_str(), std::string(wire::name_of(spec.dtype)).c_str(),
                  shape_text(spec).c_str());
    }
  }
}

void report_failure(CliContext& context, const std::string& file, const Error& error, json::array& all) {
  context.exit_code = kFailed;
  if (context.json) {
    json::object reason{{"code", static_cast<unsigned>(error.code)},
                        {"name", std::string(name_of(error.code))},
                        {"detail", escaped(error.detail, 4096)}};
    json::object each{{"file", file}, {"ok", false}, {"error", std::move(reason)}};
    all.push_back(std::move(each));
  } else {
    std::fprintf(stderr, "broker: %s: %s\n", file.c_str(), escaped(describe(error), 4096).c_str());
  }
}

void run_submit(CliContext& context, const SubmitOptions& options) {
  const Outcome<config::StateDir> state = open_state(context);
  if (!state) return fail(context, state.error());
  LocalWork work;
  work.task = options.task;
  if (options.steps_file.empty()) {
    if (const Outcome<void> name = check_name("task", options.task); !name) return fail(context, name.error());
  } else {
    Outcome<steps::StepList> own = steps::read_steps_file(options.steps_file);
    if (!own) return fail(context, own.error());
    work.own = std::move(own).value();
  }
  json::array all;
  for (const std::string& file : options.files) {
    Outcome<Bytes> bytes = read_whole(file, kMaxResultBytes);
    if (!bytes) {
      report_failure(context, file, bytes.error(), all);
      continue;
    }
    std::vector<LocalInput> inputs;
    LocalInput input{options.tensor, std::move(bytes).value()};
    inputs.push_back(std::move(input));
    const Outcome<LocalAnswer> answer =
        run_local_request(state.value().node_socket(), work, std::move(inputs), milliseconds(options.timeout_ms));
    if (!answer) {
      report_failure(context, file, answer.error(), all);
    } else if (context.json) {
      all.push_back(answer_json(file, answer.value()));
    } else {
      if (options.files.size() > 1) std::printf("%s\n", file.c_str());
      print_answer(answer.value());
    }
  }
  if (context.json) print_json(all);
}

}  // namespace

void add_submit_command(CLI::App& app, CliContext& context) {
  CLI::App* command = add_command(app, context, "submit", "run a task on files of this host and print the answer",
                                  "broker submit --task read-text docs/examples/pictures/ear_tag.jpg", true);
  const auto options = std::make_shared<SubmitOptions>();
  CLI::Option* task =
      command->add_option("--task", options->task, "what to run; `broker status` lists the tasks")->type_name("NAME");
  CLI::Option* steps = command
                           ->add_option("--steps", options->steps_file,
                                        "instead of a task, own steps: [[step]] and [result] as in a task's file")
                           ->type_name("FILE.toml")
                           ->excludes(task);
  command->add_option("--tensor", options->tensor, "the task's input that the file becomes")
      ->type_name("NAME")
      ->capture_default_str();
  command->add_option("--timeout-ms", options->timeout_ms, "how long to wait for each answer")
      ->type_name("MS")
      ->check(CLI::Range(1U, 86'400'000U))
      ->capture_default_str();
  command->add_option("files", options->files, "files, one request each; they travel as they are")
      ->required()
      ->type_name("FILE");
  command->callback([&context, options, task, steps] {
    if (task->count() + steps->count() == 0) throw CLI::RequiredError("--task or --steps");
    run_submit(context, *options);
  });
}

}  // namespace gearbox::cli
