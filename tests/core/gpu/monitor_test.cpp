#include "gpu/monitor.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "fake_library.hpp"

namespace gearbox::gpu {
namespace {

constexpr seconds kLimit{20};

class GpuMonitor : public FakeLibrary {
 protected:
  void start(milliseconds every, const std::string& library = FAKE_NVML_LIBRARY,
             std::optional<std::string> visible = std::nullopt) {
    Monitor::Setup setup;
    setup.library = library;
    setup.visible = std::move(visible);
    setup.every = setup.again = every;
    setup.told = [this](Look look) {
      const std::lock_guard lock(mutex_);
      looks_.push_back(std::move(look));
      came_.notify_all();
    };
    auto monitor = Monitor::start(std::move(setup));
    ASSERT_TRUE(monitor) << describe(monitor.error());
    monitor_ = std::move(monitor).value();
  }
  ~GpuMonitor() override { monitor_.reset(); }  // before what it tells to is gone

  /// The next one that `fits`; those before are dropped.
  Look next(const std::function<bool(const Look&)>& fits = [](const Look&) { return true; }) {
    std::unique_lock lock(mutex_);
    const Instant until = Clock::now() + kLimit;
    for (;;) {
      if (!came_.wait_until(lock, until, [&] { return !looks_.empty(); })) {
        ADD_FAILURE() << "no such look came";
        return {};
      }
      Look look = std::move(looks_.front());
      looks_.pop_front();
      if (fits(look)) return look;
    }
  }

  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<Look> looks_;
  std::unique_ptr<Monitor> monitor_;
};

TEST_F(GpuMonitor, LooksAgainAndAgain) {
  tell("gpu GPU-aaaa 1000 0 0\n");
  start(milliseconds(1));
  const Look first = next();
  EXPECT_EQ(first.sight, Sight::seen);
  EXPECT_EQ(first.gpus.at(0).used_bytes, 0U);
  tell("gpu GPU-aaaa 1000 300 0\n");
  const Look later = next([](const Look& look) { return look.gpus.at(0).used_bytes > 0; });
  EXPECT_GT(later.at, first.at);
}

TEST_F(GpuMonitor, LooksAtOnceWhenAsked) {
  tell("gpu GPU-aaaa 1000 0 0\n");
  start(std::chrono::hours(1));
  next();
  monitor_->look_now();
  next();
}

TEST_F(GpuMonitor, NoLibraryIsToldAndTriedAgain) {
  start(milliseconds(1), "/nowhere/libnvidia-ml.so.1");
  const Look look = next();
  EXPECT_EQ(look.sight, Sight::none);
  EXPECT_NE(look.why.find("/nowhere/libnvidia-ml.so.1"), std::string::npos);
  next();
}

TEST_F(GpuMonitor, ADriverThatComesLaterIsFound) {
  tell("init 9\n");
  start(milliseconds(1));
  EXPECT_EQ(next().sight, Sight::none);
  tell("gpu GPU-aaaa 1000 0 0\n");
  EXPECT_EQ(next([](const Look& look) { return look.sight == Sight::seen; }).gpus.size(), 1U);
}

TEST_F(GpuMonitor, OneThatFailsLaterIsLostAndFoundAgain) {
  tell("gpu GPU-aaaa 1000 0 0\n");
  start(milliseconds(1));
  next();
  tell("count_error 999\n");
  const Look lost = next([](const Look& look) { return look.sight != Sight::seen; });
  EXPECT_EQ(lost.sight, Sight::lost);
  EXPECT_EQ(lost.why, "nvmlDeviceGetCount_v2: Unknown Error");
  tell("gpu GPU-aaaa 1000 0 0\n");
  next([](const Look& look) { return look.sight == Sight::seen; });
}

TEST_F(GpuMonitor, BarsWhatTheNodeItselfDoesNotSee) {
  tell("gpu GPU-aaaa 1000 0 0\ngpu GPU-bbbb 1000 0 0\ngpu GPU-cccc 1000 0 0\n");
  start(std::chrono::hours(1), FAKE_NVML_LIBRARY, "2,GPU-aa");
  const Look look = next();
  ASSERT_EQ(look.gpus.size(), 3U);
  EXPECT_EQ(look.gpus[0].error, "");
  EXPECT_NE(look.gpus[1].error, "");
  EXPECT_EQ(look.gpus[2].error, "");
}

TEST_F(GpuMonitor, ADriverThatHangsDoesNotHoldItsEnd) {
  tell("gpu GPU-aaaa 1000 0 0\n");
  start(milliseconds(1));
  next();
  const std::filesystem::path pipe = in_folder("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  tell("hang " + pipe.string() + "\n");
  int writer = -1;  // can be opened once the library reads there
  for (const Instant until = Clock::now() + kLimit; writer < 0 && Clock::now() < until;) {
    writer = ::open(pipe.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (writer < 0) std::this_thread::sleep_for(milliseconds(1));
  }
  ASSERT_GE(writer, 0) << "the library was not asked";
  const Instant before = Clock::now();
  monitor_.reset();
  EXPECT_LT(Clock::now() - before, Monitor::kPatience + seconds(5));
  ::close(writer);  // the thread ends by itself
}

TEST(Find, KnowsAGpuByUuidAndByIndex) {
  Look look;
  look.gpus.resize(2);
  look.gpus[0].uuid = "GPU-aaaa";
  look.gpus[1].index = 1;
  EXPECT_EQ(find(look, "GPU-aaaa"), &look.gpus[0]);
  EXPECT_EQ(find(look, "0"), &look.gpus[0]);
  EXPECT_EQ(find(look, "1"), &look.gpus[1]);
  EXPECT_EQ(find(look, "2"), nullptr);
  EXPECT_EQ(find(look, ""), nullptr);
}

}  // namespace
}  // namespace gearbox::gpu
