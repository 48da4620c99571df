#include "supervisor/process_record.hpp"

#include <gtest/gtest.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/supervisor/scratch.hpp"

namespace gearbox::supervisor {
namespace {

ProcessRecord of_this_process() {
  ProcessRecord record;
  record.role = "worker-3";
  record.pid = ::getpid();
  record.start_time = start_time_of(record.pid).value();
  record.boot_id = own_boot_id();
  record.argv = {"/usr/bin/x", "--y", "a b\n\"c\""};
  record.exe = executable_of(record.pid);
  record.order = "0123";
  return record;
}

TEST(ProcessRecord, ReadsWhatItWrote) {
  Scratch scratch;
  const ProcessRecord record = of_this_process();
  ASSERT_TRUE(write_record(scratch.path("r.json"), record));
  const Outcome<ProcessRecord> read = read_record(scratch.path("r.json"));
  ASSERT_TRUE(read);
  EXPECT_EQ(read.value().role, record.role);
  EXPECT_EQ(read.value().pid, record.pid);
  EXPECT_EQ(read.value().start_time, record.start_time);
  EXPECT_EQ(read.value().argv, record.argv);
  EXPECT_EQ(read.value().exe, record.exe);
  EXPECT_EQ(read.value().order, record.order);
}

TEST(ProcessRecord, TakesOnlyTheVeryProcessForIt) {
  ProcessRecord record = of_this_process();
  EXPECT_TRUE(still_runs(record));
  record.start_time += 1;  // somebody else under the same pid
  EXPECT_FALSE(still_runs(record));
  record = of_this_process();
  record.boot_id = "another boot";
  EXPECT_FALSE(still_runs(record));
  record = of_this_process();
  record.exe = "/usr/bin/true";
  EXPECT_FALSE(still_runs(record));
  record = of_this_process();
  record.pid = 1;
  EXPECT_FALSE(still_runs(record));
}

TEST(ProcessRecord, RefusesDamagedFiles) {
  Scratch scratch;
  for (const std::string& text :
       {std::string(), std::string(64, '\0'), std::string(R"({"role":"node","pid":)"),
        std::string(R"({"role":"node","pid":"7"})"), std::string(R"({"role":"node","pid":-4})"), std::string("[1]")}) {
    Scratch::write(scratch.path("r.json"), text, false);
    EXPECT_FALSE(read_record(scratch.path("r.json"))) << text;
  }
}

TEST(ProcessRecord, TellsAProcessThatWasJustKilledFromOneThatRuns) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::execl("/bin/sleep", "sleep", "300", nullptr);
    ::_exit(1);
  }
  EXPECT_FALSE(ends_soon(pid));
  ::kill(pid, SIGKILL);
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT), 0);
  EXPECT_TRUE(ends_soon(pid));  // not reaped yet
  ::waitpid(pid, nullptr, 0);
  EXPECT_TRUE(ends_soon(pid));
}

}  // namespace
}  // namespace gearbox::supervisor
