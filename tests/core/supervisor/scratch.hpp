// scratch.hpp: a state folder for one test, and waiting for events of an io_context with a deadline.
#pragma once

#include <boost/asio/io_context.hpp>

#include <gtest/gtest.h>

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "config/state_dir.hpp"
#include "gearbox/base/clock.hpp"

namespace gearbox::supervisor {

class Scratch {
 public:
  Scratch() {
    std::string name = (std::filesystem::temp_directory_path() / "gearbox-test-XXXXXX").string();
    root_ = ::mkdtemp(name.data());
    Outcome<config::StateDir> opened = config::open_state_dir(root_ / "state");
    EXPECT_TRUE(opened) << (opened ? "" : opened.error().detail);
    state = opened.value();
  }
  ~Scratch() {
    std::error_code error;
    std::filesystem::remove_all(root_, error);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  std::filesystem::path path(const std::string& name) const { return root_ / name; }
  static void write(const std::filesystem::path& file, const std::string& text, bool append = true) {
    std::ofstream(file, append ? std::ios::app : std::ios::trunc) << text;
  }
  static std::string read(const std::filesystem::path& file) {
    std::ifstream in(file);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  config::StateDir state;

 private:
  std::filesystem::path root_;
};

/// Runs `io` until `condition` holds; false when it does not within ten seconds.
template <class Condition>
bool run_until(boost::asio::io_context& io, Condition condition) {
  const Instant deadline = after(Clock::now(), seconds(10));
  while (!condition()) {
    if (Clock::now() > deadline) return false;
    io.restart();
    io.run_one_for(milliseconds(20));
  }
  return true;
}

}  // namespace gearbox::supervisor
