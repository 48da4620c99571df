#include "core/session/node_fixture.hpp"

namespace gearbox::pipeline {
namespace {

using session::NodeFixture;
using wire::FrameType;

class Pipeline : public NodeFixture {};

TEST_F(Pipeline, ScattersAListAndGathersTheAnswersInOrder) {
  start({"split", "echo", "echo"});
  const Bytes bytes = some_bytes(60);
  const wire::Frame frame = ask(log_in(), "scatter", bytes, id_of(1));
  ASSERT_EQ(frame.header.type, FrameType::result) << frame.json;
  const auto result = wire::parse<wire::ResultMessage>(frame.json).value();
  ASSERT_EQ(result.tensors.size(), 1U);
  EXPECT_EQ(result.tensors[0].shape, std::vector<std::int64_t>{60});
  EXPECT_EQ(frame.payload, bytes);
  ASSERT_EQ(result.timing.steps.size(), 2U);
  EXPECT_EQ(result.timing.steps[1].calls, 60U);
}

TEST_F(Pipeline, OfAnEmptyListMakesNoCallAndAnswersWithAnEmptyTensor) {
  start({"split", "echo"});
  const session::NodeFixture::DevicePtr device = log_in();
  send(device, FrameType::submit, id_of(1), submit_of("scatter", {}));
  wire::Frame frame = next(device);
  while (frame.header.type == FrameType::accepted || frame.header.type == FrameType::upload_at) frame = next(device);
  ASSERT_EQ(frame.header.type, FrameType::result) << frame.json;
  const auto result = wire::parse<wire::ResultMessage>(frame.json).value();
  EXPECT_EQ(result.tensors.at(0).shape, std::vector<std::int64_t>{0});
  EXPECT_EQ(result.timing.steps.at(1).calls, 0U);
}

TEST_F(Pipeline, OneFailedItemFailsTheRequestAndNamesIt) {
  config_.tasks["scatter"].steps[1].model = "fail";
  start({"split", "fail"});
  const Error error = error_of(ask(log_in(), "scatter", some_bytes(5), id_of(1)));
  EXPECT_EQ(error.code, Errc::model_failed);
  EXPECT_NE(error.detail.find("step 'each' item"), std::string::npos) << error.detail;
  EXPECT_TRUE(until([&] { return dispatcher_->load().empty(); })) << "the other items are still under way";
}

class FixedSlab final : public worker_pool::Slab {
 public:
  explicit FixedSlab(std::size_t bytes) : bytes_(bytes) {}
  ByteSpan bytes() override { return bytes_; }
  shm::ArenaId arena() const override { return shm::kInputArena; }
  std::uint64_t offset() const override { return 0; }

 private:
  Bytes bytes_;
};

Value list_of(std::vector<std::vector<std::int64_t>> shapes) {
  Value value{.list = true, .tensors = {}, .dtype = wire::DType::fp32};
  for (auto& shape : shapes) {
    const std::uint64_t bytes = wire::element_count(shape).value() * 4;
    value.tensors.push_back(
        {{"score", wire::DType::fp32, std::move(shape), bytes}, 0, std::make_shared<FixedSlab>(bytes), 0});
  }
  return value;
}

TEST(Join, ItemsOfOneElementBecomeAVector) {
  const auto joined = join("scores", list_of({{1}, {1}, {1}}));
  ASSERT_EQ(joined.size(), 1U);
  EXPECT_EQ(joined[0].spec.shape, std::vector<std::int64_t>{3});
  EXPECT_EQ(joined[0].spec.bytes, 12U);
}

TEST(Join, ItemsOfOneShapeAreStacked) {
  const auto joined = join("scores", list_of({{4, 2}, {4, 2}}));
  ASSERT_EQ(joined.size(), 1U);
  EXPECT_EQ(joined[0].spec.shape, (std::vector<std::int64_t>{2, 4, 2}));
}

TEST(Join, ItemsOfDifferentShapesStayApart) {
  const auto joined = join("scores", list_of({{4}, {2}}));
  ASSERT_EQ(joined.size(), 2U);
  EXPECT_EQ(joined[1].spec.name, "scores.1");
  EXPECT_EQ(joined[1].spec.shape, std::vector<std::int64_t>{2});
}

}  // namespace
}  // namespace gearbox::pipeline
