// open_loop: sends requests at given moments, whether or not earlier ones are answered, and takes their streamed
// answers.
//
//   open_loop --socket NODE.sock --task NAME [--tensor NAME] [--within-ms MS] SCHEDULE
//
// Each line of SCHEDULE is "AT_US TEXT": microseconds since the beginning, rising, and the tensor's bytes. One thread
// for each request that is open. Prints one line of JSON: how many there were, how many failed and why, and the latest
// that one was sent after its moment. Exit codes: 0 all answered, 1 some were not, 2 wrong usage.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cli/local_request.hpp"
#include "gearbox/base/text.hpp"

namespace {

using namespace gearbox;

struct Asked {
  microseconds at{0};
  std::string text;
};

struct Words {
  std::string socket, task, tensor = "prompt", schedule;
  unsigned within_ms = 60'000;
};

/// What came of all of them. Threads: any.
struct Tally {
  std::mutex mutex;
  std::uint64_t parts = 0, failed = 0;
  microseconds latest{0};
  std::map<std::string, std::uint64_t> reasons;
};

std::vector<Asked> read_schedule(const std::string& name) {
  std::vector<Asked> all;
  std::ifstream in(name);
  std::int64_t at = 0;
  std::string text;
  while (in >> at && std::getline(in >> std::ws, text)) all.push_back({microseconds(at), text});
  return all;
}

void ask(const Words& words, const Asked& asked, Instant due, Tally& tally) {
  std::uint64_t parts = 0;
  const auto late = std::chrono::duration_cast<microseconds>(Clock::now() - due);
  cli::LocalWork work;
  work.task = words.task;
  const ByteView bytes = view_of(asked.text);
  std::vector<cli::LocalInput> inputs;
  inputs.push_back({words.tensor, Bytes(bytes.begin(), bytes.end())});
  const Outcome<cli::LocalAnswer> answer =
      cli::run_local_request(words.socket, work, std::move(inputs), milliseconds(words.within_ms),
                             [&parts](const RequestId&, const cli::LocalPart&) { ++parts; });
  const std::lock_guard lock(tally.mutex);
  tally.parts += parts;
  tally.latest = std::max(tally.latest, late);
  if (answer) return;
  ++tally.failed;
  ++tally.reasons[describe(answer.error())];
}

int run(const Words& words) {
  const std::vector<Asked> schedule = read_schedule(words.schedule);
  if (schedule.empty()) {
    std::fprintf(stderr, "open_loop: %s has no line\n", words.schedule.c_str());
    return 2;
  }
  Tally tally;
  std::vector<std::thread> threads;
  threads.reserve(schedule.size());
  const Instant begun = Clock::now();
  for (const Asked& asked : schedule) {
    const Instant due = begun + asked.at;
    std::this_thread::sleep_until(due);
    threads.emplace_back([&words, &asked, due, &tally] { ask(words, asked, due, tally); });
  }
  for (std::thread& each : threads) each.join();
  for (const auto& [reason, times] : tally.reasons)
    std::fprintf(stderr, "open_loop: %llu times: %s\n", static_cast<unsigned long long>(times),
                 escaped(reason, 400).c_str());
  std::printf("{\"requests\": %zu, \"failed\": %llu, \"parts\": %llu, \"latest_us\": %lld}\n", schedule.size(),
              static_cast<unsigned long long>(tally.failed), static_cast<unsigned long long>(tally.parts),
              static_cast<long long>(tally.latest.count()));
  return tally.failed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Words words;
  CLI::App app("sends requests at given moments through a node's own socket");
  app.add_option("--socket", words.socket)->required();
  app.add_option("--task", words.task)->required();
  app.add_option("--tensor", words.tensor)->capture_default_str();
  app.add_option("--within-ms", words.within_ms)->check(CLI::Range(1U, 3'600'000U))->capture_default_str();
  app.add_option("SCHEDULE", words.schedule)->required()->check(CLI::ExistingFile);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return run(words);
}
