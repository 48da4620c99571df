// config_folder.hpp: a configuration that loads, to be spoilt one file at a time.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "config/config.hpp"
#include "support/temp_dir.hpp"

namespace gearbox::config {

inline constexpr const char* kMain =
    "[env.py]\npython = \"py/bin/python\"\n\n"
    "[[worker]]\nmodel = \"detect\"\nenv = \"py\"\n\n"
    "[[worker]]\nmodel = \"read\"\nversion = \"2\"\nenv = \"py\"\ncount = 2\n";

inline constexpr const char* kDetect =
    "name = \"detect\"\nversion = \"1\"\n"
    "[[input]]\nname = \"image\"\ndtype = \"UINT8\"\nshape = [-1, -1, 3]\n"
    "[[output]]\nname = \"crops\"\ndtype = \"UINT8\"\nshape = [-1, -1, 3]\nlist = true\n"
    "[[output]]\nname = \"count\"\ndtype = \"INT64\"\nshape = [1]\n";

inline constexpr const char* kRead =
    "name = \"read\"\nversion = \"2\"\n"
    "[[input]]\nname = \"crop\"\ndtype = \"UINT8\"\nshape = [-1, -1, 3]\n"
    "[[output]]\nname = \"text\"\ndtype = \"BYTES\"\nshape = [1]\n";

inline constexpr const char* kTask =
    "summary = \"reads text\"\n"
    "[[input]]\nname = \"image\"\ndtype = \"UINT8\"\nshape = [-1, -1, 3]\n"
    "[[step]]\nname = \"detect\"\nmodel = \"detect\"\n[step.inputs]\nimage = \"request.image\"\n"
    "[[step]]\nname = \"read\"\nmodel = \"read\"\nversion = \"2\"\nfor_each = \"crop\"\n[step.inputs]\ncrop = "
    "\"detect.crops\"\n"
    "[result]\ntext = \"read.text\"\ncount = \"detect.count\"\n";

class ConfigFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    write("gearbox.toml", kMain);
    write("models/detect/model.toml", kDetect);
    write("models/detect/model.py", "class Model: pass\n");
    write("models/read/model.toml", kRead);
    write("models/read/model.py", "class Model: pass\n");
    write("tasks/read-text.toml", kTask);
  }
  void write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((temp_.path() / name).parent_path());
    std::ofstream(temp_.path() / name) << text;
  }
  /// Writes `text` with `from`, which must be in it, replaced by `to`.
  void write_changed(const std::string& name, std::string text, const std::string& from, const std::string& to) {
    const std::size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    write(name, text.replace(at, from.size(), to));
  }
  /// The faults' text; empty when it loads.
  std::string faults() {
    const auto loaded = load(temp_.path());
    if (loaded) return {};
    EXPECT_EQ(loaded.error().code, Errc::bad_config);
    return loaded.error().detail;
  }
  const std::filesystem::path& folder() const { return temp_.path(); }

 private:
  gearbox::testing::TempDir temp_;
};

}  // namespace gearbox::config
