// Watcher, stamps and Settle together, as a role uses them, against every way in which people and programs save files.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <optional>

#include "support/temp_dir.hpp"
#include "watch/files.hpp"
#include "watch/settle.hpp"
#include "watch/watcher.hpp"

namespace gearbox::watch {
namespace {

namespace fs = std::filesystem;

constexpr seconds kWithin{20};

struct Way {
  const char* name;
  bool inotify;
  milliseconds poll;  // of the watcher
};

class Follow : public ::testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    fs::create_directory(home_);
    save(file_, "first");
    start(home_);
  }
  /// Follows `folder` from now on; its file is conf.toml.
  void start(const fs::path& folder) {
    followed_ = folder;
    auto made = Watcher::create([this] { return std::vector<fs::path>{followed_}; },
                                {.poll = GetParam().poll, .inotify = GetParam().inotify});
    ASSERT_TRUE(made) << made.error().detail;
    watcher_ = std::move(made).value();
    settle_.applied(now());
  }
  Stamps now() const {
    return stamps_of({{followed_, 0, [](const std::string& name) { return name.ends_with(".toml"); }}});
  }
  Verdict look() {
    seen_ = now();
    const Writers writers = writers_of(seen_, settle_.last_applied());
    return settle_.look({seen_, writers, is_fresh(seen_, std::chrono::system_clock::now())}, Clock::now());
  }
  /// Waits for the next change that is over, and reads it: what conf.toml says then; "(none)" without one.
  std::string next() {
    for (const Instant end = Clock::now() + kWithin; Clock::now() < end;) {
      const Verdict verdict = look();
      if (verdict.what == Verdict::What::settled) {
        settle_.applied(seen_);
        return read();
      }
      if (!watcher_->wait(verdict.what == Verdict::What::wait ? std::min(end, verdict.look_again) : end)) break;
    }
    return "no change was seen";
  }
  bool is_quiet() { return look().what == Verdict::What::unchanged; }
  std::string read() const {
    std::ifstream in(followed_ / "conf.toml");
    return in ? std::string{std::istreambuf_iterator<char>(in), {}} : "(none)";
  }
  static void save(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }

  gearbox::testing::TempDir temp_;
  const fs::path home_ = temp_.path() / "home";
  const fs::path file_ = home_ / "conf.toml";
  fs::path followed_;
  std::unique_ptr<Watcher> watcher_;
  Settle settle_{milliseconds(200)};
  Stamps seen_;
};

TEST_P(Follow, AnEditInPlace) {
  save(file_, "second");
  EXPECT_EQ(next(), "second");
  EXPECT_TRUE(is_quiet());
}

TEST_P(Follow, AnEditorThatWritesBesideAndRenames) {
  for (const char* text : {"second", "third", "fourth"}) {  // each time, not only the first
    save(home_ / ".conf.toml.tmp", text);
    fs::rename(home_ / ".conf.toml.tmp", file_);
    EXPECT_EQ(next(), text);
    EXPECT_TRUE(is_quiet());
  }
}

TEST_P(Follow, AnEditorThatMovesTheOldFileAwayFirst) {
  fs::rename(file_, home_ / "conf.toml~");
  look();
  save(file_, "second");
  EXPECT_EQ(next(), "second");
  EXPECT_TRUE(is_quiet());
}

TEST_P(Follow, AFileMovedInFromElsewhereWithAnOlderTimeStamp) {
  save(temp_.path() / "old", "older");
  const timespec old[2] = {{.tv_sec = 1'000'000'000, .tv_nsec = 0}, {.tv_sec = 1'000'000'000, .tv_nsec = 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, (temp_.path() / "old").c_str(), old, 0), 0);
  fs::rename(temp_.path() / "old", file_);
  EXPECT_EQ(next(), "older");
  EXPECT_TRUE(is_quiet());
}

