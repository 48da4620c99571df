#include "result_files.hpp"

#include <gtest/gtest.h>

#include "gearbox/wire/raw_image.hpp"
#include "support.hpp"

namespace gearbox::client {
namespace {

Report boxes_report(const std::string& file) {
  Report report;
  report.file = file;
  wire::TensorSpec boxes;
  boxes.name = "boxes";
  boxes.dtype = wire::DType::fp32;
  boxes.shape = {2, 1};
  boxes.bytes = 8;
  report.result.tensors = {boxes};
  report.payload = Bytes(8, std::byte{0x3F});
  return report;
}

Bytes content(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const ByteView view = view_of(text);
  return Bytes(view.begin(), view.end());
}

TEST(ResultFiles, WritesNpyThatReadsBack) {
  for (const std::vector<std::int64_t>& shape : std::vector<std::vector<std::int64_t>>{{6}, {2, 3}, {1, 2, 3}}) {
    wire::TensorSpec spec;
    spec.name = "t";
    spec.dtype = wire::DType::uint16;
    spec.shape = shape;
    spec.bytes = 12;
    Bytes data(12);
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i);
    const Bytes npy = to_npy(spec, data);
    const Outcome<wire::RawImage> back = wire::read_raw_image(npy, "t");
    ASSERT_TRUE(back) << describe(back.error());
    EXPECT_EQ(back.value().spec.shape, shape);
    EXPECT_EQ(back.value().spec.dtype, wire::DType::uint16);
    EXPECT_TRUE(std::ranges::equal(back.value().data, data));
  }
}

TEST(ResultFiles, NamesFilesByInputAndTensorAndNeverOverwrites) {
  const ScratchFolder scratch;
  const std::filesystem::path out = scratch.path() / "out";
  Report first = boxes_report("a/tag.jpg");
  Report second = boxes_report("b/tag.jpg");
  second.request.bytes[0] = std::byte{1};
  ASSERT_TRUE(write_results(first, out));
  ASSERT_TRUE(write_results(second, out));
  EXPECT_EQ(first.paths[0], (out / "tag.boxes.npy").string());
  EXPECT_NE(second.paths[0], first.paths[0]);
  EXPECT_EQ(content(first.paths[0]).size(), content(second.paths[0]).size());
}

TEST(ResultFiles, ATensorNameNeverLeavesTheFolder) {
  const ScratchFolder scratch;
  Report report = boxes_report("tag.jpg");
  report.result.tensors[0].name = "../../evil";
  const Outcome<void> written = write_results(report, scratch.path());
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, Errc::bad_name);
}

TEST(ResultFiles, AFolderThatCannotBeMadeIsNamed) {
  const ScratchFolder scratch;
  const std::string file = scratch.file("taken", "x");
  Report report = boxes_report("tag.jpg");
  const Outcome<void> written = write_results(report, file);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, Errc::io_error);
  EXPECT_NE(written.error().detail.find("taken"), std::string::npos);
}

}  // namespace
}  // namespace gearbox::client
