#include "plugin_host/build_book.hpp"

#include <gtest/gtest.h>

#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/plugin_host/scratch_folder.hpp"

namespace gearbox::plugin_host {
namespace {

std::string sum(char digit) {
  return std::string(64, digit);
}

Build build(char digit, const std::string& name = "moody") {
  return {"balancer", name, std::string("1.") + digit, sum(digit), 1000 + digit};
}

Bar bar_on(char digit, const std::string& name = "moody", const std::string& kind = "balancer") {
  return {kind, name, std::string("1.") + digit, sum(digit), "crashed node (SIGSEGV in pick)", 2000 + digit};
}

TEST(BuildBook, IsEmptyWithoutAFile) {
  const ScratchFolder folder;
  const auto book = read_book(folder.path());
  ASSERT_TRUE(book) << book.error().detail;
  EXPECT_TRUE(book.value().builds.empty());
  EXPECT_TRUE(book.value().bars.empty());
  EXPECT_TRUE(fs::is_empty(folder.path()));  // looking writes nothing
}

TEST(BuildBook, KeepsWhatWasWrittenForTheNextReader) {
  const ScratchFolder folder;
  ASSERT_TRUE(note_build(folder.path(), build('a')));
  ASSERT_TRUE(bar(folder.path(), bar_on('b')));
  const auto book = read_book(folder.path());
  ASSERT_TRUE(book);
  ASSERT_EQ(book.value().builds.size(), 1U);
  EXPECT_EQ(book.value().builds[0].kind, "balancer");
  EXPECT_EQ(book.value().builds[0].name, "moody");
  EXPECT_EQ(book.value().builds[0].version, "1.a");
  EXPECT_EQ(book.value().builds[0].since_unix_ms, 1000 + 'a');
  const Bar* barred = book.value().bar_of(sum('b'));
  ASSERT_NE(barred, nullptr);
  EXPECT_EQ(barred->reason, "crashed node (SIGSEGV in pick)");
  EXPECT_EQ(barred->since_unix_ms, 2000 + 'b');
  EXPECT_EQ(book.value().bar_of(sum('a')), nullptr);
  struct stat info {};
  ASSERT_EQ(::stat(book_file(folder.path()).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
}

TEST(BuildBook, KeepsTheLastRulingOnAPluginAndReleasesRefusals) {
  const ScratchFolder folder;
  Ruling ruling{"balancer", "moody", "1.b", sum('b'), sum('0'), true, "", 7};
  ASSERT_TRUE(note_ruling(folder.path(), ruling));
  ruling.passes = false;
  ruling.pair = sum('1');
  ruling.reason = "worse: p99_s 1 -> 2";
  ASSERT_TRUE(note_ruling(folder.path(), ruling));
  const auto book = read_book(folder.path());
  ASSERT_TRUE(book);
  ASSERT_EQ(book.value().rulings.size(), 1U);
  const Ruling* read = book.value().ruling_on("balancer", "moody");
  ASSERT_NE(read, nullptr);
  EXPECT_FALSE(read->passes);
  EXPECT_EQ(read->pair, sum('1'));
  EXPECT_EQ(read->checksum, sum('b'));
  EXPECT_EQ(read->reason, "worse: p99_s 1 -> 2");
  EXPECT_EQ(book.value().ruling_on("gear", "moody"), nullptr);
  std::size_t released = 0;
  const auto after = release(folder.path(), "balancer", "moody", released);
  ASSERT_TRUE(after);
  EXPECT_EQ(released, 1U);
  EXPECT_TRUE(after.value().rulings.empty());
  ruling.pair = "short";
  EXPECT_FALSE(note_ruling(folder.path(), ruling)) << "no question has such a name";
}

TEST(BuildBook, MovesAKnownBuildToTheEndAndKeepsItsTime) {
  const ScratchFolder folder;
  ASSERT_TRUE(note_build(folder.path(), build('a')));
  ASSERT_TRUE(note_build(folder.path(), build('b')));
  Build again = build('a');
  again.since_unix_ms = 99999;
  const auto book = note_build(folder.path(), again);
  ASSERT_TRUE(book);
  ASSERT_EQ(book.value().builds.size(), 2U);
  EXPECT_EQ(book.value().builds.back().checksum, sum('a'));
  EXPECT_EQ(book.value().builds.back().since_unix_ms, 1000 + 'a');
}

TEST(BuildBook, KeepsTheNewestBuildsOfEachPluginAndLetsBarredOnesGoFirst) {
  const ScratchFolder folder;
  ASSERT_TRUE(note_build(folder.path(), build('a')));
  ASSERT_TRUE(note_build(folder.path(), build('b')));
  ASSERT_TRUE(note_build(folder.path(), build('c')));
  ASSERT_TRUE(bar(folder.path(), bar_on('b')));
  ASSERT_TRUE(note_build(folder.path(), build('0', "other")));
  auto book = note_build(folder.path(), build('d'));
  ASSERT_TRUE(book);
  std::string kept;
  for (const Build& each : book.value().builds) kept += each.checksum[0];
  EXPECT_EQ(kept, "ac0d");
  book = note_build(folder.path(), build('e'));
  ASSERT_TRUE(book);
  kept.clear();
  for (const Build& each : book.value().builds) kept += each.checksum[0];
  EXPECT_EQ(kept, "c0de");
}

TEST(BuildBook, TheLastGoodBuildIsNeitherBarredNorTheOneInForce) {
  const ScratchFolder folder;
  ASSERT_TRUE(note_build(folder.path(), build('a')));
  ASSERT_TRUE(note_build(folder.path(), build('b')));
  ASSERT_TRUE(note_build(folder.path(), build('c')));
  ASSERT_TRUE(note_build(folder.path(), build('d', "other")));
  const auto book = bar(folder.path(), bar_on('b'));
  ASSERT_TRUE(book);
  const Build* good = book.value().last_good("balancer", "moody", sum('c'));
  ASSERT_NE(good, nullptr);
  EXPECT_EQ(good->checksum, sum('a'));
  EXPECT_EQ(book.value().last_good("balancer", "moody", "")->checksum, sum('c'));
  EXPECT_EQ(book.value().last_good("codec", "moody", ""), nullptr);
  EXPECT_EQ(book.value().last_good("balancer", "other", sum('d')), nullptr);
}

TEST(BuildBook, ASecondBarOfOneBuildChangesNothing) {
  const ScratchFolder folder;
  ASSERT_TRUE(bar(folder.path(), bar_on('a')));
  struct stat before {};
  ASSERT_EQ(::stat(book_file(folder.path()).c_str(), &before), 0);
  Bar second = bar_on('a');
  second.reason = "rolled back by hand";
  const auto book = bar(folder.path(), second);
  ASSERT_TRUE(book);
  ASSERT_EQ(book.value().bars.size(), 1U);
  EXPECT_EQ(book.value().bars[0].reason, "crashed node (SIGSEGV in pick)");
  struct stat behind {};
  ASSERT_EQ(::stat(book_file(folder.path()).c_str(), &behind), 0);
  EXPECT_EQ(before.st_ino, behind.st_ino);  // whoever watches the file is not woken
}

TEST(BuildBook, ReleaseTakesAwayTheBarsOfOneName) {
  const ScratchFolder folder;
  ASSERT_TRUE(bar(folder.path(), bar_on('a')));
  ASSERT_TRUE(bar(folder.path(), bar_on('b', "moody", "codec")));
  ASSERT_TRUE(bar(folder.path(), bar_on('c', "other")));
  std::size_t released = 7;
  ASSERT_TRUE(release(folder.path(), "codec", "moody", released));
  EXPECT_EQ(released, 1U);
  ASSERT_TRUE(release(folder.path(), "", "moody", released));
  EXPECT_EQ(released, 1U);
  const auto book = release(folder.path(), "", "moody", released);
  ASSERT_TRUE(book);
  EXPECT_EQ(released, 0U);
  ASSERT_EQ(book.value().bars.size(), 1U);
  EXPECT_EQ(book.value().bars[0].name, "other");
}

TEST(BuildBook, TheOldestBarsGiveWay) {
  const ScratchFolder folder;
  std::string text = R"({"gearbox_book":1,"bars":[)";
  for (std::size_t i = 0; i < kMostBars; ++i) {
    const std::string number = std::to_string(1000 + i);
    text +=
        (i == 0 ? "" : ",") + (R"({"kind":"codec","name":"n","checksum":")" + number + std::string(60, '0') + "\"}");
  }
  write_file(book_file(folder.path()), text + "]}");
  const auto book = bar(folder.path(), bar_on('a'));
  ASSERT_TRUE(book);
  EXPECT_EQ(book.value().bars.size(), kMostBars);
  EXPECT_EQ(book.value().bars.back().checksum, sum('a'));
  EXPECT_EQ(book.value().bars.front().checksum.substr(0, 4), "1001");
}

TEST(BuildBook, ADamagedFileIsSetAsideAndServiceGoesOn) {
  for (const std::string& damage :
       {std::string(), std::string(200, '\0'), std::string("{\"gearbox_book\":1,\"bars\":[{"), std::string("[]"),
        std::string("{\"gearbox_book\":2}"), std::string(100000, '['), std::string((4U << 20) + 1, ' ')}) {
    const ScratchFolder folder;
    write_file(book_file(folder.path()), damage);
    const auto book = read_book(folder.path());
    ASSERT_TRUE(book) << book.error().detail;
    EXPECT_TRUE(book.value().bars.empty());
    EXPECT_FALSE(fs::exists(book_file(folder.path())));
    EXPECT_EQ(content_of(folder / "book.json.damaged"), damage);
    ASSERT_TRUE(bar(folder.path(), bar_on('a')));
    EXPECT_NE(read_book(folder.path()).value().bar_of(sum('a')), nullptr);
  }
}

TEST(BuildBook, EntriesThatMakeNoSenseAreLeftOut) {
  const ScratchFolder folder;
  const std::string good = R"({"kind":"codec","name":"n","version":"1","checksum":")" + sum('a') + "\"}";
  write_file(book_file(folder.path()),
             R"({"gearbox_book":1,"builds":[7,{"kind":"codec","name":"../x","checksum":")" + sum('b') +
                 R"("},{"kind":"codec","name":"n","checksum":"../../etc/passwd"},)" + good + R"(],"bars":"none"})");
  const auto book = read_book(folder.path());
  ASSERT_TRUE(book);
  ASSERT_EQ(book.value().builds.size(), 1U);
  EXPECT_EQ(book.value().builds[0].checksum, sum('a'));
  EXPECT_TRUE(fs::exists(book_file(folder.path())));
  Build bad = build('a');
  bad.name = "../x";
  EXPECT_FALSE(note_build(folder.path(), bad));
}

