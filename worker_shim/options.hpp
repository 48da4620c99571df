// options.hpp: the command line of worker_shim.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <variant>

namespace gearbox::shim {

/// Documented in --help; the supervisor and people read them.
enum class ExitCode : int {
  told_to_stop = 0,  // SIGTERM, the node said so, or the node is gone for good
  failed = 1,        // the ring is broken, or a call ran into its limit with no node to answer to
  usage = 2,
  cannot_load = 3,     // the record is wrong, or the model raised, exited or overran its time while loading
  no_environment = 4,  // the Python is missing, or is of another version than this shim is built for
};

struct Options {
  std::filesystem::path model;   // folder with model.toml
  std::string env;               // name, for messages
  std::filesystem::path python;  // the environment's interpreter
  std::filesystem::path node;    // the node's workers socket
  std::uint32_t slot = 0;
  std::uint32_t threads = 0;  // 0: as the record says
  std::string device;         // "", "cpu", "cuda:0": what load() is given
  std::string devices;        // as the configuration says; told to the node
  std::string origin;         // the life of the node that had it started; told to the node
  std::chrono::milliseconds reattach{5000};
};

/// The options, or the code to exit with: --help and --version print to stdout (0), a wrong line to stderr (2).
std::variant<Options, int> parse_options(int argc, char** argv);

}  // namespace gearbox::shim
