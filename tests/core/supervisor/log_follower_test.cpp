#include "supervisor/log_follower.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "core/supervisor/scratch.hpp"

namespace gearbox::supervisor {
namespace {

struct Follow {
  Scratch scratch;
  std::vector<std::string> shown;
  std::filesystem::path file = scratch.state.log_file("node");
  LogFollower follower;
  explicit Follow(std::uint64_t limit = 1 << 20)
      : follower([this](std::string_view role,
                        std::string_view line) { shown.push_back(std::string(role) + "|" + std::string(line)); },
                 limit) {}
};

TEST(LogFollower, ShowsWholeLinesWrittenAfterItBegan) {
  Follow test;
  Scratch::write(test.file, "old\n");
  test.follower.follow("node", test.file);
  Scratch::write(test.file, "one\ntw");
  test.follower.poll();
  EXPECT_EQ(test.shown, std::vector<std::string>{"node|one"});
  Scratch::write(test.file, "o\n");
  test.follower.poll();
  EXPECT_EQ(test.shown.back(), "node|two");
  EXPECT_EQ(test.follower.last_line("node"), "two");
}

TEST(LogFollower, KeepsControlBytesFromTheTerminal) {
  Follow test;
  test.follower.follow("node", test.file);
  Scratch::write(test.file, "a\033[31mb\tc\r\n");
  test.follower.poll();
  EXPECT_EQ(test.shown, std::vector<std::string>{"node|a\\x1b[31mb\tc"});
}

TEST(LogFollower, CutsAnEndlessLine) {
  Follow test;
  test.follower.follow("node", test.file);
  Scratch::write(test.file, std::string(40000, 'x'));
  test.follower.poll();
  EXPECT_GE(test.shown.size(), 2U);
}

TEST(LogFollower, RotatesAndGoesOn) {
  Follow test(1000);
  test.follower.follow("node", test.file);
  std::ofstream writer(test.file, std::ios::app);  // as a child: it keeps its descriptor
  writer << std::string(1500, 'x') << '\n' << std::flush;
  test.follower.poll();
  EXPECT_EQ(std::filesystem::file_size(test.file), 0U);
  EXPECT_EQ(std::filesystem::file_size(test.file.string() + ".1"), 1501U);
  writer << "next\n" << std::flush;
  test.follower.poll();
  EXPECT_EQ(test.shown.back(), "node|next");
  EXPECT_EQ(Scratch::read(test.file), "next\n");
}

TEST(LogFollower, ShowsWhatIsWrittenWhileItRotates) {
  const Follow files;
  std::ofstream(files.file).flush();
  std::ofstream writer(files.file, std::ios::app);
  std::vector<std::string> shown;
  LogFollower follower(
      [&](std::string_view, std::string_view line) {
        shown.emplace_back(line.substr(0, 10));
        if (shown.size() < 4) writer << "late " << shown.size() << '\n' << std::flush;
      },
      1000);
  follower.follow("node", files.file);
  writer << std::string(1500, 'x') << '\n' << std::flush;
  follower.poll();
  follower.poll();
  EXPECT_EQ(shown, (std::vector<std::string>{"xxxxxxxxxx", "late 1", "late 2", "late 3"}));
  EXPECT_EQ(std::filesystem::file_size(files.file), 0U);
  EXPECT_EQ(Scratch::read(files.file.string() + ".1").size(), 1501U + 3 * 7);
}

TEST(LogFollower, LetsTheOldLogLiveWhenItCannotBeCopied) {
  Follow test(1000);
  test.follower.follow("node", test.file);
  std::filesystem::create_directory(test.file.string() + ".1.new");  // stands for a full disk: the copy cannot be made
  Scratch::write(test.file, std::string(1500, 'x') + "\n");
  test.follower.poll();
  EXPECT_EQ(std::filesystem::file_size(test.file), 1501U);
  const std::size_t told = test.shown.size();
  EXPECT_NE(test.shown.back().find("cannot be rotated"), std::string::npos);
  Scratch::write(test.file, "on\n");
  test.follower.poll();
  EXPECT_EQ(test.shown.size(), told + 1);
  EXPECT_EQ(test.shown.back(), "node|on");
}

TEST(LogFollower, TakesUpAFileThatWasDeletedAndMadeAnew) {
  Follow test;
  test.follower.follow("node", test.file);
  Scratch::write(test.file, "one\n");
  test.follower.poll();
  std::filesystem::remove(test.file);
  test.follower.poll();
  Scratch::write(test.file, "two\n");
  test.follower.poll();
  EXPECT_EQ(test.shown.back(), "node|two");
}

}  // namespace
}  // namespace gearbox::supervisor