TEST_P(Follow, AVolumeThatSwapsItsDataLink) {
  // As mounted configurations do it: conf.toml -> ..data/conf.toml, ..data -> ..1, swapped by rename.
  const fs::path volume = temp_.path() / "volume";
  fs::create_directories(volume / "..1");
  save(volume / "..1/conf.toml", "first");
  fs::create_directory_symlink("..1", volume / "..data");
  fs::create_symlink("..data/conf.toml", volume / "conf.toml");
  start(volume);
  for (const char* next_name : {"..2", "..3"}) {
    const fs::path old = fs::canonical(volume / "..data");
    fs::create_directory(volume / next_name);
    save(volume / next_name / "conf.toml", next_name);
    fs::create_directory_symlink(next_name, volume / "..data_tmp");
    fs::rename(volume / "..data_tmp", volume / "..data");
    fs::remove_all(old);
    EXPECT_EQ(next(), next_name);
    EXPECT_TRUE(is_quiet());
  }
}

TEST_P(Follow, AFolderThatIsItselfASwappedLink) {
  fs::create_directory(temp_.path() / "two");
  save(temp_.path() / "two/conf.toml", "second");
  fs::create_directory_symlink("home", temp_.path() / "now");
  start(temp_.path() / "now");
  fs::create_directory_symlink("two", temp_.path() / "next");
  fs::rename(temp_.path() / "next", temp_.path() / "now");
  EXPECT_EQ(next(), "second");
  save(temp_.path() / "two/conf.toml", "third");
  EXPECT_EQ(next(), "third");
  EXPECT_TRUE(is_quiet());
}

TEST_P(Follow, DeletedAndCreatedIsNeverReadAsMissing) {
  fs::remove(file_);
  EXPECT_EQ(look().what, Verdict::What::wait);
  // Longer than another change needs to keep still, shorter than a deletion is believed.
  EXPECT_EQ(settle_.look({seen_, Writers::none, false}, Clock::now() + milliseconds(800)).what, Verdict::What::wait);
  save(file_, "again");
  EXPECT_EQ(next(), "again");
  EXPECT_TRUE(is_quiet());
}

TEST_P(Follow, ADeletionThatStaysIsSeen) {
  fs::remove(file_);
  EXPECT_EQ(next(), "(none)");
  EXPECT_TRUE(is_quiet());
}

TEST_P(Follow, AHalfWrittenFileIsReadWhenItsWriterIsDone) {
  if (writers_of(file_) == Writers::unknown) GTEST_SKIP() << "NOT RUN: no leases on " << home_;
  const int writer = ::open(file_.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC);
  ASSERT_GE(writer, 0);
  ASSERT_EQ(::write(writer, "half", 4), 4);
  EXPECT_EQ(look().what, Verdict::What::wait);
  // Long after: still wait, since the writer is there.
  EXPECT_EQ(settle_.look({seen_, writers_of(seen_, settle_.last_applied()), false}, Clock::now() + seconds(60)).what,
            Verdict::What::wait);
  ASSERT_EQ(::write(writer, " and half", 9), 9);
  ::close(writer);
  EXPECT_EQ(next(), "half and half");
  EXPECT_TRUE(is_quiet());
}

TEST_P(Follow, ManySavesInARowEndInTheLast) {
  for (int i = 0; i < 50; ++i) {
    save(file_, std::to_string(i));
    look();
  }
  EXPECT_EQ(next(), "49");
  EXPECT_TRUE(is_quiet());
}

TEST_P(Follow, TheFolderItselfMovedAwayAndBack) {
  fs::rename(home_, temp_.path() / "away");
  EXPECT_EQ(look().what, Verdict::What::wait);
  fs::rename(temp_.path() / "away", home_);
  EXPECT_TRUE(is_quiet()) << "nothing is another than before";
  save(file_, "second");
  EXPECT_EQ(next(), "second");
}

INSTANTIATE_TEST_SUITE_P(Ways, Follow,
                         ::testing::Values(Way{"Inotify", true, milliseconds(600'000)},
                                           Way{"Polling", false, milliseconds(20)}),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace gearbox::watch
