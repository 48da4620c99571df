// worker_shim: one process, one model, one Python environment. From top to bottom: the command line, the record,
// Python, the model, the node.
#include <pybind11/pybind11.h>

#include <cstdio>
#include <string>
#include <utility>

#include "gearbox/base/stop_point.hpp"
#include "gearbox/base/text.hpp"
#include "gearbox/model/record.hpp"
#include "gearbox/shm/attach.hpp"
#include "interpreter.hpp"
#include "model_host.hpp"
#include "options.hpp"
#include "python_module.hpp"
#include "serve.hpp"
#include "watchdog.hpp"

namespace gearbox::shim {
namespace {

/// Says why on stderr and to the node, which shows it to people.
ExitCode cannot_start(const Options& options, const model::Record& record, const Error& error, ExitCode code) {
  const std::string why = escaped(describe(error), 1000);
  std::fprintf(stderr, "worker_shim: model=%s cannot start: %s\n", options.model.filename().c_str(), why.c_str());
  const Outcome<void> told = shm::report_failure(options.node, hello_of(options, record), why);
  if (!told) std::fprintf(stderr, "worker_shim: the node was not told: %s\n", escaped(describe(told.error())).c_str());
  return code;
}

ExitCode run(const Options& options) {
  const Outcome<void> watched = Watchdog::start();
  if (!watched) {
    std::fprintf(stderr, "worker_shim: %s\n", describe(watched.error()).c_str());
    return ExitCode::failed;
  }
  Outcome<model::Record> read = model::read_record(options.model);
  if (!read) return cannot_start(options, {}, read.error(), ExitCode::cannot_load);
  const model::Record record = std::move(read).value();
  const Environment environment{options.env, options.python};
  const Outcome<void> there = check_environment(environment);
  if (!there) return cannot_start(options, record, there.error(), ExitCode::no_environment);
  const auto helpers = helper_folder();
  if (!helpers) return cannot_start(options, record, helpers.error(), ExitCode::no_environment);

  const std::uint32_t threads = options.threads != 0 ? options.threads : record.threads;
  set_thread_limits(threads);
  Outcome<void> started = register_python_module();
  if (started) started = start_python(environment, {helpers.value(), std::filesystem::absolute(record.folder)});
  if (!started) return cannot_start(options, record, started.error(), ExitCode::no_environment);

  // A model that hangs while it loads never reports; the node's own limit may be gone with the node.
  Watchdog::arm(milliseconds(record.load_timeout_ms), ExitCode::cannot_load,
                "model=" + record.name + " did not load within " + std::to_string(record.load_timeout_ms) + " ms");
  const Outcome<ModelHost*> host = ModelHost::load(record, options.device, threads);
  Watchdog::disarm();
  ExitCode code = ExitCode::told_to_stop;
  if (!host) {
    code = cannot_start(options, record, host.error(), ExitCode::cannot_load);
  } else {
    stop_point("worker.loaded");
    serve_python_module(host.value());
    code = serve(options, record, *host.value());
  }
  // From here on the model may only delay the end by so much: threads that it left running are never joined.
  Watchdog::arm(Watchdog::kGrace, code, {});
  if (host) host.value()->finish();
  return code;
}

}  // namespace
}  // namespace gearbox::shim

int main(int argc, char** argv) {
  const auto parsed = gearbox::shim::parse_options(argc, argv);
  if (const int* code = std::get_if<int>(&parsed)) return *code;
  const auto& options = std::get<gearbox::shim::Options>(parsed);
  gearbox::shim::hand_over_to_other_version({options.env, options.python}, argv);
  gearbox::shim::leave(gearbox::shim::run(options));
}
