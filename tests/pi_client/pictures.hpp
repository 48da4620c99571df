// pictures.hpp: a scratch folder and pictures of any size, for tests with and without a network.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "spool.hpp"

namespace gearbox::client {

/// A folder of its own, gone with it.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "pi_client_test.XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) std::abort();
    path_ = pattern;
  }
  ~ScratchFolder() {
    std::error_code ignored;  // a test's folder that cannot be removed fails no test
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::string file(const std::string& name, const std::string& content) const {
    const std::filesystem::path path = path_ / name;
    std::ofstream(path, std::ios::binary) << content;
    return path.string();
  }

 private:
  std::filesystem::path path_;
};

/// A P6 picture that no codec makes smaller.
inline std::string noise_picture(std::uint32_t width, std::uint32_t height, std::uint32_t seed = 1) {
  std::string out = "P6\n" + std::to_string(width) + " " + std::to_string(height) + "\n255\n";
  std::uint64_t state = seed * 0x9E3779B97F4A7C15ULL + 1;
  for (std::uint64_t i = 0; i < std::uint64_t{width} * height * 3; ++i) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    out.push_back(static_cast<char>(state >> 32));
  }
  return out;
}

/// A P6 picture of smooth colour: every codec gains by it.
inline std::string smooth_picture(std::uint32_t width, std::uint32_t height) {
  std::string out = "P6\n" + std::to_string(width) + " " + std::to_string(height) + "\n255\n";
  for (std::uint32_t y = 0; y < height; ++y) {
    for (std::uint32_t x = 0; x < width; ++x) {
      out.push_back(static_cast<char>((x + 2 * y) / 8));
      out.push_back(static_cast<char>((x + y) / 8));
      out.push_back(static_cast<char>((3 * x + y * y / 64) / 8));
    }
  }
  return out;
}

/// All items of a spool. By value: what Outcome::value() of a temporary gives dies before a loop over it begins.
inline std::vector<std::shared_ptr<const Spooled>> listed(Spool& spool) {
  return spool.list().value();
}

}  // namespace gearbox::client
