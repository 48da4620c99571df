// submit: run a task on files of this host, through the node's unix socket.
#include "cli/commands.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>

#include "cli/answer_text.hpp"
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
  bool stream = false;
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

json::object answer_json(const std::string& file, const LocalAnswer& answer, std::uint32_t parts) {
  json::object out{{"file", file},
                   {"ok", true},
                   {"request", to_text(answer.request)},
                   {"tensors", tensors_json(answer.result.tensors, answer.payload, false)},
                   {"timing", timing_json(answer.result.timing)}};
  if (parts > 0) out["parts"] = parts;
  return out;
}

/// What comes of one file, as it comes.
class Printer {
 public:
  Printer(const std::string& file, bool several, bool json) : file_(file), several_(several), json_(json) {}

  void part(const RequestId& request, const LocalPart& part) {
    ++parts_;
    if (json_) {
      const json::object line{{"file", file_},
                              {"request", to_text(request)},
                              {"part", part.number},
                              {"tensors", tensors_json(part.tensors, part.payload, true)}};
      print_json(line);
    } else {
      if (part.number == 0) name_file();
      std::fputs(text_.add(part.tensors, part.payload).c_str(), stdout);
    }
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
    // Nobody reads on. The node hears that this process has gone, and calls the request off.
    std::fprintf(stderr, "broker: standard output: %s: the rest is called off\n", std::strerror(errno));
    std::_Exit(kFailed);
  }
  void answer(const LocalAnswer& answer) {
    if (parts_ == 0) name_file();
    end_parts();
    std::fputs(tensors_text(answer.result.tensors, answer.payload).c_str(), stdout);
  }
  /// No more parts come.
  void end_parts() {
    if (parts_ > 0 && !json_) std::fputs(text_.end().c_str(), stdout);
    std::fflush(stdout);
  }
  std::uint32_t parts() const { return parts_; }

 private:
  void name_file() const {
    if (several_) std::printf("%s\n", file_.c_str());
  }
  const std::string& file_;
  bool several_;
  bool json_;
  std::uint32_t parts_ = 0;
  PartsText text_;
};

void report_failure(CliContext& context, const std::string& file, const Error& error, std::uint32_t parts,
                    json::array& all) {
  context.exit_code = kFailed;
  if (context.json) {
    json::object reason{{"code", static_cast<unsigned>(error.code)},
                        {"name", std::string(name_of(error.code))},
                        {"detail", escaped(error.detail, 4096)}};
    json::object each{{"file", file}, {"ok", false}, {"error", std::move(reason)}};
    if (parts > 0) each["parts"] = parts;
    all.push_back(std::move(each));
  } else {
    std::fprintf(stderr, "broker: %s: %s\n", file.c_str(), escaped(describe(error), 4096).c_str());
  }
}

void submit_one(CliContext& context, const SubmitOptions& options, const std::filesystem::path& socket,
                const LocalWork& work, const std::string& file, Bytes bytes, json::array& all) {
  std::vector<LocalInput> inputs;
  LocalInput input{options.tensor, std::move(bytes)};
  inputs.push_back(std::move(input));
  Printer printer(file, options.files.size() > 1, context.json);
  OnPart on_part;
  if (options.stream) {
    on_part = [&](const RequestId& request, const LocalPart& part) { printer.part(request, part); };
  }
  const Outcome<LocalAnswer> answer =
      run_local_request(socket, work, std::move(inputs), milliseconds(options.timeout_ms), std::move(on_part));
  if (!answer) {
    printer.end_parts();
    report_failure(context, file, answer.error(), printer.parts(), all);
  } else if (context.json) {
    all.push_back(answer_json(file, answer.value(), printer.parts()));
  } else {
    printer.answer(answer.value());
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
      report_failure(context, file, bytes.error(), 0, all);
    } else {
      submit_one(context, options, state.value().node_socket(), work, file, std::move(bytes).value(), all);
    }
    if (!options.stream || !context.json) continue;
    for (const json::value& line : all) print_json(line);  // each as soon as it is there
    all.clear();
  }
  if (context.json && !options.stream) print_json(all);
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
  command->add_flag("--stream", options->stream, "print parts of an answer as they come, from models that stream");
  command->add_option("files", options->files, "files, one request each; they travel as they are")
      ->required()
      ->type_name("FILE");
  command->callback([&context, options, task, steps] {
    if (task->count() + steps->count() == 0) throw CLI::RequiredError("--task or --steps");
    run_submit(context, *options);
  });
}

}  // namespace gearbox::cli
