#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture_files.hpp"
#include "plugin_host/check_child.hpp"
#include "support/temp_dir.hpp"

namespace gearbox::plugin_host {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

class CheckInChild : public ::testing::Test {
 protected:
  std::string reason_of(const fs::path& file) {
    const auto checked = check_in_child(file, GEARBOX_CHECKER);
    if (checked) return {};
    EXPECT_EQ(checked.error().code, Errc::bad_plugin);
    return checked.error().detail;
  }
  std::string reason_of_content(const std::string& content) {
    return reason_of(write_file(temp_.path() / "p.so", content));
  }
  std::string moody_with(std::string_view mood) { return patched(content_of(fixture("moody_a")), "mood:good", mood); }
  gearbox::testing::TempDir temp_;
};

TEST_F(CheckInChild, TellsWhatAGoodPluginSaysOfItself) {
  const auto checked = check_in_child(fixture("moody_a"), GEARBOX_CHECKER);
  ASSERT_TRUE(checked) << checked.error().detail;
  EXPECT_EQ(checked.value().name, "moody");
  EXPECT_EQ(checked.value().kind, "balancer");
  EXPECT_EQ(checked.value().version, "1.0-a");
  EXPECT_EQ(checked.value().summary, "for tests");
  ASSERT_EQ(checked.value().options.size(), 2U);
  EXPECT_EQ(checked.value().options[1].key, "limit");
  EXPECT_EQ(checked.value().options[1].type, "integer");
  EXPECT_EQ(checked.value().options[1].fallback, "7");
  EXPECT_EQ(checked.value().options[1].lowest, 1);
  EXPECT_EQ(checked.value().options[1].highest, 9);
}

TEST_F(CheckInChild, EveryShippedPluginPasses) {
  std::size_t seen = 0;
  for (const auto& entry : fs::directory_iterator(GEARBOX_SHIPPED)) {
    ++seen;
    EXPECT_EQ(reason_of(entry.path()), "") << entry.path();
  }
  EXPECT_GE(seen, 3U);
}

TEST_F(CheckInChild, NamesTheSignalOfStartUpCodeThatCrashes) {
  EXPECT_THAT(reason_of(fixture("constructor_aborts")), HasSubstr("SIGABRT"));
  EXPECT_THAT(reason_of(fixture("constructor_throws")), HasSubstr("SIGABRT"));
  EXPECT_THAT(reason_of(fixture("constructor_crashes")), HasSubstr("SIGSEGV"));
}

TEST_F(CheckInChild, StartUpCodeThatEndsTheProcessQuietlyIsNoSuccess) {
  EXPECT_THAT(reason_of(fixture("constructor_exits")), HasSubstr("ended its check by itself with exit code 0"));
}

TEST_F(CheckInChild, StartUpCodeThatHangsIsKilled) {
  EXPECT_THAT(reason_of(fixture("constructor_hangs")), HasSubstr("hangs"));
}

TEST_F(CheckInChild, NamesAMissingSymbol) {
  EXPECT_THAT(reason_of(fixture("undefined")), HasSubstr("gearbox_missing_symbol"));
}

TEST_F(CheckInChild, RefusesAnEntryThatIsNoDescriptor) {
  EXPECT_THAT(reason_of(fixture("blank_entry")), HasSubstr("wrong magic"));
}

TEST_F(CheckInChild, RefusesOtherInterfaceVersions) {
  const std::string good = content_of(fixture("moody_a"));
  for (const std::uint32_t api : {plugin::kBalancerApi - 1, plugin::kBalancerApi + 1, 0xFFFFFFFFU}) {
    EXPECT_THAT(reason_of_content(with_descriptor_u32(good, 16, api)),
                HasSubstr("was built for version " + std::to_string(api) + " of the balancer interface"));
  }
}

TEST_F(CheckInChild, RefusesOtherKindsAndSizes) {
  const std::string good = content_of(fixture("moody_a"));
  EXPECT_THAT(reason_of_content(with_descriptor_u32(good, 12, 99)), HasSubstr("is of kind 99"));
  EXPECT_THAT(reason_of_content(with_descriptor_u32(good, 8, 16)), HasSubstr("descriptor has 16 bytes"));
}

TEST_F(CheckInChild, RefusesAnotherAbi) {
  EXPECT_THAT(reason_of_content(patched(content_of(fixture("moody_a")), "-cxx11abi1", "-cxx11abi0")),
              HasSubstr("was built for another ABI"));
}

TEST_F(CheckInChild, RefusesAMakeThatThrowsOrGivesNothing) {
  EXPECT_THAT(reason_of_content(moody_with("mood:make")), HasSubstr("threw while it was made: cannot be made"));
  EXPECT_THAT(reason_of_content(moody_with("mood:null")), HasSubstr("gave no object"));
  EXPECT_THAT(reason_of_content(moody_with("mood:undc")), HasSubstr("undeclared option"));
}

TEST_F(CheckInChild, RefusesABalancerThatThrowsOrPicksWhatIsNotThere) {
  EXPECT_THAT(reason_of_content(moody_with("mood:thrw")), HasSubstr("threw: not today"));
  EXPECT_THAT(reason_of_content(moody_with("mood:none")), HasSubstr("which is no candidate"));
}

TEST_F(CheckInChild, WhatAPluginPrintsIsNotTakenForTheAnswer) {
  const auto checked = check_in_child(write_file(temp_.path() / "p.so", moody_with("mood:prnt")), GEARBOX_CHECKER);
  ASSERT_TRUE(checked) << checked.error().detail;
  EXPECT_EQ(checked.value().name, "moody");
}

TEST_F(CheckInChild, RefusesWhatIsNoFile) {
  EXPECT_NE(reason_of(temp_.path() / "none.so"), "");
  EXPECT_THAT(reason_of(temp_.path()), HasSubstr("is not a regular file"));
}

TEST_F(CheckInChild, SaysThatItCouldNotCheckWithoutAChecker) {
  const auto checked = check_in_child(fixture("moody_a"), temp_.path() / "none");
  ASSERT_FALSE(checked);
  EXPECT_THAT(checked.error().detail, HasSubstr("could not be checked"));
}

TEST_F(CheckInChild, AProgramThatPrintsSomethingElseIsNoChecker) {
  EXPECT_THAT(check_in_child(fixture("moody_a"), "/bin/echo").error().detail, HasSubstr("printed no result"));
  EXPECT_THAT(check_in_child(fixture("moody_a"), "/bin/true").error().detail, HasSubstr("exit code 0"));
}

TEST_F(CheckInChild, LeavesNoChildAndNoDescriptorBehind) {
  const auto open_descriptors = [] {
    return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
  };
  const auto before = open_descriptors();
  EXPECT_NE(reason_of(fixture("constructor_aborts")), "");
  EXPECT_EQ(reason_of(fixture("moody_b")), "");
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
}

TEST_F(CheckInChild, TheChildInheritsOnlyTheStandardDescriptors) {
  // A stand-in for the checker that lists its descriptors; the last one is that of ls on the folder it lists.
  const int inherited = ::open("/dev/null", O_RDONLY);  // not close-on-exec
  ASSERT_GE(inherited, 3);
  const fs::path list = temp_.path() / "list";
  const fs::path script =
      write_file(temp_.path() / "checker", "#!/bin/sh\nexec ls /proc/self/fd > " + list.string() + "\n");
  static_cast<void>(check_in_child(fixture("moody_a"), script));
  ::close(inherited);
  EXPECT_EQ(content_of(list), "0\n1\n2\n3\n");
}

TEST(CheckJson, TellsAReasonThroughTheLine) {
  const auto back = from_json_line(to_json_line(Error{Errc::bad_plugin, "is \"bad\"\n"}));
  ASSERT_FALSE(back);
  EXPECT_EQ(back.error().detail, "is \"bad\"\\x0a");
}

TEST(CheckJson, RefusesLinesThatAreNone) {
  for (const char* line :
       {"", "x", "[]", "{}", "{\"ok\":1}", "{\"ok\":true}", "{\"ok\":true,\"name\":\"../x\",\"kind\":\"codec\"}",
        "{\"ok\":true,\"name\":\"x\",\"kind\":\"codec\",\"options\":[1]}"}) {
    EXPECT_FALSE(from_json_line(line)) << line;
  }
}

}  // namespace
}  // namespace gearbox::plugin_host
