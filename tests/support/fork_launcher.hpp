// fork_launcher.hpp: starts workers as children of the test, and leaves none behind.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <string>
#include <vector>

#include "worker_pool/worker_pool.hpp"

namespace gearbox::test_support {

class ForkLauncher final : public worker_pool::Launcher {
 public:
  /// `more` is added to each worker's command line.
  explicit ForkLauncher(boost::asio::io_context& io, std::vector<std::string> more = {})
      : io_(io), more_(std::move(more)) {}
  ~ForkLauncher() override {
    for (const int pid : children_) ::kill(pid, SIGKILL);
    wait_for_all();
  }

  void launch(Order order, std::function<void(Outcome<int>)> started) override {
    reap();
    orders.push_back(order);
    std::vector<std::string> words = order.argv;
    words.insert(words.end(), more_.begin(), more_.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    for (char** variable = environ; *variable != nullptr; ++variable) order.env.emplace_back(*variable);
    std::vector<char*> env;
    for (std::string& variable : order.env) env.push_back(variable.data());
    env.push_back(nullptr);
    const int parent = ::getpid();
    const int pid = ::fork();
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a test that crashes leaves no worker
      if (::getppid() == parent) ::execve(argv[0], argv.data(), env.data());
      ::_exit(127);
    }
    Outcome<int> result = Error{Errc::no_space, "fork"};
    if (pid > 0) {
      children_.push_back(pid);
      started_[pid] = orders.back();
      result = pid;
    }
    boost::asio::post(io_, [started = std::move(started), result = std::move(result)] { started(result); });
  }

  void list(milliseconds, std::function<void(Outcome<std::vector<Running>>)> listed) override {
    reap();
    std::vector<Running> all;
    for (const auto& [pid, order] : started_) {
      if (std::find(children_.begin(), children_.end(), pid) != children_.end()) {
        all.push_back({pid, order.role, order.argv});
      }
    }
    boost::asio::post(io_, [listed = std::move(listed), all = std::move(all)] { listed(all); });
  }
  void cancel_all() override {}  // each launch is answered at once
  void stop(int pid, milliseconds) override { ::kill(pid, SIGTERM); }

  /// Blocks until each child has ended; 0 children are left after it.
  void wait_for_all() {
    for (const int pid : children_) ::waitpid(pid, nullptr, 0);
    children_.clear();
  }
  void set_more(std::vector<std::string> more) { more_ = std::move(more); }

  std::vector<Order> orders;

 private:
  void reap() {
    std::erase_if(children_, [](int pid) { return ::waitpid(pid, nullptr, WNOHANG) == pid; });
  }

  boost::asio::io_context& io_;
  std::vector<std::string> more_;
  std::vector<int> children_;
  std::map<int, Order> started_;  // as it was ordered; of ended ones too
};

}  // namespace gearbox::test_support
