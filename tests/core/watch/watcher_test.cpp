#include "watch/watcher.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <future>

#include "support/temp_dir.hpp"

namespace gearbox::watch {
namespace {

namespace fs = std::filesystem;

constexpr milliseconds kLong{600'000};  // longer than the test may run: what ends a wait was no poll
constexpr seconds kWithin{20};

Instant far() {
  return Clock::now() + kLong;
}

class WatcherTest : public ::testing::Test {
 protected:
  std::unique_ptr<Watcher> make(WatcherOptions options = {.poll = kLong}) {
    auto made = Watcher::create([this] { return folders_; }, options);
    EXPECT_TRUE(made) << made.error().detail;
    return std::move(made).value();
  }
  /// A wait in another thread, since one that never ends must not be the end of the test.
  static std::future<bool> waiting(Watcher& watcher) {
    return std::async(std::launch::async, [&watcher] { return watcher.wait(far()); });
  }
  /// True when it ended in time; else it is ended here.
  static bool ended(std::future<bool>& wait, Watcher& watcher) {
    if (wait.wait_for(kWithin) == std::future_status::ready) return true;
    watcher.stop();
    return false;
  }
  /// Takes what is still to be told of what was done before: until a wait ends by its time alone.
  static void settle(Watcher& watcher) {
    Instant until;
    do {
      until = Clock::now() + milliseconds(50);
      ASSERT_TRUE(watcher.wait(until));
    } while (Clock::now() < until);
  }
  void write(const std::string& name, const std::string& text) { std::ofstream(temp_.path() / name) << text; }
  fs::path path(const std::string& name) const { return temp_.path() / name; }

  gearbox::testing::TempDir temp_;
  std::vector<fs::path> folders_{temp_.path()};
};

TEST_F(WatcherTest, TheFirstWaitEndsAtOnceForWhatHappenedBefore) {
  const auto watcher = make();
  auto wait = waiting(*watcher);
  EXPECT_TRUE(ended(wait, *watcher));
  EXPECT_TRUE(wait.get());
  EXPECT_TRUE(watcher->is_quick());
}

TEST_F(WatcherTest, AnEventBetweenTwoWaitsIsNotLost) {
  const auto watcher = make();
  ASSERT_TRUE(watcher->wait(far()));
  write("a", "x");
  auto wait = waiting(*watcher);
  EXPECT_TRUE(ended(wait, *watcher));
}

TEST_F(WatcherTest, WithNoEventTheWaitLastsUntilItsEnd) {
  const auto watcher = make();
  ASSERT_TRUE(watcher->wait(far()));
  const Instant until = Clock::now() + milliseconds(30);
  EXPECT_TRUE(watcher->wait(until));
  EXPECT_GE(Clock::now(), until);
}

TEST_F(WatcherTest, HurryEndsTheWaitUnderWayOrTheNext) {
  const auto watcher = make();
  ASSERT_TRUE(watcher->wait(far()));
  watcher->hurry();
  auto next = waiting(*watcher);
  EXPECT_TRUE(ended(next, *watcher));
  EXPECT_TRUE(next.get());
  auto under_way = waiting(*watcher);
  watcher->hurry();
  EXPECT_TRUE(ended(under_way, *watcher));
}

TEST_F(WatcherTest, StopEndsAllWaits) {
  const auto watcher = make();
  ASSERT_TRUE(watcher->wait(far()));
  auto wait = waiting(*watcher);
  watcher->stop();
  ASSERT_TRUE(ended(wait, *watcher));
  EXPECT_FALSE(wait.get());
  EXPECT_FALSE(watcher->wait(far()));
}

TEST_F(WatcherTest, AFolderThatAppearsGoesAndComesAgainIsWatched) {
  folders_ = {temp_.path(), path("sub")};
  const auto watcher = make();
  ASSERT_TRUE(watcher->wait(far()));
  for (int round = 0; round < 3; ++round) {
    fs::create_directory(path("sub"));
    auto appeared = waiting(*watcher);
    ASSERT_TRUE(ended(appeared, *watcher));
    settle(*watcher);
    write("sub/a", "x");
    auto written = waiting(*watcher);
    ASSERT_TRUE(ended(written, *watcher));
    fs::remove_all(path("sub"));
    auto gone = waiting(*watcher);
    ASSERT_TRUE(ended(gone, *watcher));
    settle(*watcher);
  }
}

TEST_F(WatcherTest, TheFolderBehindASwappedLinkIsWatchedFromThenOn) {
  fs::create_directory(path("one"));
  fs::create_directory(path("two"));
  fs::create_directory_symlink("one", path("now"));
  folders_ = {path("now")};
  const auto watcher = make();
  ASSERT_TRUE(watcher->wait(far()));
  fs::create_directory_symlink("two", path("next"));
  fs::rename(path("next"), path("now"));
  auto swapped = waiting(*watcher);
  ASSERT_TRUE(ended(swapped, *watcher)) << "the folder that holds the link says so";
  settle(*watcher);
  write("one/a", "x");
  const Instant until = Clock::now() + milliseconds(50);
  EXPECT_TRUE(watcher->wait(until));
  EXPECT_GE(Clock::now(), until) << "the old folder is nobody's business any more";
  write("two/a", "x");
  auto wait = waiting(*watcher);
  EXPECT_TRUE(ended(wait, *watcher));
}

TEST_F(WatcherTest, ALinkThatIsSwappedStirsByTheFolderThatHoldsIt) {
  fs::create_directories(path("hold/one"));
  fs::create_directory(path("two"));
  fs::create_directory_symlink("one", path("hold/now"));
  folders_ = {path("hold/now")};
  const auto watcher = make();
  ASSERT_TRUE(watcher->wait(far()));
  // There and back: the folder behind it is the one that is watched already, so only the swap itself can tell.
  for (const fs::path& target : {path("two"), path("hold/one")}) {
    fs::create_directory_symlink(target, path("next"));
    fs::rename(path("next"), path("hold/now"));
  }
  auto wait = waiting(*watcher);
  EXPECT_TRUE(ended(wait, *watcher));
}

TEST_F(WatcherTest, AnOverflowOfTheKernelsQueueIsAnEventLikeAnother) {
  std::ifstream limit("/proc/sys/fs/inotify/max_queued_events");
  int queue = 0;
  if (!(limit >> queue) || queue > 1'000'000) GTEST_SKIP() << "NOT RUN: the kernel's queue is too long to fill";
  const auto watcher = make();
  ASSERT_TRUE(watcher->wait(far()));
  for (int i = 0; i <= queue / 2; ++i) {  // two events each: equal neighbours would be told as one
    const int made = ::open(path("x").c_str(), O_CREAT | O_RDONLY | O_CLOEXEC, 0600);
    ASSERT_GE(made, 0);
    ::close(made);
    ::unlink(path("x").c_str());
  }
  auto wait = waiting(*watcher);
  ASSERT_TRUE(ended(wait, *watcher));
  EXPECT_EQ(watcher->overflows(), 1U);
  write("a", "x");
  auto after_it = waiting(*watcher);
  EXPECT_TRUE(ended(after_it, *watcher)) << "and it goes on";
}

TEST_F(WatcherTest, WithoutInotifyItPolls) {
  const auto watcher = make({.poll = milliseconds(20), .inotify = false});
  EXPECT_FALSE(watcher->is_quick());
  const Instant from = Clock::now();
  EXPECT_TRUE(watcher->wait(far()));
  EXPECT_GE(Clock::now() - from, milliseconds(20));
}

TEST_F(WatcherTest, WithNoInotifyInstanceLeftItPolls) {
  // One descriptor is left for the bell, none for inotify.
  const int next = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(next, 0);
  ::close(next);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit tight{static_cast<rlim_t>(next) + 1, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &tight), 0);
  auto made = Watcher::create([this] { return folders_; }, {.poll = milliseconds(20)});
  auto none = Watcher::create([this] { return folders_; }, {.poll = milliseconds(20)});
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_TRUE(made) << made.error().detail;
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Errc::no_space);
  EXPECT_FALSE(made.value()->is_quick());
  EXPECT_TRUE(made.value()->wait(far()));
}

TEST_F(WatcherTest, WithTooFewWatchesTheRestIsPolled) {
  fs::create_directory(path("sub"));
  folders_ = {temp_.path(), path("sub")};
  const auto watcher = make({.poll = milliseconds(200), .max_watches = 1});
  ASSERT_TRUE(watcher->wait(far()));
  EXPECT_FALSE(watcher->is_quick());
  write("sub/a", "x");
  const Instant from = Clock::now();
  EXPECT_TRUE(watcher->wait(far()));
  EXPECT_GE(Clock::now() - from, milliseconds(150)) << "by the poll";
}

TEST_F(WatcherTest, AFloodOfEventsIsTakenAFewAtATime) {
  const auto watcher = make();
  ASSERT_TRUE(watcher->wait(far()));
  const Instant from = Clock::now();
  for (int i = 0; i < 5; ++i) {
    write("a" + std::to_string(i), "x");
    ASSERT_TRUE(watcher->wait(far()));
  }
  EXPECT_GE(Clock::now() - from, milliseconds(80)) << "each end of a wait costs a look at every file";
}

TEST_F(WatcherTest, LeavesNoDescriptorBehind) {
  const auto count = [] { return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()); };
  const auto before = count();
  for (int i = 0; i < 10; ++i) {
    const auto watcher = make();
    ASSERT_TRUE(watcher->wait(far()));
  }
  EXPECT_EQ(count(), before);
}

}  // namespace
}  // namespace gearbox::watch
