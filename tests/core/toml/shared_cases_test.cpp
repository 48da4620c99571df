// The small files of ../shared/cases, when they are there: each refused with its line, or read, in this one process.
#include <gtest/gtest.h>

#include <filesystem>
#include <iostream>
#include <string>

#include "gearbox/toml/document.hpp"

namespace gearbox::toml {
namespace {

namespace fs = std::filesystem;

fs::path cases() {
  return fs::path(GEARBOX_SOURCE_DIR) / "../shared/cases";
}

/// Reads a case the way a room would: known keys, ranges, unknown keys.
std::string faults_of(const fs::path& file) {
  Faults faults;
  if (const auto document = Document::read(file, file.filename().string(), faults)) {
    const Table root = document->root();
    if (const auto server = root.table("server")) {
      static_cast<void>(server->text("host", ""));
      static_cast<void>(server->integer("port", 1, 1, 65535));
    }
    if (const auto executor = root.table("executor")) static_cast<void>(executor->integer("workers", 1, 1, 64));
    if (const auto scheduler = root.table("scheduler"))
      static_cast<void>(scheduler->integer("queue_depth", 1, 1, 1'000'000));
    if (const auto limits = root.table("limits")) static_cast<void>(limits->integer("max_frame_bytes", 1, 1, 1 << 30));
    document->report_unknown_keys();
  }
  return faults.empty() ? std::string() : faults.error().detail;
}

TEST(SharedCases, EveryBadFileIsRefusedAndTheGoodOneIsRead) {
  if (!fs::is_directory(cases())) {
    std::cout << "NOT RUN: no ../shared/cases beside the source\n";
    GTEST_SKIP();
  }
  std::size_t seen = 0;
  for (const auto& entry : fs::directory_iterator(cases())) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() != ".toml") continue;
    ++seen;
    const bool good = name == "c36_full.toml" || name == "c36_cut_valid_prefix.toml";
    EXPECT_EQ(faults_of(entry.path()).empty(), good) << name << ": " << faults_of(entry.path());
  }
  EXPECT_GE(seen, 30U);
}

}  // namespace
}  // namespace gearbox::toml
