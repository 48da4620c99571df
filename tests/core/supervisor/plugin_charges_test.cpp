#include "supervisor/plugin_charges.hpp"

#include <gtest/gtest.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>

#include "core/supervisor/scratch.hpp"
#include "plugin_host/build_book.hpp"
#include "serving/exit_codes.hpp"

namespace gearbox::supervisor {
namespace {

using plugin_host::CallRecord;

class PluginChargesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto created = CallRecord::create(scratch.state.calling_record("node"));
    ASSERT_TRUE(created);
    record = std::move(created).value();
  }
  /// A call of the build whose checksum is all `digit`, under way until the test's end.
  void call(char digit, Instant begun, Instant hung_after = Instant::max(), const char* kind = "balancer",
            const char* function = "pick") {
    const auto label = CallRecord::label(kind, std::string("plugin-") + digit, "1.0", std::string(64, digit));
    marks.push_back(std::make_unique<CallRecord::Mark>(*record, label, function, begun, hung_after));
  }
  static Ended end_by(int signal, int exit_code = -1) {
    Ended ended;
    ended.role = "node";
    ended.pid = 4711;
    ended.signal = signal;
    ended.exit_code = exit_code;
    return ended;
  }
  plugin_host::BuildBook book() {
    const auto read = plugin_host::read_book(scratch.state.plugin_copies());
    EXPECT_TRUE(read);
    return read ? read.value() : plugin_host::BuildBook();
  }
  /// The one build that is barred: its digit; 0 when there is none.
  char barred() {
    const auto bars = book().bars;
    EXPECT_LE(bars.size(), 1U);
    return bars.empty() ? '\0' : bars[0].checksum[0];
  }

  Scratch scratch;
  std::shared_ptr<CallRecord> record;
  std::vector<std::unique_ptr<CallRecord::Mark>> marks;  // gone before the record
  PluginCharges charges{scratch.state};
  const Instant now = Clock::now();
};

TEST_F(PluginChargesTest, ACrashIsChargedToTheCallThatBeganLast) {
  call('a', now - seconds(3));
  call('b', now - seconds(1));
  call('c', now - seconds(2));
  const auto verdict = charges.role_ended(end_by(SIGSEGV));
  EXPECT_TRUE(verdict.to_blame);
  EXPECT_TRUE(verdict.at_once);
  EXPECT_EQ(verdict.line, "plugin plugin-b 1.0 (balancer, bbbbbbbbbbbb) crashed node (SIGSEGV in pick) and is barred");
  ASSERT_EQ(book().bars.size(), 1U);
  EXPECT_EQ(book().bars[0].name, "plugin-b");
  EXPECT_EQ(book().bars[0].kind, "balancer");
  EXPECT_EQ(book().bars[0].reason, "crashed node (SIGSEGV in pick)");
  EXPECT_GT(book().bars[0].since_unix_ms, 1'600'000'000'000);
}

TEST_F(PluginChargesTest, EachCrashSignalAndEachExitIsTheRolesOwnDoing) {
  char digit = '0';
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS, SIGTRAP}) {
    record = CallRecord::create(scratch.state.calling_record("node")).value();
    call(digit++, now);
    EXPECT_TRUE(charges.role_ended(end_by(signal)).to_blame) << signal;
    marks.clear();
  }
  for (const int exit_code : {0, 1, 2, 77}) {
    record = CallRecord::create(scratch.state.calling_record("node")).value();
    call(digit == ':' ? digit = 'a' : digit, now);
    ++digit;
    const auto verdict = charges.role_ended(end_by(0, exit_code));
    EXPECT_TRUE(verdict.at_once) << exit_code;
    EXPECT_NE(verdict.line.find("ended node (exit code " + std::to_string(exit_code) + " in pick)"), std::string::npos);
    marks.clear();
  }
}

TEST_F(PluginChargesTest, WhatComesFromOutsideChargesNobody) {
  for (const int signal : {SIGKILL, SIGTERM, SIGINT, SIGHUP, SIGPIPE}) {
    record = CallRecord::create(scratch.state.calling_record("node")).value();
    call('a', now);
    EXPECT_FALSE(charges.role_ended(end_by(signal)).to_blame) << signal;
    marks.clear();
  }
  record = CallRecord::create(scratch.state.calling_record("node")).value();
  call('a', now);
  Ended asked = end_by(SIGSEGV);
  asked.asked = true;
  EXPECT_FALSE(charges.role_ended(asked).to_blame);
  marks.clear();
  record = CallRecord::create(scratch.state.calling_record("node")).value();
  call('a', now);
  Ended unknown = end_by(0);  // of an adopted role nothing else is known
  unknown.adopted = true;
  EXPECT_FALSE(charges.role_ended(unknown).to_blame);
  EXPECT_EQ(barred(), '\0');
}

TEST_F(PluginChargesTest, AnEndBecauseTheLeadWasLostChargesNobodyWhateverCallWasUnderWay) {
  call('a', now);
  const auto verdict = charges.role_ended(end_by(0, serving::kExitLeadLost));
  EXPECT_FALSE(verdict.to_blame) << verdict.line;
  EXPECT_EQ(barred(), '\0');
}

TEST_F(PluginChargesTest, ACrashOutsideOfCallsChargesNobody) {
  EXPECT_FALSE(charges.role_ended(end_by(SIGSEGV)).to_blame);
  EXPECT_EQ(barred(), '\0');
}

