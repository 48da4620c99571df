// Both captures: a watched folder and a camera.
#include "capture.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "camera.hpp"
#include "capturing.hpp"
#include "gearbox/wire/raw_image.hpp"
#include "pictures.hpp"
#include "watch_folder.hpp"

namespace gearbox::client {
namespace {

namespace fs = std::filesystem;

TEST(WatchFolder, TakesWhatIsThereAndWhatComes) {
  Capturing each;
  each.scratch.file("pictures/old.ppm", noise_picture(10, 10, 1));
  each.watch(After::remove);
  EXPECT_TRUE(each.until([&] { return each.spooled == 1; }));
  each.scratch.file("pictures/new.ppm", noise_picture(10, 10, 2));
  EXPECT_TRUE(each.until([&] { return each.spooled == 2; }));
  fs::rename(each.scratch.file("moving.ppm", noise_picture(10, 10, 3)), each.folder() / "moved.ppm");
  EXPECT_TRUE(each.until([&] { return each.spooled == 3; }));
  EXPECT_TRUE(fs::is_empty(each.folder()));
  EXPECT_EQ(each.count(), 3U);
}

TEST(WatchFolder, AFileThatIsBeingWrittenIsLeftAloneUntilItIsWhole) {
  Capturing each;
  each.watch(After::remove);
  const std::string picture = noise_picture(40, 40, 1);
  const std::string path = (each.folder() / "slow.ppm").string();
  // Written and closed in pieces: each close looks like the end, and only the last one is.
  for (std::size_t at = 0; at < picture.size(); at += 1'000) {
    std::ofstream(path, std::ios::binary | std::ios::app) << picture.substr(at, 1'000);
    const int before = each.spooled;
    each.scratch.file("pictures/beat.ppm", noise_picture(5, 5, static_cast<std::uint32_t>(at)));
    EXPECT_TRUE(each.until([&] { return each.spooled > before; }));
    if (at + 1'000 < picture.size()) {
      ASSERT_TRUE(fs::exists(path)) << "taken after " << at;
    }
  }
  EXPECT_TRUE(each.until([&] { return !fs::exists(path); }));
  for (const auto& item : listed(*each.spool)) {
    if (item->item.name == path) {
      EXPECT_EQ(item->item.submit.inputs[0].tensor.bytes, 4'800U);
    }
  }
}

TEST(WatchFolder, AWriterThatStandsStillIsWaitedFor) {
  Capturing each;
  const std::string picture = noise_picture(40, 40, 1);
  const std::string path = (each.folder() / "open.ppm").string();
  const int file = ::open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  ASSERT_EQ(::write(file, picture.data(), picture.size()), static_cast<ssize_t>(picture.size()));
  each.watch(After::remove);
  // Whole by its marks and still for many looks, but open: two other files come and go in the meantime.
  for (std::uint32_t i = 0; i < 2; ++i) {
    each.scratch.file("pictures/other.ppm", noise_picture(5, 5, i));
    EXPECT_TRUE(each.until([&] { return !fs::exists(each.folder() / "other.ppm"); }));
    const Instant looks = Clock::now() + milliseconds(150);
    EXPECT_TRUE(each.until([&] { return Clock::now() > looks; }));
  }
  EXPECT_TRUE(fs::exists(path));
  ::close(file);
  EXPECT_TRUE(each.until([&] { return !fs::exists(path); }));
}

TEST(WatchFolder, WhatIsNoPictureStaysAndIsToldOnce) {
  Capturing each;
  each.scratch.file("pictures/notes.txt", "no picture");
  each.scratch.file("pictures/half.ppm", noise_picture(10, 10).substr(0, 200));
  each.scratch.file("pictures/.hidden.ppm", noise_picture(10, 10));
  each.scratch.file("pictures/copying.ppm.part", noise_picture(10, 10));
  each.watch(After::remove);
  EXPECT_TRUE(each.until([&] { return each.said("notes.txt stays") && each.said("half.ppm stays"); }));
  EXPECT_EQ(each.count(), 0U);
  EXPECT_EQ(std::distance(fs::directory_iterator(each.folder()), fs::directory_iterator()), 4);
  each.scratch.file("pictures/half.ppm", noise_picture(10, 10));  // it was only slow
  EXPECT_TRUE(each.until([&] { return each.spooled == 1; }));
}

TEST(WatchFolder, KeptFilesAreTakenOnceOverRestarts) {
  Capturing each;
  each.scratch.file("pictures/a.ppm", noise_picture(10, 10, 1));
  each.watch(After::keep);
  EXPECT_TRUE(each.until([&] { return each.spooled == 1; }));
  each.end();
  EXPECT_TRUE(each.spool->remove(each.spool->list().value()[0]->item.id).value());  // answered meanwhile
  each.stop.~StopBell();
  new (&each.stop) StopBell();
  each.watch(After::keep);
  each.scratch.file("pictures/b.ppm", noise_picture(10, 10, 2));
  EXPECT_TRUE(each.until([&] { return each.spooled == 2; }));
  ASSERT_EQ(each.count(), 1U);
  EXPECT_EQ(each.spool->list().value()[0]->item.name, (each.folder() / "b.ppm").string());
  EXPECT_TRUE(fs::exists(each.folder() / "a.ppm"));
}

TEST(WatchFolder, AnOriginalThatAKillLeftBehindIsNotTakenAgain) {
  for (const After after : {After::remove, After::keep, After::move}) {
    Capturing each;
    const std::string path = each.scratch.file("pictures/a.ppm", noise_picture(10, 10, 1));
    {
      // The item was written, and the process died before it came to the original.
      each.watch(After::keep);
      EXPECT_TRUE(each.until([&] { return each.spooled == 1; }));
      each.end();
      fs::remove(each.spool->folder() / "taken.jsonl");
      each.stop.~StopBell();
      new (&each.stop) StopBell();
    }
    each.watch(after);
    each.scratch.file("pictures/b.ppm", noise_picture(10, 10, 2));
    EXPECT_TRUE(each.until([&] { return each.spooled == 2; }));
    EXPECT_EQ(each.count(), 2U);
    EXPECT_EQ(fs::exists(path), after == After::keep);
    EXPECT_EQ(fs::exists(each.scratch.path() / "moved/a.ppm"), after == After::move);
  }
}

TEST(WatchFolder, MovedFilesNeverReplaceOthers) {
  Capturing each;
  fs::create_directories(each.scratch.path() / "moved");
  each.scratch.file("moved/a.ppm", "mine");
  each.watch(After::move);
  each.scratch.file("pictures/a.ppm", noise_picture(10, 10, 1));
  EXPECT_TRUE(each.until([&] { return fs::exists(each.scratch.path() / "moved/a-1.ppm"); }));
  EXPECT_EQ(fs::file_size(each.scratch.path() / "moved/a.ppm"), 4U);
}

TEST(WatchFolder, AFullSpoolLeavesPicturesWhereTheyAre) {
  Capturing each({SpoolPolicy::keep_all, 1, 1 << 20});
  each.scratch.file("pictures/a.ppm", noise_picture(10, 10, 1));
  each.scratch.file("pictures/b.ppm", noise_picture(10, 10, 2));
  each.watch(After::remove);
  EXPECT_TRUE(each.until([&] { return each.said("full"); }));
  EXPECT_EQ(each.spooled, 1);
  EXPECT_TRUE(each.spool->remove(each.spool->list().value()[0]->item.id).value());
  EXPECT_TRUE(each.until([&] { return each.spooled == 2; }));
}

TEST(WatchFolder, AFolderThatComesLaterIsWatched) {
  Capturing each;
  fs::remove(each.folder());
  each.watch(After::remove);
  EXPECT_TRUE(each.until([&] { return each.said("cannot be read"); }));
  fs::create_directories(each.folder());
  each.scratch.file("pictures/a.ppm", noise_picture(10, 10, 1));
  EXPECT_TRUE(each.until([&] { return each.spooled == 1; }));
}

/// Does what its script says, shot by shot; then waits for the bell.
class ScriptedSource final : public CaptureSource {
 public:
  explicit ScriptedSource(std::vector<Outcome<std::string>> shots, int* opened)
      : shots_(std::move(shots)), opened_(opened) {}
  Outcome<void> open() override {
    ++*opened_;
    return done();
  }
  Outcome<Shot> shoot(const StopBell& stop) override {
    if (next_ == shots_.size()) {
      stop.wait(Clock::now() + seconds(6));
      return Error{Errc::cancelled, "stopped"};
    }
    const Outcome<std::string>& shot = shots_[next_++];
    if (!shot) return shot.error();
    const ByteView bytes = view_of(shot.value());
    return Shot{"shot.ppm", Bytes(bytes.begin(), bytes.end())};
  }
  void close() override {}
  bool is_live() const override { return true; }

 private:
  std::vector<Outcome<std::string>> shots_;
  std::size_t next_ = 0;
  int* opened_;
};

constexpr CameraPace kQuick{milliseconds(1), milliseconds(1), milliseconds(5)};

TEST(Camera, GoesOnAfterEachFault) {
  Capturing each;
  int opened = 0;
  const std::string same = noise_picture(10, 10, 1);
  std::vector<Outcome<std::string>> shots;
  shots.emplace_back(same);
  shots.emplace_back(Error{Errc::io_error, "unplugged"});
  shots.emplace_back(Error{Errc::timeout, "gave nothing"});
  for (int i = 0; i < 5; ++i) shots.emplace_back(same);                     // stuck: opened anew
  for (int i = 0; i < 5; ++i) shots.emplace_back(same.substr(0, 100 + i));  // cut: opened anew
  shots.emplace_back(noise_picture(10, 10, 2));
  each.start(make_camera(std::make_unique<ScriptedSource>(std::move(shots), &opened), kQuick, each.ends));
  EXPECT_TRUE(each.until([&] { return each.spooled == 2; }));
  each.end();
  EXPECT_EQ(opened, 5);
  EXPECT_EQ(each.count(), 2U);
  for (const char* words : {"unplugged", "gave nothing", "the same picture", "bad_picture", "gives pictures again"})
    EXPECT_TRUE(each.said(words)) << words;
}

TEST(Camera, NewestOnlyKeepsOnePictureOfALiveOne) {
  Capturing each({SpoolPolicy::newest_only, 10, 1 << 20});
  int opened = 0;
  std::vector<Outcome<std::string>> shots;
  for (std::uint32_t i = 0; i < 20; ++i) shots.emplace_back(noise_picture(10, 10, i));
  each.start(make_camera(std::make_unique<ScriptedSource>(std::move(shots), &opened), kQuick, each.ends));
  EXPECT_TRUE(each.until([&] { return each.spooled == 20; }));
  EXPECT_EQ(each.count(), 1U);
}

TEST(Camera, AFolderStandsForACamera) {
  Capturing each;
  each.scratch.file("pictures/a.ppm", noise_picture(10, 10, 1));
  each.scratch.file("pictures/b.ppm", noise_picture(10, 10, 2));
  each.start(make_camera(make_file_source(each.folder().string()), kQuick, each.ends));
  EXPECT_TRUE(each.until([&] { return each.spooled >= 5; }));
  each.end();
  const auto items = each.spool->list().value();
  EXPECT_EQ(items.at(0)->item.name, (each.folder() / "a.ppm").string());
  EXPECT_EQ(items.at(1)->item.name, (each.folder() / "b.ppm").string());
  EXPECT_EQ(items.at(2)->item.name, (each.folder() / "a.ppm").string());
}

TEST(V4l2, WhatIsNotThereOrNoCameraIsSaid) {
  const auto missing = make_v4l2_source("/dev/video-none", 0, 0)->open();
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Errc::io_error);
  const auto other = make_v4l2_source("/dev/null", 0, 0)->open();
  ASSERT_FALSE(other);
  EXPECT_NE(other.error().detail.find("no camera"), std::string::npos) << other.error().detail;
}

TEST(V4l2, ACameraGivesWholePictures) {
  const char* device = "/dev/video0";
  if (::access(device, R_OK | W_OK) != 0) {
    GTEST_SKIP() << "NOT RUN: no camera at /dev/video0";
  }
  const auto source = make_v4l2_source(device, 0, 0);
  const StopBell stop;
  const Outcome<void> opened = source->open();
  ASSERT_TRUE(opened) << describe(opened.error());
  for (int i = 0; i < 3; ++i) {
    Outcome<CaptureSource::Shot> shot = source->shoot(stop);
    ASSERT_TRUE(shot) << describe(shot.error());
    EXPECT_TRUE(prepare(InputFile{"image", shot.value().name}, std::move(shot.value().file), {}));
  }
}

TEST(V4l2, YuyvBecomesColour) {
  // Two pixels for each of white, black, and red as a camera gives them; and bytes behind each row.
  const unsigned char frame[] = {235, 128, 235, 128, 16, 128, 16, 128, 0, 0, 81, 90, 81, 240, 41, 240, 41, 110, 0, 0};
  const ByteView view = std::as_bytes(std::span(frame));
  const Bytes picture = picture_of_yuyv(view, 4, 2, 10).value();
  const wire::RawImage image = wire::read_raw_image(picture, "image").value();
  EXPECT_EQ(image.spec.shape, (std::vector<std::int64_t>{2, 4, 3}));
  const auto at = [&](std::size_t i) { return std::to_integer<int>(image.data[i]); };
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(at(i), 255);
  for (std::size_t i = 6; i < 12; ++i) EXPECT_EQ(at(i), 0);
  EXPECT_NEAR(at(12), 255, 2);  // red
  EXPECT_NEAR(at(13), 0, 2);
  EXPECT_NEAR(at(14), 0, 2);
  EXPECT_NEAR(at(20), 255, 2);  // blue
  EXPECT_FALSE(picture_of_yuyv(view.first(17), 4, 2, 10));
  EXPECT_FALSE(picture_of_yuyv(view, 0, 2, 10));
}

}  // namespace
}  // namespace gearbox::client
