#include "gearbox/model/record.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "support/temp_dir.hpp"

namespace gearbox::model {
namespace {

using ::testing::HasSubstr;

constexpr const char* kGood = R"(
name = "detect"
version = "1.2"
framework = "onnxruntime"
summary = "finds things"
max_batch = 4
max_delay_ms = 5
prefetch = 3
threads = 2
memory_mb = 300
max_output_kb = 2048
load_timeout_ms = 5000
call_timeout_ms = 7000

[[input]]
name = "image"
dtype = "UINT8"
shape = [-1, -1, 3]
probe_shape = [8, 8, 3]

[[output]]
name = "boxes"
dtype = "FP32"
shape = [4]
list = true

[[output]]
name = "any"
dtype = "ANY"
)";

class ModelFolder : public ::testing::Test {
 protected:
  void write(const std::string& toml, const std::string& python = "class Model: pass\n") {
    std::ofstream(temp_.path() / "model.toml") << toml;
    std::ofstream(temp_.path() / "model.py") << python;
  }
  std::string fault() {
    const auto record = read_record(temp_.path());
    if (record) return {};
    EXPECT_EQ(record.error().code, Errc::bad_config);
    return record.error().detail;
  }
  gearbox::testing::TempDir temp_;
};

TEST_F(ModelFolder, ReadsEveryKey) {
  write(kGood);
  const auto read = read_record(temp_.path());
  ASSERT_TRUE(read) << read.error().detail;
  const Record& record = read.value();
  EXPECT_EQ(record.name, "detect");
  EXPECT_EQ(record.version, "1.2");
  EXPECT_EQ(record.framework, "onnxruntime");
  EXPECT_EQ(record.file, "model.py");
  EXPECT_EQ(record.class_name, "Model");
  EXPECT_EQ(record.max_batch, 4U);
  EXPECT_EQ(record.max_delay_ms, 5U);
  EXPECT_EQ(record.prefetch, 3U);
  EXPECT_EQ(record.threads, 2U);
  EXPECT_EQ(record.memory_mb, 300U);
  EXPECT_EQ(record.max_output_bytes, 2048U * 1024);
  EXPECT_EQ(record.load_timeout_ms, 5000U);
  EXPECT_EQ(record.call_timeout_ms, 7000U);
  ASSERT_EQ(record.inputs.size(), 1U);
  EXPECT_EQ(record.inputs[0].probe_shape, (std::vector<std::int64_t>{8, 8, 3}));
  ASSERT_EQ(record.outputs.size(), 2U);
  EXPECT_TRUE(record.outputs[0].list);
  EXPECT_TRUE(record.outputs[1].any_dtype);
  EXPECT_TRUE(record.outputs[1].any_shape);
  EXPECT_EQ(record.digest.size(), 32U);
}

TEST_F(ModelFolder, TheProbesShapeHasOneForEachOpenDimension) {
  write(
      "name = 'm'\nversion = '1'\n[[input]]\nname = 'a'\ndtype = 'FP32'\nshape = [-1, 4]\n[[input]]\nname = 'b'\ndtype "
      "= 'ANY'\n"
      "[[output]]\nname = 'o'\ndtype = 'FP32'\n");
  const auto read = read_record(temp_.path());
  ASSERT_TRUE(read) << read.error().detail;
  EXPECT_EQ(read.value().inputs[0].probe_shape, (std::vector<std::int64_t>{1, 4}));
  EXPECT_EQ(read.value().inputs[1].probe_shape, (std::vector<std::int64_t>{1}));
}

TEST_F(ModelFolder, TheNextBatchIsHandedOverAheadUnlessTheRecordSaysOtherwise) {
  const std::string tensors = "[[input]]\nname = 'a'\ndtype = 'FP32'\n[[output]]\nname = 'o'\ndtype = 'FP32'\n";
  const auto prefetch_of = [&](const std::string& keys) {
    write("name = 'm'\nversion = '1'\n" + keys + tensors);
    const auto read = read_record(temp_.path());
    return read ? read.value().prefetch : 0;
  };
  EXPECT_EQ(prefetch_of(""), 2U);
  EXPECT_EQ(prefetch_of("max_batch = 8\n"), 8U);
  EXPECT_EQ(prefetch_of("max_batch = 8\nprefetch = 3\n"), 3U);
  EXPECT_EQ(prefetch_of("max_batch = 1024\n"), 128U);
  EXPECT_EQ(prefetch_of("stream = true\n"), 4U);
  EXPECT_EQ(prefetch_of("stream = true\nstreams = 128\n"), 128U);
  EXPECT_EQ(prefetch_of("stream = true\nstreams = 64\nprefetch = 2\n"), 2U);
  EXPECT_EQ(prefetch_of("stream = true\nstreams = 129\n"), 0U) << "more than a worker can hold";
}

TEST_F(ModelFolder, ABatchMayNotWaitLongerThanACallMayRun) {
  write(
      "name = 'm'\nversion = '1'\nmax_batch = 2\nmax_delay_ms = 500\ncall_timeout_ms = 500\n"
      "[[input]]\nname = 'a'\ndtype = 'FP32'\n[[output]]\nname = 'o'\ndtype = 'FP32'\n");
  EXPECT_THAT(fault(), HasSubstr("max_delay_ms: 500 is not below call_timeout_ms, 500"));
}

TEST_F(ModelFolder, TheDigestChangesWithTheRecordAndWithTheModelsCode) {
  write(kGood);
  const std::string first = read_record(temp_.path()).value().digest;
  EXPECT_EQ(read_record(temp_.path()).value().digest, first);
  write(kGood, "class Model: x = 1\n");
  const std::string second = read_record(temp_.path()).value().digest;
  EXPECT_NE(second, first);
  write(std::string(kGood) + "# a note\n", "class Model: x = 1\n");
  EXPECT_NE(read_record(temp_.path()).value().digest, second);
}

TEST_F(ModelFolder, TellsAllFaultsOfOneFileAtOnce) {
  write(
      "name = '../m'\nversion = 1\nmax_batch = 0\nthreds = 2\n[[input]]\nname = 'a'\ndtype = 'FLOAT'\nshape = "
      "[-2]\n[[output]]\nname = 'o'\ndtype = 'FP32'\n");
  const std::string text = fault();
  EXPECT_THAT(text, HasSubstr("model.toml:1:8: name: '../m' is no name"));
  EXPECT_THAT(text, HasSubstr("model.toml:2:11: version: expected a text in quotes, got an integer"));
  EXPECT_THAT(text, HasSubstr("model.toml:3:13: max_batch: 0 is out of range (1 to 1024)"));
  EXPECT_THAT(text, HasSubstr("model.toml:4:1: threds: unknown key; did you mean 'threads'?"));
  EXPECT_THAT(text, HasSubstr("model.toml:7:9: input[1].dtype: 'FLOAT' is no type"));
  EXPECT_THAT(text, HasSubstr("model.toml:8:9: input[1].shape: -2 is out of range"));
}

TEST_F(ModelFolder, RefusesARecordWithoutItsModelFile) {
  std::ofstream(temp_.path() / "model.toml") << kGood;
  EXPECT_THAT(fault(), HasSubstr("model.py: no such file"));
}

TEST_F(ModelFolder, TheModelFileCannotLieOutsideTheFolder) {
  write("file = '../model.py'\n" + std::string(kGood));
  EXPECT_THAT(fault(), HasSubstr("file: '../model.py' is no name"));
}

TEST_F(ModelFolder, RefusesTensorsOfOneNameAndProbesThatDoNotFit) {
  write(
      "name = 'm'\nversion = '1'\n[[input]]\nname = 'a'\ndtype = 'FP32'\nshape = [4]\nprobe_shape = "
      "[5]\n[[input]]\nname = 'a'\ndtype = 'FP32'\n"
      "[[output]]\nname = 'o'\ndtype = 'FP32'\n");
  const std::string text = fault();
  EXPECT_THAT(text, HasSubstr("'a' is there twice"));
  EXPECT_THAT(text, HasSubstr("[5] does not fit shape [4]"));
}

TEST_F(ModelFolder, RefusesAProbeThatWouldBeHuge) {
  write(
      "name = 'm'\nversion = '1'\n[[input]]\nname = 'a'\ndtype = 'FP32'\nshape = [100000, 100000]\n[[output]]\nname = "
      "'o'\ndtype = 'FP32'\n");
  EXPECT_THAT(fault(), HasSubstr("give a smaller probe_shape"));
}

TEST_F(ModelFolder, RefusesAMissingFolder) {
  EXPECT_EQ(read_record(temp_.path() / "none").error().code, Errc::bad_config);
}

TEST(CheckFits, NamesTensorExpectedAndGiven) {
  TensorDecl declared;
  declared.name = "image";
  declared.shape = {-1, -1, 3};
  EXPECT_TRUE(check_fits(declared, {.name = "image", .dtype = wire::DType::uint8, .shape = {2, 5, 3}, .bytes = 30}));
  const auto wrong =
      check_fits(declared, {.name = "image", .dtype = wire::DType::uint16, .shape = {2, 5}, .bytes = 20});
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, Errc::bad_input);
  EXPECT_EQ(wrong.error().detail, "tensor 'image': expected UINT8 [-1, -1, 3], got UINT16 [2, 5]");
}

TEST(CheckFits, AnyTakesEverything) {
  TensorDecl declared;
  declared.any_dtype = true;
  declared.any_shape = true;
  EXPECT_TRUE(check_fits(declared, {.name = "x", .dtype = wire::DType::bytes, .shape = {}, .bytes = 4}));
}

}  // namespace
}  // namespace gearbox::model
