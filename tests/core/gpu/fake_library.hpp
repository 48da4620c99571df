// fake_library.hpp: what the fake NVML is to tell next.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "support/temp_dir.hpp"

namespace gearbox::gpu {

class FakeLibrary : public ::testing::Test {
 protected:
  FakeLibrary() { ::setenv("FAKE_NVML", file().c_str(), 1); }
  ~FakeLibrary() override { ::unsetenv("FAKE_NVML"); }
  std::filesystem::path in_folder(const std::string& name) const { return folder_.path() / name; }
  /// At once or not at all: the library may be reading.
  void tell(const std::string& lines) const {
    const std::string next = file() + ".next";
    std::ofstream(next) << lines;
    ASSERT_EQ(std::rename(next.c_str(), file().c_str()), 0);
  }

 private:
  std::string file() const { return (folder_.path() / "gpus").string(); }
  gearbox::testing::TempDir folder_;
};

}  // namespace gearbox::gpu
