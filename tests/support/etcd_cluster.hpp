// etcd_cluster.hpp: three members of etcd for a test program, by tests/support/etcd_cluster.py.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "support/temp_dir.hpp"

namespace gearbox::testing {

/// Started by the constructor; ended, with all that it kept, by the destructor.
class EtcdCluster {
 public:
  EtcdCluster() {
    int to_child[2], from_child[2];
    if (::pipe2(to_child, O_CLOEXEC) != 0 || ::pipe2(from_child, O_CLOEXEC) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(to_child[0], STDIN_FILENO);
      ::dup2(from_child[1], STDOUT_FILENO);
      ::execl("/usr/bin/python3", "python3", "-B", ETCD_SCRIPT, folder_.path().c_str(), nullptr);
      ::_exit(127);
    }
    ::close(to_child[0]);
    ::close(from_child[1]);
    to_ = ::fdopen(to_child[1], "w");
    from_ = ::fdopen(from_child[0], "r");
    const std::string line = read();
    if (line.starts_with("http://")) {
      endpoints_ = line;
    } else {
      missing_ = line.empty() ? "etcd does not start" : line;
    }
    EXPECT_FALSE(line.empty()) << "etcd does not start";
  }
  ~EtcdCluster() {
    if (to_ != nullptr) std::fclose(to_);
    if (from_ != nullptr) std::fclose(from_);
    if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
  }
  EtcdCluster(const EtcdCluster&) = delete;
  EtcdCluster& operator=(const EtcdCluster&) = delete;

  /// Empty: it runs. Else why there is none on this machine.
  const std::string& missing() const { return missing_; }
  const std::string& endpoints() const { return endpoints_; }
  /// "kill 1", "start 1", "stop 1", "cont 1": its members 0 to 2; "leader" gives a number.
  std::string tell(const std::string& words) {
    std::fputs((words + "\n").c_str(), to_);
    std::fflush(to_);
    return read();
  }
  int leader() { return std::stoi(tell("leader")); }

 private:
  std::string read() {
    std::string line;
    for (int c = std::fgetc(from_); c != EOF && c != '\n'; c = std::fgetc(from_)) line += static_cast<char>(c);
    return line;
  }

  const TempDir folder_;
  pid_t pid_ = -1;
  std::FILE* to_ = nullptr;
  std::FILE* from_ = nullptr;
  std::string endpoints_, missing_;
};

}  // namespace gearbox::testing
