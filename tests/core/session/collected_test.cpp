#include "session/collected.hpp"

#include <gtest/gtest.h>

namespace gearbox::session {
namespace {

class OneSlab final : public worker_pool::Slab {
 public:
  explicit OneSlab(std::string_view text) : bytes_(view_of(text).begin(), view_of(text).end()) {}
  ByteSpan bytes() override { return bytes_; }
  shm::ArenaId arena() const override { return shm::ArenaId{1}; }
  std::uint64_t offset() const override { return 0; }

 private:
  Bytes bytes_;
};

pipeline::RunPart part(std::uint32_t number, std::string_view text, bool grows) {
  worker_pool::TensorRef tensor;
  tensor.spec = {"text", wire::DType::uint8, {static_cast<std::int64_t>(text.size())}, text.size()};
  tensor.slab = std::make_shared<OneSlab>(text);
  pipeline::RunPart made;
  made.number = number;
  made.tensors.push_back({tensor.spec, {tensor}});
  made.grows.push_back(grows);
  return made;
}

std::string text_of_all(const pipeline::ResultTensor& tensor) {
  std::string text;
  for (const worker_pool::TensorRef& piece : tensor.pieces) text += text_of(piece.bytes());
  return text;
}

TEST(Collected, PutsGrowingTensorsBehindEachOtherWhateverTheirSizes) {
  Collected all(1 << 20);
  for (const auto& [number, text] : {std::pair{0U, "ab"}, std::pair{1U, ""}, std::pair{2U, "cde"}}) {
    EXPECT_TRUE(all.add(part(number, text, true)));
  }
  const auto tensors = all.tensors({{"text", wire::DType::uint8}});
  ASSERT_EQ(tensors.size(), 1U);
  EXPECT_EQ(tensors[0].spec.shape, (std::vector<std::int64_t>{5}));
  EXPECT_EQ(tensors[0].spec.bytes, 5U);
  EXPECT_EQ(text_of_all(tensors[0]), "abcde");
}

TEST(Collected, MakesAListOfOthers) {
  Collected all(1 << 20);
  all.add(part(0, "ab", false));
  all.add(part(1, "cd", false));
  const auto tensors = all.tensors({});
  ASSERT_EQ(tensors.size(), 1U);
  EXPECT_EQ(tensors[0].spec.shape, (std::vector<std::int64_t>{2, 2}));
}

TEST(Collected, NamesAlsoWhatNeverCame) {
  const auto tensors = Collected(1 << 20).tensors({{"text", wire::DType::bytes}});
  ASSERT_EQ(tensors.size(), 1U);
  EXPECT_EQ(tensors[0].spec.dtype, wire::DType::bytes);
  EXPECT_EQ(tensors[0].spec.shape, (std::vector<std::int64_t>{0}));
}

TEST(Collected, KeepsTheFirstOnesWithinItsLimitAndCountsTheRest) {
  Collected all(2'000);
  for (std::uint32_t i = 0; i < 100; ++i) all.add(part(i, i == 3 ? std::string(3000, 'x') : "ab", true));
  EXPECT_EQ(all.kept(), 3U) << "nothing after the first that did not fit";
  EXPECT_EQ(all.came(), 100U);
  Collected tiny(100'000);  // parts without bytes cost something too
  std::uint32_t fit = 0;
  while (tiny.add(part(fit, "", true))) ++fit;
  EXPECT_LT(fit, 400U);
}

}  // namespace
}  // namespace gearbox::session
