// spooling.hpp: a device with a spool, and one run of `pi_client run`.
#pragma once

#include <signal.h>
#include <unistd.h>

#include <boost/json/parse.hpp>

#include <functional>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "run_command.hpp"
#include "spool_command.hpp"
#include "support.hpp"

namespace gearbox::client {

class Spooling : public Device {
 public:
  explicit Spooling(const test::FakeNode& fake) : Device(fake) { prepare_options(); }

  std::string picture(const std::string& name, std::uint32_t side, std::uint32_t seed) {
    return scratch.file(name, noise_picture(side, side, seed));
  }
  void add(const std::vector<std::string>& files, const std::string& task = "echo") {
    SpoolOptions adding = options.spool;
    adding.files = files;
    adding.request.task = task;
    StringConsole quiet;
    EXPECT_EQ(run_spool_add(adding, quiet), 0) << quiet.err;
  }
  std::set<std::string> ids() {
    SpoolOptions listing = options.spool;
    listing.json = true;
    StringConsole quiet;
    EXPECT_EQ(run_spool_list(listing, quiet), 0) << quiet.err;
    std::set<std::string> found;
    for (const auto& line : lines_of(quiet.out)) found.insert(std::string(line.at("request").as_string()));
    return found;
  }
  int run() { return run_spooled(options, settings, transport, console); }
  std::vector<boost::json::object> answers() const {
    std::ifstream in(scratch.path() / "spool/answers.jsonl");
    return lines_of(std::string(std::istreambuf_iterator<char>(in), {}));
  }
  static std::vector<boost::json::object> lines_of(const std::string& text) {
    std::vector<boost::json::object> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(boost::json::parse(line).as_object());
    return lines;
  }

 private:
  void prepare_options() {
    options.command = Command::run;
    options.spool.folder = (scratch.path() / "spool").string();
    options.spool.until_empty = true;
  }
};

/// Sends SIGTERM when `due` is true; ends the test's process by abort when that takes over 20 s.
class StopWhen {
 public:
  explicit StopWhen(std::function<bool()> due)
      : thread_([due = std::move(due)] {
          const Instant limit = Clock::now() + seconds(20);
          while (!due() && Clock::now() < limit) std::this_thread::sleep_for(milliseconds(1));
          ::kill(::getpid(), SIGTERM);
        }) {}
  ~StopWhen() { thread_.join(); }

 private:
  std::thread thread_;
};

}  // namespace gearbox::client
