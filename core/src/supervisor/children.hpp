// children.hpp: all processes of this host's roles: started by us or by the supervisor before us, each with its record.
//
// One strand. Our own children are reaped on SIGCHLD, adopted ones are watched by pidfd. Being a sub-reaper we also
// reap what our children leave behind.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/state_dir.hpp"
#include "gearbox/base/clock.hpp"
#include "gearbox/base/outcome.hpp"
#include "supervisor/log_follower.hpp"
#include "supervisor/memory_groups.hpp"
#include "supervisor/process_record.hpp"

namespace gearbox::supervisor {

/// How a child ended.
struct Ended {
  std::string role;
  int pid = 0;
  bool adopted = false;  // then nobody knows how: its exit status went to its new parent
  bool asked = false;    // we had told it to stop
  bool killed = false;   // we did, after we had told it to stop
  int exit_code = -1;    // -1: by a signal, or not known
  int signal = 0;
  std::uint64_t outgrown = 0;  // the memory limit in bytes for which the kernel ended it; 0: not for that
  std::string last_line;       // of its log
  milliseconds lived{0};
  bool is_known() const { return exit_code >= 0 || signal != 0 || outgrown != 0; }
  std::string how() const;  // "exit code 2", "killed by signal 9 (SIGKILL)", "ended", ..
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

  /// Where workers with a memory limit get groups of their own; before anything is started or adopted. `why_not`: why
  /// there can be none, for people.
  void use(MemoryGroups groups, std::string why_not);

  /// Starts `argv` as `role` and writes its record. With a memory limit it gets a cgroup of its own where that can be
  /// had; where not, that is said once, and somebody else has to watch it. An `order` that was carried out before (also
  /// by the supervisor before us) and still runs is answered with that pid: whoever lost the answer may ask again.
  /// Errors: io_error, no_space.
  Outcome<int> start(const std::string& role, std::vector<std::string> argv, std::vector<std::string> env,
                     const std::string& order = {}, std::uint64_t memory_limit = 0);
  /// Another limit for one that has a cgroup. For one that has none, that is said once, and somebody else has to watch
  /// it until it is started anew. Unknown pids are ignored.
  void limit(int pid, std::uint64_t memory_limit);

  /// Reads all records: live processes become children, records of dead ones are removed.
  void adopt_recorded();

  /// SIGTERM now, SIGKILL after `grace` to it and what it started; again: another grace from now. Unknown pids are
  /// ignored.
  void stop(int pid, milliseconds grace);
  /// SIGKILL to it and what it started, at once; it does not count as told to stop. Unknown pids are ignored.
  void kill(int pid);
  /// SIGKILL to all, at once.
  void kill_all();

  int pid_of(std::string_view role) const;  // 0: no such child
  bool knows(int pid) const { return children_.contains(pid); }
  bool empty() const { return children_.empty(); }
  /// How a child that is gone ended; null: it is not known here, or too long ago.
  const Ended* end_of(int pid) const;
  /// Takes notice of those that have ended by now.
  void reap();
  /// Removes what is left of the cgroups of those that are gone.
  void sweep();
  std::vector<ChildView> list() const;

  /// When nothing runs any more: what was changed for limits is as it was found.
  void give_groups_back();

  /// Stops waiting for signals and processes, so that the io_context runs dry.
  void shut_down();

 private:
  struct Child {
    ProcessRecord record;
    std::filesystem::path record_file;
    bool adopted = false;
    bool stopping = false;
    bool late_limit_said = false;  // that its memory limit came too late for a cgroup
    bool killed = false;
    Instant since{};
    std::unique_ptr<boost::asio::posix::stream_descriptor> pidfd;
    std::unique_ptr<boost::asio::steady_timer> kill_timer;
  };
  void await_signal();
  Outcome<void> watch(Child& child);
  void gone(int pid, int status, bool status_known);
  void send(const Child& child, int signal);
  void kill_hard(const Child& child);
  std::filesystem::path free_record_file(const std::string& role, int pid) const;
  void keep_record(const Child& child);
  void make_group(Child& child, int pid, std::uint64_t memory_limit);
  bool is_ours(int pid) const;

  boost::asio::io_context& io_;
  config::StateDir state_;
  LogFollower& logs_;
  boost::asio::signal_set child_signal_;
  std::map<int, Child> children_;
  bool shut_ = false;
  std::deque<Ended> past_;  // the latest first
  MemoryGroups groups_;
  std::string no_groups_;
  std::optional<bool> limits_said_;               // that there are groups, or that there are none
  std::vector<std::filesystem::path> leftovers_;  // groups of those that are gone
  std::function<void(const Ended&)> ended_;
  std::function<void(std::string)> say_;
};

}  // namespace gearbox::supervisor
