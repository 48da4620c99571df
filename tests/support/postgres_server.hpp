// postgres_server.hpp: one PostgreSQL server for a whole test program, started when a test first wants it.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>

#include "support/temp_dir.hpp"

namespace gearbox::testing {

class PostgresServer : public ::testing::Environment {
 public:
  /// Stopped and removed when all tests have run.
  static PostgresServer& get() { return *instance_; }

  /// Empty: the server runs, and `connection()` is how libpq finds it. Else why there is none on this machine; any
  /// other failure fails the test.
  const std::string& missing() {
    if (folder_) return missing_;
    folder_ = std::make_unique<TempDir>();
    const Ran started = run("start");
    if (started.code == 3) {
      missing_ = started.out;
      std::cout << "NOT RUN: " << missing_ << "\n";
    } else {
      EXPECT_EQ(started.code, 0) << started.out;
      connection_ = started.out;
    }
    return missing_;
  }
  const std::string& connection() const { return connection_; }
  std::filesystem::path socket() const { return folder_->path() / ".s.PGSQL.5432"; }

  void stop() { EXPECT_EQ(run("stop").code, 0); }  // at once, as a crash would
  void restart() { EXPECT_EQ(run("restart").code, 0); }

  void TearDown() override {
    if (!connection_.empty()) stop();
    folder_.reset();
  }

 private:
  struct Ran {
    int code = -1;
    std::string out;
  };
  Ran run(const std::string& command) const {
    Ran ran;
    const std::string words = std::string(POSTGRES_SCRIPT) + " " + command + " " + folder_->path().string();
    std::FILE* const pipe = ::popen(words.c_str(), "r");
    if (pipe == nullptr) return ran;
    std::array<char, 512> piece;
    while (std::fgets(piece.data(), piece.size(), pipe) != nullptr) ran.out += piece.data();
    const int status = ::pclose(pipe);
    ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    while (!ran.out.empty() && ran.out.back() == '\n') ran.out.pop_back();
    return ran;
  }

  std::unique_ptr<TempDir> folder_;
  std::string connection_, missing_;
  static PostgresServer* const instance_;
};

// Google Test owns it from the start of the program on.
inline PostgresServer* const PostgresServer::instance_ =
    static_cast<PostgresServer*>(::testing::AddGlobalTestEnvironment(new PostgresServer));

}  // namespace gearbox::testing
