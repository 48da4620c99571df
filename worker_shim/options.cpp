#include "options.hpp"

#include <CLI/CLI.hpp>

#include <Python.h>

namespace gearbox::shim {

std::variant<Options, int> parse_options(int argc, char** argv) {
  Options options;
  CLI::App app{
      "worker_shim: one process that holds one model in one Python environment and serves it to the node.\n"
      "The node starts it; by hand it is useful to see why a model does not load."};
  app.add_option("--model", options.model, "the model's folder, with model.toml and model.py")
      ->required()
      ->type_name("DIR");
  app.add_option("--env", options.env, "the environment's name, for messages")->required()->type_name("NAME");
  app.add_option("--python", options.python, "the environment's interpreter (a venv's bin/python)")
      ->required()
      ->type_name("PATH");
  app.add_option("--node", options.node, "the node's socket for workers")->required()->type_name("SOCK");
  app.add_option("--slot", options.slot, "the worker slot it was started for")->type_name("N");
  app.add_option("--threads", options.threads,
                 "threads of numeric libraries (OMP_NUM_THREADS and the like); 0: as model.toml says")
      ->check(CLI::Range(0, 1024))
      ->type_name("N");
  app.add_option("--device", options.device, "handed to the model's load(): cpu, cuda:0 ...")->type_name("D");
  app.add_option("--devices", options.devices, "what the configuration says of devices; told to the node")
      ->type_name("LIST");
  app.add_option("--origin", options.origin, "which life of a node starts it; told to the node")->type_name("ID");
  std::int64_t reattach_ms = options.reattach.count();
  app.add_option("--reattach-ms", reattach_ms, "how long to look for a new node after the old one is gone [ms]")
      ->check(CLI::Range(0, 600000))
      ->capture_default_str()
      ->type_name("N");
  app.set_version_flag("--version", std::string("worker_shim " GEARBOX_VERSION " (Python " PY_VERSION ")"));
  app.footer(
      "Exit codes: 0 told to stop, or the node is gone; 1 the ring to the node broke; 2 wrong usage;\n"
      "  3 the model cannot load; 4 the Python environment is missing or of another version.\n"
      "Example:\n"
      "  worker_shim --model configs/models/ppocr-rec --env onnx --python ~/.local/state/gearbox/envs/onnx/bin/python "
      "\\\n"
      "              --node ~/.local/state/gearbox/run/workers.sock --slot 1");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(ExitCode::usage);
  }
  options.reattach = std::chrono::milliseconds(reattach_ms);
  return options;
}

}  // namespace gearbox::shim
