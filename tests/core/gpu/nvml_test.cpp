#include "gpu/nvml.hpp"

#include "fake_library.hpp"

namespace gearbox::gpu {
namespace {

constexpr std::uint64_t kMb = 1 << 20;

class NvmlReader : public FakeLibrary {
 protected:
  std::vector<Gpu> read() {
    if (!nvml_) {
      auto opened = Nvml::open(FAKE_NVML_LIBRARY);
      EXPECT_TRUE(opened) << describe(opened.error());
      nvml_ = std::move(opened).value();
    }
    auto gpus = nvml_->read();
    EXPECT_TRUE(gpus) << describe(gpus.error());
    return gpus ? gpus.value() : std::vector<Gpu>();
  }
  std::unique_ptr<Nvml> nvml_;
};

TEST_F(NvmlReader, ReadsWhatThereIsOfEachGpu) {
  tell("gpu GPU-aaaa 24576 512 37\ngpu GPU-bbbb 8192 0 0\nprocess 0 4711 300\nprocess 0 4712 -\n");
  const std::vector<Gpu> gpus = read();
  ASSERT_EQ(gpus.size(), 2U);
  EXPECT_EQ(gpus[0].index, 0U);
  EXPECT_EQ(gpus[0].uuid, "GPU-aaaa");
  EXPECT_EQ(gpus[0].name, "Fake 24576");
  EXPECT_EQ(gpus[0].total_bytes, 24576 * kMb);
  EXPECT_EQ(gpus[0].used_bytes, 512 * kMb);
  EXPECT_EQ(gpus[0].busy_percent, 37U);
  EXPECT_EQ(gpus[0].error, "");
  ASSERT_EQ(gpus[0].processes.size(), 2U);
  EXPECT_EQ(gpus[0].processes[0].pid, 4711);
  EXPECT_EQ(gpus[0].processes[0].used_bytes, 300 * kMb);
  EXPECT_FALSE(gpus[0].processes[1].used_bytes);
  EXPECT_EQ(gpus[1].index, 1U);
  EXPECT_EQ(gpus[1].uuid, "GPU-bbbb");
  EXPECT_EQ(gpus[1].busy_percent, 0U);
  EXPECT_TRUE(gpus[1].processes.empty());
}

TEST_F(NvmlReader, ReadsMoreProcessesThanItExpected) {
  std::string lines = "gpu GPU-aaaa 24576 512 37\n";
  for (int pid = 1; pid <= 100; ++pid) lines += "process 0 " + std::to_string(pid) + " 1\n";
  tell(lines);
  const std::vector<Gpu> gpus = read();
  ASSERT_EQ(gpus.at(0).processes.size(), 100U);
  EXPECT_EQ(gpus[0].processes[99].pid, 100);
}

TEST_F(NvmlReader, DoesWithoutWhatADeviceDoesNotSupport) {
  tell("gpu GPU-aaaa 24576 512 -\nmemory_error 0 3\n");
  const std::vector<Gpu> gpus = read();
  ASSERT_EQ(gpus.size(), 1U);
  EXPECT_FALSE(gpus[0].busy_percent);
  EXPECT_EQ(gpus[0].total_bytes, 0U);
  EXPECT_EQ(gpus[0].error, "");
}

TEST_F(NvmlReader, OneLostGpuDoesNotHideTheOthersAndKeepsItsName) {
  const std::string both = "gpu GPU-aaaa 24576 512 37\ngpu GPU-bbbb 8192 0 0\n";
  tell(both);
  read();
  tell(both + "error 0 15\n");
  const std::vector<Gpu> gpus = read();
  ASSERT_EQ(gpus.size(), 2U);
  EXPECT_EQ(gpus[0].error, "nvmlDeviceGetHandleByIndex_v2: GPU is lost");
  EXPECT_EQ(gpus[0].uuid, "GPU-aaaa");
  EXPECT_EQ(gpus[1].error, "");
  EXPECT_EQ(gpus[1].total_bytes, 8192 * kMb);
  tell(both + "memory_error 1 15\n");
  EXPECT_EQ(read().at(1).error, "nvmlDeviceGetMemoryInfo: GPU is lost");
}

TEST_F(NvmlReader, NoGpuAtAllIsAnAnswer) {
  tell("");
  EXPECT_TRUE(read().empty());
}

TEST_F(NvmlReader, ACountThatFailsIsAnError) {
  tell("gpu GPU-aaaa 24576 512 37\n");
  read();
  tell("count_error 999\n");
  const auto gpus = nvml_->read();
  ASSERT_FALSE(gpus);
  EXPECT_EQ(gpus.error().detail, "nvmlDeviceGetCount_v2: Unknown Error");
}

TEST_F(NvmlReader, SaysWhyThereIsNone) {
  const auto absent = Nvml::open("/nowhere/libnvidia-ml.so.1");
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code, Errc::not_found);
  EXPECT_NE(absent.error().detail.find("/nowhere/libnvidia-ml.so.1"), std::string::npos);

  const auto old = Nvml::open(FAKE_NVML_OLD_LIBRARY);
  ASSERT_FALSE(old);
  EXPECT_EQ(old.error().code, Errc::unsupported_version);
  EXPECT_TRUE(old.error().detail.ends_with("has no function nvmlDeviceGetUUID")) << old.error().detail;

  tell("init 9\n");
  const auto no_driver = Nvml::open(FAKE_NVML_LIBRARY);
  ASSERT_FALSE(no_driver);
  EXPECT_EQ(no_driver.error().code, Errc::io_error);
  EXPECT_EQ(no_driver.error().detail, "nvmlInit_v2: Driver Not Loaded");
}

}  // namespace
}  // namespace gearbox::gpu
