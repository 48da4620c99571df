// fixture_files.hpp: whole files in and out, and bytes changed in them.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "gearbox/base/bytes.hpp"

namespace gearbox::plugin_host {

namespace fs = std::filesystem;

inline fs::path fixture(const std::string& name) {
  return fs::path(GEARBOX_FIXTURES) / (name + ".so");
}

inline std::string content_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  EXPECT_TRUE(in.good()) << file;
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// 0755: what a user's umask leaves, and nobody else may write to it.
inline fs::path write_file(const fs::path& file, std::string_view content) {
  std::ofstream(file, std::ios::binary | std::ios::trunc) << content;
  fs::permissions(file, fs::perms(0755));
  return file;
}

/// `content` with each `from` replaced by `to`, which is as long.
inline std::string patched(std::string content, std::string_view from, std::string_view to) {
  EXPECT_EQ(from.size(), to.size());
  std::size_t found = 0;
  for (std::size_t at = content.find(from); at != std::string::npos; at = content.find(from, at + 1), ++found) {
    content.replace(at, from.size(), to);
  }
  EXPECT_GT(found, 0U) << from;
  return content;
}

/// The descriptor starts with its magic, which stands in the file once.
inline std::string with_descriptor_u32(std::string content, std::size_t offset, std::uint32_t value) {
  const std::size_t at = content.find("GBXPLGN1");
  EXPECT_NE(at, std::string::npos);
  store_le<std::uint32_t>(reinterpret_cast<std::byte*>(content.data() + at + offset), value);
  return content;
}

}  // namespace gearbox::plugin_host
