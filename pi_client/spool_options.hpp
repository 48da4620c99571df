// spool_options.hpp: the command line of `pi_client run` and `pi_client spool`.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gearbox/steps/steps_file.hpp"
#include "spool.hpp"

namespace CLI {
class App;
}

namespace gearbox::client {

/// What is asked for of each picture that is spooled.
struct RequestOptions {
  std::string task;        // empty: own steps
  std::string steps_file;  // TOML; empty: a task
  std::string tensor = "image";
  std::optional<int> lossy;
  std::uint8_t priority = 0;
  milliseconds deadline{0};  // 0: none
  milliseconds max_age{0};   // 0: none
};

enum class After { remove, keep, move };

/// A folder that is watched for pictures.
struct WatchOptions {
  std::string folder;  // empty: none
  After after = After::keep;
  std::string move_to;
};

struct CameraOptions {
  std::string device;  // "/dev/video0" or "file:DIR"; empty: none
  milliseconds every{1'000};
  std::uint32_t width = 0, height = 0;  // 0: the camera's own
};

struct SpoolOptions {
  std::string folder;
  SpoolLimits limits;
  RequestOptions request;
  // add, list, drop
  std::vector<std::string> files;
  std::vector<std::string> ids;
  bool all = false;
  bool json = false;
  // run
  std::string answers;  // empty: FOLDER/answers.jsonl; "-": standard output
  std::string out;      // as SendOptions::out
  unsigned parallel = 4;
  std::uint64_t max_rate = 0;
  std::uint64_t max_per_minute = 0;
  milliseconds move_after{60'000};     // 0: never
  milliseconds contact_every{60'000};  // looks in at central for commands; 0: never
  bool until_empty = false;
  WatchOptions watch;
  CameraOptions camera;
};

/// The two subcommands; lives as long as the App.
class SpoolWords {
 public:
  /// `add_central` adds the options that say where central is. `into` outlives it.
  SpoolWords(CLI::App& app, const std::function<void(CLI::App*)>& add_central, SpoolOptions* into);
  ~SpoolWords();
  SpoolWords(const SpoolWords&) = delete;
  SpoolWords& operator=(const SpoolWords&) = delete;

  /// After parsing: fills in what is derived. A text that is not empty says what is wrong.
  std::string finish();

  bool run_parsed() const;
  bool add_parsed() const;
  bool list_parsed() const;
  bool drop_parsed() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gearbox::client