TEST_F(PluginChargesTest, AMissingOrDamagedRecordChargesNobody) {
  call('a', now);
  const auto file = scratch.state.calling_record("node");
  Scratch::write(file, "not a record", false);
  EXPECT_FALSE(charges.look("node", ::getpid(), now).to_blame);
  EXPECT_FALSE(charges.role_ended(end_by(SIGSEGV)).to_blame);
  EXPECT_FALSE(std::filesystem::exists(file));
  EXPECT_FALSE(charges.look("node", ::getpid(), now).to_blame);
  EXPECT_FALSE(charges.role_ended(end_by(SIGSEGV)).to_blame);
  EXPECT_EQ(barred(), '\0');
  marks.clear();
}

TEST_F(PluginChargesTest, WhatAnEarlierLifeLeftIsForgotten) {
  call('a', now);
  charges.role_starts("node");
  EXPECT_FALSE(charges.role_ended(end_by(SIGSEGV)).to_blame);
  EXPECT_EQ(barred(), '\0');
}

TEST_F(PluginChargesTest, AConnectIsNotToBlameWhileOtherCallsAreUnderWay) {
  call('a', now - seconds(2));
  call('b', now - seconds(1), now - seconds(1), "transport", "connect");
  EXPECT_FALSE(charges.look("node", ::getpid(), now).to_blame);
  EXPECT_FALSE(charges.look("node", ::getpid(), now).to_blame);
  EXPECT_TRUE(charges.role_ended(end_by(SIGSEGV)).to_blame);
  EXPECT_EQ(barred(), 'a');
}

TEST_F(PluginChargesTest, AConnectAloneIsToBlame) {
  call('b', now - seconds(1), Instant::max(), "transport", "connect");
  EXPECT_TRUE(charges.role_ended(end_by(SIGSEGV)).to_blame);
  EXPECT_EQ(barred(), 'b');
}

TEST_F(PluginChargesTest, ABuildThatWasBarredBeforeIsNoReasonToHurry) {
  call('a', now);
  EXPECT_TRUE(charges.role_ended(end_by(SIGSEGV)).at_once);
  marks.clear();
  record = CallRecord::create(scratch.state.calling_record("node")).value();
  call('a', now);
  const auto verdict = charges.role_ended(end_by(SIGSEGV));
  EXPECT_TRUE(verdict.to_blame);
  EXPECT_FALSE(verdict.at_once);  // the role took it all the same: without a pause this would go round and round
  EXPECT_NE(verdict.line.find("although it is barred"), std::string::npos);
}

TEST_F(PluginChargesTest, ACallThatIsPastItsTimeAtTwoLooksHangs) {
  call('a', now - seconds(10), now);
  EXPECT_FALSE(charges.look("node", ::getpid(), now).to_blame);  // not past it yet
  EXPECT_FALSE(charges.look("node", ::getpid(), now + seconds(1)).to_blame);
  EXPECT_EQ(barred(), '\0');
  const auto verdict = charges.look("node", ::getpid(), now + seconds(2));
  EXPECT_TRUE(verdict.to_blame);
  EXPECT_EQ(book().bars.at(0).reason, "hung node (pick did not return for 10 s)");
  EXPECT_FALSE(charges.look("node", ::getpid(), now + seconds(3)).to_blame);  // once
  EXPECT_FALSE(charges.look("node", ::getpid(), now + seconds(4)).to_blame);
  Ended ended = end_by(SIGKILL);
  ended.pid = ::getpid();
  EXPECT_TRUE(charges.role_ended(ended).at_once);
  EXPECT_FALSE(charges.role_ended(ended).at_once);  // the next one is a kill like any other
}

TEST_F(PluginChargesTest, AnotherCallAtTheSecondLookIsNoHang) {
  call('a', now - seconds(10), now - seconds(1));
  EXPECT_FALSE(charges.look("node", ::getpid(), now).to_blame);
  marks.clear();
  call('a', now - seconds(10), now - seconds(1));
  EXPECT_FALSE(charges.look("node", ::getpid(), now).to_blame);
  marks.clear();
  EXPECT_FALSE(charges.look("node", ::getpid(), now).to_blame);
  call('a', now - seconds(10), now - seconds(1));
  EXPECT_FALSE(charges.look("node", ::getpid(), now).to_blame);
  EXPECT_EQ(barred(), '\0');
}

TEST_F(PluginChargesTest, ACallWithoutAnEndNeverHangs) {
  call('a', now - seconds(10), Instant::max());
  EXPECT_FALSE(charges.look("node", ::getpid(), now + std::chrono::hours(1000)).to_blame);
  EXPECT_FALSE(charges.look("node", ::getpid(), now + std::chrono::hours(1001)).to_blame);
}

TEST_F(PluginChargesTest, AStoppedProcessDoesNotHang) {
  const pid_t pid = ::fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    for (;;) ::pause();
  }
  call('a', now - seconds(10), now - seconds(1));
  ASSERT_EQ(::kill(pid, SIGSTOP), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, WUNTRACED), pid);
  ASSERT_TRUE(WIFSTOPPED(status));
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(charges.look("node", pid, now).to_blame);
  ASSERT_EQ(::kill(pid, SIGCONT), 0);
  ASSERT_EQ(::waitpid(pid, &status, WCONTINUED), pid);
  EXPECT_FALSE(charges.look("node", pid, now).to_blame);  // it gets a second to go on
  EXPECT_TRUE(charges.look("node", pid, now).to_blame);
  ::kill(pid, SIGKILL);
  ::waitpid(pid, &status, 0);
}

}  // namespace
}  // namespace gearbox::supervisor
