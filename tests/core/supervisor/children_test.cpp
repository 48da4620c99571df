#include "supervisor/children.hpp"

#include <gtest/gtest.h>

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>

#include "core/supervisor/scratch.hpp"

namespace gearbox::supervisor {
namespace {

struct Family {
  Scratch scratch;
  boost::asio::io_context io{1};
  LogFollower logs{[](std::string_view, std::string_view) {}, 1 << 20};
  Children children{io, scratch.state, logs};
  std::vector<Ended> ended;
  std::vector<std::string> said;
  Family() {
    children.on_end([this](const Ended& one) { ended.push_back(one); });
    children.on_say([this](std::string line) { said.push_back(std::move(line)); });
  }
  ~Family() {
    children.kill_all();
    EXPECT_TRUE(run_until(io, [this] { return children.empty(); }));
    children.shut_down();
  }
  int start(const std::string& role, const std::string& script, const std::string& order = {}) {
    const Outcome<int> pid = children.start(role, {"/bin/sh", "-c", script}, {"ADDED=yes"}, order);
    EXPECT_TRUE(pid) << (pid ? "" : pid.error().detail);
    return pid ? pid.value() : 0;
  }
  std::string log_of(const std::string& role) { return Scratch::read(scratch.state.log_file(role)); }
};

TEST(Children, TellsHowAChildEndedWithItsLastLine) {
  Family family;
  family.start("node", "echo first; echo the reason; exit 2");
  ASSERT_TRUE(run_until(family.io, [&] { return !family.ended.empty(); }));
  EXPECT_EQ(family.ended[0].exit_code, 2);
  EXPECT_EQ(family.ended[0].last_line, "the reason");
  EXPECT_EQ(family.ended[0].how(), "exit code 2");
  EXPECT_FALSE(std::filesystem::exists(family.scratch.state.process_record("node")));
}

TEST(Children, NamesTheSignalThatAChildEndedBy) {
  Family family;
  const int pid = family.start("worker-1", "kill -SEGV $$");
  EXPECT_EQ(family.children.end_of(pid), nullptr);
  ASSERT_TRUE(run_until(family.io, [&] { return !family.ended.empty(); }));
  EXPECT_EQ(family.ended[0].how(), "killed by signal 11 (SIGSEGV)");
  ASSERT_NE(family.children.end_of(pid), nullptr);
  EXPECT_EQ(family.children.end_of(pid)->how(), "killed by signal 11 (SIGSEGV)");
}

/// A folder that looks as cgroup v2 does where this process is alone in its group.
struct FamilyWithGroups : Family {
  std::filesystem::path base = scratch.path("cgroup");
  FamilyWithGroups() {
    std::filesystem::create_directories(base);
    Scratch::write(base / "cgroup.controllers", "memory\n");
    Scratch::write(base / "cgroup.procs", std::to_string(::getpid()) + "\n");
    children.use(MemoryGroups(GroupPlace{base, "/"}, "12345678"), {});
  }
  int start_limited(const std::string& script, std::uint64_t limit = 512U << 20) {
    const Outcome<int> pid = children.start("worker-1", {"/bin/sh", "-c", script}, {}, {}, limit);
    EXPECT_TRUE(pid) << (pid ? "" : pid.error().detail);
    return pid ? pid.value() : 0;
  }
  std::filesystem::path group_of(int pid) const { return base / ("gearbox-12345678-worker-1." + std::to_string(pid)); }
};

TEST(Children, AChildWithALimitRunsInAGroupOfItsOwn) {
  FamilyWithGroups family;
  const int pid = family.start_limited("kill -KILL $$");
  const std::filesystem::path group = family.group_of(pid);
  EXPECT_EQ(Scratch::read(group / "memory.max"), "671088640");
  EXPECT_EQ(Scratch::read(group / "cgroup.procs"), std::to_string(pid));
  const auto record = read_record(family.scratch.state.process_record("worker-1"));
  ASSERT_TRUE(record);
  EXPECT_EQ(record.value().cgroup, group.string());
  ASSERT_EQ(family.said.size(), 1U);
  EXPECT_TRUE(family.said[0].starts_with("memory limits: each worker with one has a cgroup of its own"));
  family.children.limit(pid, 1U << 20);
  EXPECT_EQ(Scratch::read(group / "memory.max"), "1310720");
  Scratch::write(group / "memory.events", "oom 1\noom_kill 1\n");  // what the kernel notes when it kills
  ASSERT_TRUE(run_until(family.io, [&] { return !family.ended.empty(); }));
  EXPECT_EQ(family.ended[0].how(), "took more than its memory limit of 1 MB");
  for (const auto& file : std::filesystem::directory_iterator(group)) std::filesystem::remove(file);
  family.children.sweep();
  EXPECT_FALSE(std::filesystem::exists(group));
}

TEST(Children, AKillByAnyoneElseIsNotPutDownToTheLimit) {
  FamilyWithGroups family;
  const int pid = family.start_limited("kill -KILL $$");
  Scratch::write(family.group_of(pid) / "memory.events", "oom 0\noom_kill 0\n");
  ASSERT_TRUE(run_until(family.io, [&] { return !family.ended.empty(); }));
  EXPECT_EQ(family.ended[0].how(), "killed by signal 9 (SIGKILL)");
}

TEST(Children, ALimitThatNoGroupCanKeepIsSaidOnceAndHindersNobody) {
  Family family;
  family.children.use(MemoryGroups(), "cgroup v2 is not mounted here");
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(family.children.start("worker-1", {"/bin/sh", "-c", "exit 3"}, {}, {}, 1U << 20));
  }
  EXPECT_EQ(family.said,
            std::vector<std::string>{"memory limits: resident memory is watched, for no cgroup can be made: "
                                     "cgroup v2 is not mounted here"});
  ASSERT_TRUE(run_until(family.io, [&] { return family.ended.size() == 2; }));
  EXPECT_EQ(family.ended[1].how(), "exit code 3");
}

TEST(Children, ALimitForOneThatWasStartedWithoutIsSaidToBeWatchedByTheNode) {
  FamilyWithGroups family;
  const int pid = family.start("worker-2", "exec sleep 300");
  family.children.limit(pid, 0);
  EXPECT_EQ(family.said, std::vector<std::string>{});
  family.children.limit(pid, 1U << 20);
  family.children.limit(pid, 2U << 20);
  EXPECT_EQ(family.said, std::vector<std::string>{
                             "the memory limit of worker-2 (pid " + std::to_string(pid) +
                             ") is watched by the node alone until it is started anew: it was started without one"});
  EXPECT_FALSE(std::filesystem::exists(family.base / ("gearbox-12345678-worker-2." + std::to_string(pid))));
}

TEST(Children, ALateLimitIsNotSaidAgainWhereNoGroupCanBeMadeAnyway) {
  Family family;
  family.children.use(MemoryGroups(), "cgroup v2 is not mounted here");
  EXPECT_TRUE(family.children.start("worker-1", {"/bin/sh", "-c", "exec sleep 300"}, {}, {}, 1U << 20));
  const int pid = family.start("worker-2", "exec sleep 300");
  family.children.limit(pid, 1U << 20);
  EXPECT_EQ(family.said.size(), 1U) << family.said.back();
}

TEST(Children, WhatAKilledSupervisorLeftOfGroupsIsRemovedByTheNext) {
  FamilyWithGroups family;
  const int own = family.start_limited("sleep 300");
  const std::filesystem::path unknown = family.base / "gearbox-12345678-worker-9.4711";
  std::filesystem::create_directory(unknown);  // its process had only just been forked
  const std::filesystem::path recorded = family.scratch.path("gearbox-12345678-worker-8.4710");
  std::filesystem::create_directory(recorded);  // by a supervisor that was in another place
  const ProcessRecord gone{.role = "worker-8",
                           .pid = 4710,
                           .start_time = 1,
                           .boot_id = own_boot_id(),
                           .argv = {"sleep"},
                           .exe = "/bin/sleep",
                           .order = "o",
                           .cgroup = recorded.string()};
  ASSERT_TRUE(write_record(family.scratch.state.process_record("worker-8"), gone));
  std::filesystem::remove(family.scratch.state.process_record("worker-1"));  // that one is known already
  family.children.adopt_recorded();
  EXPECT_FALSE(std::filesystem::exists(unknown));
  EXPECT_FALSE(std::filesystem::exists(recorded));
  EXPECT_TRUE(std::filesystem::exists(family.group_of(own))) << "of one that runs";
}

TEST(Children, GivesAChildNoDescriptorOfOurs) {
  Family family;
  int leak[2];
  ASSERT_EQ(::pipe(leak), 0);  // without close-on-exec, as a library might
  family.start("worker-1", "ls -l /proc/self/fd | grep -c pipe; echo $ADDED; test -t 0 || echo no terminal");
  ASSERT_TRUE(run_until(family.io, [&] { return !family.ended.empty(); }));
  // ls holds the pipe to grep itself: its own stdout, one line.
  EXPECT_EQ(family.log_of("worker-1"), "1\nyes\nno terminal\n");
  ::close(leak[0]);
  ::close(leak[1]);
}

TEST(Children, LeadASessionOfTheirOwnWithSignalsAsNew) {
  Family family;
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1);
  ::sigprocmask(SIG_BLOCK, &blocked, nullptr);
  ::signal(SIGUSR2, SIG_IGN);
  const int pid = family.start("worker-1", "grep -E 'Sig(Blk|Ign)' /proc/self/status; sleep 30");
  ::sigprocmask(SIG_UNBLOCK, &blocked, nullptr);
  ::signal(SIGUSR2, SIG_DFL);
  EXPECT_EQ(::getsid(pid), pid);
  ASSERT_TRUE(run_until(family.io, [&] { return family.log_of("worker-1").find("SigIgn") != std::string::npos; }));
  const std::string log = family.log_of("worker-1");
  EXPECT_NE(log.find("SigBlk:\t0000000000000000"), std::string::npos) << log;
  EXPECT_NE(log.find("SigIgn:\t0000000000000000"), std::string::npos) << log;
}

