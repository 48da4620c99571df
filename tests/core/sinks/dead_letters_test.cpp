#include "sinks/dead_letters.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <boost/json/parse.hpp>
#include <csignal>
#include <fstream>
#include <iterator>

#include "support/temp_dir.hpp"

namespace gearbox::sinks {
namespace {

namespace fs = std::filesystem;

/// No file of this process grows beyond `bytes`, as on a disk that has no more room: a write ends in the middle.
class NoMoreRoom {
 public:
  explicit NoMoreRoom(rlim_t bytes) {
    before_ = std::signal(SIGXFSZ, SIG_IGN);
    EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &limit_), 0);
    const rlimit tight{bytes, limit_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &tight), 0);
  }
  ~NoMoreRoom() {
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &limit_), 0);
    std::signal(SIGXFSZ, before_);
  }
  NoMoreRoom(const NoMoreRoom&) = delete;
  NoMoreRoom& operator=(const NoMoreRoom&) = delete;

 private:
  rlimit limit_{};
  void (*before_)(int) = nullptr;
};

class DeadLettersTest : public ::testing::Test {
 protected:
  std::string text() const {
    std::ifstream in(letters_.file());
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void append(std::string_view more) const { std::ofstream(letters_.file(), std::ios::app) << more; }
  gearbox::testing::TempDir folder_;
  DeadLetters letters_{folder_.path(), 1 << 20};
};

TEST_F(DeadLettersTest, AreLinesOfJsonAndBounded) {
  letters_.limit(4000);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(letters_.add({R"({"a":1})"}, "it \"was\" refused"));
  std::uint64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(folder_.path())) bytes += entry.file_size();
  EXPECT_LE(bytes, 4000U);
  EXPECT_TRUE(fs::exists(folder_.path() / "dead.ndjson.1"));
  std::ifstream file(letters_.file());
  std::string line;
  ASSERT_TRUE(std::getline(file, line));
  EXPECT_NE(line.find(R"("why":"it \"was\" refused","event":{"a":1}})"), std::string::npos) << line;
}

TEST_F(DeadLettersTest, SayWhyTheyCannotBeWritten) {
  DeadLetters nowhere("/nowhere/at/all", 4000);
  const auto added = nowhere.add({"{}"}, "why");
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code, Errc::io_error);
}

TEST_F(DeadLettersTest, AFullDiskLeavesNoTornLine) {
  ASSERT_TRUE(letters_.add({R"({"first":1})"}, "why"));
  const std::string before = text();
  const std::string large = "\"" + std::string(2000, 'x') + "\"";
  {
    const NoMoreRoom full(before.size() + 1000);
    EXPECT_FALSE(letters_.add({large}, "why"));
  }
  EXPECT_EQ(text(), before) << "not a byte of the one that did not fit";
  {
    const NoMoreRoom full(before.size() + 3000);
    EXPECT_FALSE(letters_.add({large, large}, "why"));
  }
  EXPECT_EQ(text(), before) << "of several, none";
  ASSERT_TRUE(letters_.add({R"({"second":2})"}, "why"));
  EXPECT_EQ(std::ranges::count(text(), '\n'), 2);
}

TEST_F(DeadLettersTest, TheRestOfALineThatWasCutGoesBeforeTheNextOne) {
  ASSERT_TRUE(letters_.add({R"({"first":1})"}, "why"));
  const std::string before = text();
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{10'000}}) {
    append(std::string(bytes, 'x'));  // a kill, or a power cut, in the middle of a write
    ASSERT_TRUE(letters_.add({R"({"second":2})"}, "why"));
    EXPECT_THAT(text(), ::testing::StartsWith(before + "{"));
  }
  EXPECT_EQ(std::ranges::count(text(), '\n'), 3);
  std::ifstream file(letters_.file());
  for (std::string line; std::getline(file, line);) {
    boost::system::error_code wrong;
    boost::json::parse(line, wrong);
    EXPECT_FALSE(wrong) << line;
  }
}

TEST_F(DeadLettersTest, AFileWithoutAWholeLineBeginsAnew) {
  append("{\"at_unix");
  ASSERT_TRUE(letters_.add({"{}"}, "why"));
  EXPECT_THAT(text(), ::testing::StartsWith("{\"at_unix_ms\":"));
  EXPECT_EQ(std::ranges::count(text(), '\n'), 1);
}

}  // namespace
}  // namespace gearbox::sinks
