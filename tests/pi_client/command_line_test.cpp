// The program itself: exit codes, what goes to which stream, and enrolment.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cstdio>

#include "support.hpp"

namespace gearbox::client {
namespace {

struct Ran {
  int code = -1;
  std::string out;  // both streams where the command joins them
};

Ran run(const std::string& arguments) {
  Ran result;
  const std::string command = std::string(GEARBOX_PI_CLIENT) + " " + arguments;
  std::FILE* pipe = ::popen(command.c_str(), "re");
  if (pipe == nullptr) return result;
  char buffer[4096];
  while (const std::size_t got = std::fread(buffer, 1, sizeof buffer, pipe)) result.out.append(buffer, got);
  const int status = ::pclose(pipe);
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

std::string at(const test::FakeNode& fake) {
  return " --central " + fake.central_url() + " --server-key " + to_hex(fake.central_key()) + " --user anna";
}

TEST(CommandLine, EnrolsWithAPasswordFileAndThenSends) {
  test::FakeNode fake({});
  const ScratchFolder scratch;
  const std::string keys = " --keys " + (scratch.path() / "keys").string();
  const std::string password = scratch.file("password", "right\n");
  const Ran enrolled = run("enrol" + at(fake) + keys + " --device barn-2 --password-file " + password + " 2>&1");
  EXPECT_EQ(enrolled.code, 0) << enrolled.out;
  struct stat status {};
  ASSERT_EQ(::stat((scratch.path() / "keys/device.key").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);

  const Ran key = run("key show" + keys);
  EXPECT_EQ(key.code, 0);
  EXPECT_EQ(key.out.size(), 65U);
  EXPECT_NE(enrolled.out.find(key.out.substr(0, 64)), std::string::npos);

  const std::string picture = scratch.file("a.ppm", noise_picture(40, 40));
  const Ran sent = run("send" + at(fake) + keys + " --task echo " + picture + " 2>/dev/null");
  EXPECT_EQ(sent.code, 0);
  EXPECT_EQ(sent.out, "image 4800 of 4800\n");
  const Ran quiet = run("send" + at(fake) + keys + " --task echo --quiet " + picture + " 2>&1");
  EXPECT_EQ(quiet.out, "image 4800 of 4800\n");
  fake.stop();
  EXPECT_EQ(fake.counts().enrolled, std::vector<std::string>{"anna/barn-2/right"});
}

TEST(CommandLine, AWrongPasswordIsExitCode1AndSaysSo) {
  test::FakeNode fake({});
  const ScratchFolder scratch;
  const Ran enrolled = run("enrol" + at(fake) + " --keys " + (scratch.path() / "keys").string() +
                           " --password-file - 2>&1 <<'EOF'\nwrong\nEOF\n");
  EXPECT_EQ(enrolled.code, 1);
  EXPECT_NE(enrolled.out.find("auth_failed"), std::string::npos) << enrolled.out;
}

TEST(CommandLine, AnEmptyPasswordIsNotSent) {
  test::FakeNode fake({});
  const ScratchFolder scratch;
  const Ran enrolled =
      run("enrol" + at(fake) + " --keys " + scratch.path().string() + " --password-file /dev/null 2>&1");
  EXPECT_EQ(enrolled.code, 2);
  EXPECT_NE(enrolled.out.find("empty"), std::string::npos) << enrolled.out;
}

TEST(CommandLine, WithoutAKeyItSaysWhatToDo) {
  test::FakeNode fake({});
  const ScratchFolder scratch;
  const Ran sent = run("send" + at(fake) + " --keys " + scratch.path().string() + " --task echo x.jpg 2>&1");
  EXPECT_EQ(sent.code, 2);
  EXPECT_NE(sent.out.find("pi_client enrol"), std::string::npos) << sent.out;
}

TEST(CommandLine, WrongUsageIsExitCode2) {
  EXPECT_EQ(run("2>&1").code, 2);
  EXPECT_EQ(run("send 2>&1").code, 2);
  EXPECT_EQ(run("--version").code, 0);
}

TEST(CommandLine, AResultThatCannotBeWrittenIsAFailure) {
  test::FakeNode fake({});
  Device device(fake);
  const std::string picture = device.scratch.file("a.ppm", noise_picture(40, 40));
  const Ran sent =
      run("send" + at(fake) + " --keys " + device.options.keys + " --task echo " + picture + " 2>/dev/null >/dev/full");
  EXPECT_EQ(sent.code, 1);
}

}  // namespace
}  // namespace gearbox::client
