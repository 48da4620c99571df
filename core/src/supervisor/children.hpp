// children.hpp: all processes of this host's roles: started by us or by the supervisor before us, each with its record.
//
// One strand. Our own children are reaped on SIGCHLD, adopted ones are watched by pidfd. Being a sub-reaper we also
// reap what our children leave behind.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/state_dir.hpp"
#include "gearbox/base/clock.hpp"
#include "gearbox/base/outcome.hpp"
#include "supervisor/log_follower.hpp"
#include "supervisor/process_record.hpp"

namespace gearbox::supervisor {

/// How a child ended.
struct Ended {
  std::string role;
  int pid = 0;
  bool adopted = false;  // then nobody knows how: its exit status went to its new parent
  bool asked = false;    // we had told it to stop
  int exit_code = -1;    // -1: by a signal, or not known
  int signal = 0;
  std::string last_line;  // of its log
  milliseconds lived{0};
  std::string how() const;  // "exit code 2", "signal 9 (Killed)", "ended"
};

struct ChildView {
  std::string role;
  int pid = 0;
  bool adopted = false;
  bool stopping = false;
  milliseconds lived{0};
  std::vector<std::string> argv;
};

class Children {
 public:
  Children(boost::asio::io_context& io, config::StateDir state, LogFollower& logs);
  ~Children();
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;

  /// Called on the strand for each child that is gone; the record is removed by then.
  void on_end(std::function<void(const Ended&)> ended) { ended_ = std::move(ended); }
  /// One line for people.
  void on_say(std::function<void(std::string)> say) { say_ = std::move(say); }

  /// Starts `argv` as `role` and writes its record. An `order` that was carried out before (also by the supervisor
  /// before us) and still runs is answered with that pid: whoever lost the answer may ask again. Errors: io_error,
  /// no_space.
  Outcome<int> start(const std::string& role, std::vector<std::string> argv, std::vector<std::string> env,
                     const std::string& order = {});

  /// Reads all records: live processes become children, records of dead ones are removed.
  void adopt_recorded();

  /// SIGTERM now, SIGKILL after `grace` to it and what it started. Unknown pids are ignored.
  void stop(int pid, milliseconds grace);
  /// SIGKILL to it and what it started, at once; it does not count as told to stop. Unknown pids are ignored.
  void kill(int pid);
  /// SIGKILL to all, at once.
  void kill_all();

  int pid_of(std::string_view role) const;  // 0: no such child
  bool knows(int pid) const { return children_.contains(pid); }
  bool empty() const { return children_.empty(); }
  std::vector<ChildView> list() const;

  /// Stops waiting for signals and processes, so that the io_context runs dry.
  void shut_down();

 private:
  struct Child {
    ProcessRecord record;
    std::filesystem::path record_file;
    bool adopted = false;
    bool stopping = false;
    Instant since{};
    std::unique_ptr<boost::asio::posix::stream_descriptor> pidfd;
    std::unique_ptr<boost::asio::steady_timer> kill_timer;
  };
  void await_signal();
  void reap();
  Outcome<void> watch(Child& child);
  void gone(int pid, int status, bool status_known);
  void send(const Child& child, int signal);
  void kill_hard(const Child& child);
  std::filesystem::path free_record_file(const std::string& role, int pid) const;
  void keep_record(const Child& child);

  boost::asio::io_context& io_;
  config::StateDir state_;
  LogFollower& logs_;
  boost::asio::signal_set child_signal_;
  std::map<int, Child> children_;
  bool shut_ = false;
  std::function<void(const Ended&)> ended_;
  std::function<void(std::string)> say_;
};

}  // namespace gearbox::supervisor
