// fixture_files.hpp: the libraries that tests load, and bytes changed in them.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "core/plugin_host/scratch_folder.hpp"
#include "gearbox/base/bytes.hpp"

namespace gearbox::plugin_host {

inline fs::path fixture(const std::string& name) {
  return fs::path(GEARBOX_FIXTURES) / (name + ".so");
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