TEST(BuildBook, TextOfStrangersIsBoundedAndPrintable) {
  const ScratchFolder folder;
  Bar loud = bar_on('a');
  loud.reason = "\x1b[31m" + std::string(5000, 'x');
  loud.version = std::string(5000, 'v');
  ASSERT_TRUE(bar(folder.path(), loud));
  const auto book = read_book(folder.path());
  ASSERT_TRUE(book);
  EXPECT_EQ(book.value().bars.at(0).reason.find('\x1b'), std::string::npos);
  EXPECT_LT(book.value().bars.at(0).reason.size(), 600U);
  EXPECT_LT(book.value().bars.at(0).version.size(), 100U);
}

TEST(BuildBook, WritersOfSeveralProcessesLoseNothing) {
  const ScratchFolder folder;
  constexpr int kWriters = 8;
  constexpr int kEach = 5;
  const char digits[] = "0123456789abcdef";
  std::vector<pid_t> writers;
  for (int writer = 0; writer < kWriters; ++writer) {
    const pid_t pid = ::fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      bool all = true;
      for (int i = 0; i < kEach; ++i) {
        Bar each = bar_on('a', "w" + std::to_string(writer));
        each.checksum[0] = digits[writer];
        each.checksum[1] = digits[i];
        all = bar(folder.path(), each).has_value() && all;
      }
      ::_exit(all ? 0 : 1);
    }
    writers.push_back(pid);
  }
  for (const pid_t pid : writers) {
    int status = 0;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, 0);
  }
  const auto book = read_book(folder.path());
  ASSERT_TRUE(book);
  EXPECT_EQ(book.value().bars.size(), std::size_t{kWriters} * kEach);
  EXPECT_FALSE(fs::exists(folder / "book.json.new"));
}

TEST(BuildBook, AWriterThatDiedWithTheLockHoldsUpNobody) {
  const ScratchFolder folder;
  const pid_t pid = ::fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    const int descriptor = ::open((folder / "book.lock").c_str(), O_RDWR | O_CREAT, 0600);
    ::_exit(descriptor >= 0 && ::flock(descriptor, LOCK_EX) == 0 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  ASSERT_EQ(status, 0);
  EXPECT_TRUE(bar(folder.path(), bar_on('a')));
}

}  // namespace
}  // namespace gearbox::plugin_host
