// options.hpp: what the command line asks for, checked as far as that needs no network and no file.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gearbox/base/clock.hpp"
#include "gearbox/base/outcome.hpp"
#include "gearbox/steps/steps_file.hpp"
#include "spool_options.hpp"

namespace gearbox::client {

enum class Command { enrol, send, show_key, run, spool_add, spool_list, spool_drop };

/// Where one central listens and how it is known to be itself.
struct CentralPlace {
  std::string url;                         // "tcp://host:port"
  std::array<std::byte, 32> server_key{};  // X25519, pinned
};

/// The first one, and others that are asked in turn when it does not answer: standbys.
struct CentralAddress : CentralPlace {
  std::string user;
  std::vector<CentralPlace> others{};
};

struct EnrolOptions {
  std::string device;         // empty: the host's name
  std::string password_file;  // empty: ask on the terminal; "-": standard input
};

struct SendOptions {
  std::string task;                                         // empty: own steps
  std::string steps_file;                                   // TOML; empty: a task
  steps::StepList own;                                      // what it says, once it was read
  std::vector<std::string> files;                           // one request each, as tensor `tensor`
  std::vector<std::pair<std::string, std::string>> inputs;  // name and file: together one request, instead of `files`
  std::string tensor = "image";
  std::string out;  // empty: none; a folder, or with one request and one binary result a file
  bool json = false;
  bool quiet = false;
  bool stream = false;                   // parts of a streamed answer as they come
  unsigned parallel = 4;                 // requests under way at once
  std::optional<int> lossy;              // JPEG quality 1 to 100 for raw 8-bit frames; none: lossless only
  std::uint8_t priority = 0;             // higher goes first, as far as the account may
  std::optional<milliseconds> deadline;  // told to the node with each request
  milliseconds timeout{60'000};          // for each request, reconnects included
  milliseconds first_contact{10'000};    // how long central may be unreachable at the start
  milliseconds move_after{60'000};       // as LinkSettings::move_after
};

struct Options {
  Command command = Command::send;
  CentralAddress central;
  std::string keys;  // the folder with the device's key
  EnrolOptions enrol;
  SendOptions send;
  SpoolOptions spool;
};

/// What parse() makes of a command line: options to run with, or a text to print and the exit code (0 for --help).
struct Parsed {
  std::optional<Options> options;
  std::string text;
  int exit_code = 0;
};

/// Never prints and never ends the process. `home` stands for $HOME in the default of --keys.
Parsed parse(int argc, const char* const* argv, std::string_view home);

inline constexpr std::string_view kAgent = "pi_client " GEARBOX_VERSION;

}  // namespace gearbox::client
