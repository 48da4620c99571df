#include "gpu/devices.hpp"

#include <gtest/gtest.h>

namespace gearbox::gpu {
namespace {

using Kind = Devices::Kind;

TEST(ReadDevices, KnowsEachKind) {
  EXPECT_EQ(read_devices("")->kind, Kind::unnamed);
  EXPECT_EQ(read_devices("cpu")->kind, Kind::cpu);
  EXPECT_EQ(read_devices("cuda")->kind, Kind::any);
  EXPECT_EQ(read_devices("cuda:3")->kind, Kind::listed);
  EXPECT_EQ(read_devices("cuda:3,cuda:0")->indexes, (std::vector<std::uint32_t>{3, 0}));
}

TEST(ReadDevices, TakesNothingElse) {
  for (const char* text : {"gpu", "cuda:", "cuda:x", "cuda:1x", "cuda:-1", "cuda: 1", "cuda:0001", "cuda:0,", ",cuda:0",
                           "cuda:0,1", "cuda:0,cpu", "cpu,cuda:0", "cuda,cuda", "cuda:0,cuda:0", "CUDA", "cpu "}) {
    EXPECT_FALSE(read_devices(text)) << text;
  }
}

}  // namespace
}  // namespace gearbox::gpu