TEST(Children, StopsAndKillsWhatDoesNotStop) {
  Family family;
  const int pid = family.start("worker-1", "trap '' TERM; echo up; while :; do sleep 0.1; done");
  ASSERT_TRUE(run_until(family.io, [&] { return family.log_of("worker-1") == "up\n"; }));
  family.children.stop(pid, milliseconds(100));
  ASSERT_TRUE(run_until(family.io, [&] { return !family.ended.empty(); }));
  EXPECT_EQ(family.ended[0].signal, SIGKILL);
  EXPECT_TRUE(family.ended[0].asked);
}

TEST(Children, EndsWhatAChildLeavesBehind) {
  Family family;
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  family.start("worker-1", "sleep 300 & echo $!; exit 0");
  ASSERT_TRUE(run_until(family.io, [&] { return !family.ended.empty(); }));
  const int orphan = std::stoi(family.log_of("worker-1"));
  EXPECT_TRUE(run_until(family.io, [&] { return ::kill(orphan, 0) != 0; }));  // killed, and reaped by us
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

TEST(Children, CarriesOutAnOrderOnce) {
  Family family;
  const int pid = family.start("worker-1", "sleep 30", "order-1");
  EXPECT_EQ(family.start("worker-1", "sleep 30", "order-1"), pid);
  EXPECT_NE(family.start("worker-2", "sleep 30", "order-2"), pid);
  EXPECT_EQ(family.children.list().size(), 2U);
}

TEST(Children, SaysWhichProgramCannotBeStarted) {
  Family family;
  const Outcome<int> pid = family.children.start("worker-1", {"/no/such/program"}, {});
  ASSERT_FALSE(pid);
  EXPECT_NE(pid.error().detail.find("/no/such/program"), std::string::npos);
  EXPECT_TRUE(family.children.empty());
}

TEST(Children, AdoptsLiveProcessesOfRecordsAndForgetsDeadOnes) {
  Family family;
  // Somebody else's child: started by a process that is gone, as after kill -9 of a supervisor.
  int pipe_ends[2];
  ASSERT_EQ(::pipe(pipe_ends), 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::setsid();
      ::execl("/bin/sleep", "sleep", "300", nullptr);
      ::_exit(1);
    }
    [[maybe_unused]] const ssize_t wrote = ::write(pipe_ends[1], &child, sizeof(child));
    ::_exit(0);
  }
  pid_t left = 0;
  ASSERT_EQ(::read(pipe_ends[0], &left, sizeof(left)), static_cast<ssize_t>(sizeof(left)));
  ::close(pipe_ends[0]);
  ::close(pipe_ends[1]);
  ASSERT_TRUE(run_until(family.io, [&] { return executable_of(left).ends_with("sleep"); }));
  ProcessRecord record{.role = "node",
                       .pid = left,
                       .start_time = start_time_of(left).value(),
                       .boot_id = own_boot_id(),
                       .argv = {"sleep"},
                       .exe = executable_of(left),
                       .order = "o",
                       .cgroup = {}};
  ASSERT_TRUE(write_record(family.scratch.state.process_record("node"), record));
  record.role = "central";
  record.start_time += 1;  // its pid now belongs to somebody else
  ASSERT_TRUE(write_record(family.scratch.state.process_record("central"), record));

  family.children.adopt_recorded();
  EXPECT_EQ(family.children.pid_of("node"), left);
  EXPECT_EQ(family.children.pid_of("central"), 0);
  EXPECT_FALSE(std::filesystem::exists(family.scratch.state.process_record("central")));
  EXPECT_EQ(::kill(left, 0), 0);

  family.children.stop(left, seconds(5));
  ASSERT_TRUE(run_until(family.io, [&] { return !family.ended.empty(); }));
  EXPECT_TRUE(family.ended[0].adopted);
  EXPECT_EQ(family.ended[0].how(), "ended");
}

}  // namespace
}  // namespace gearbox::supervisor
