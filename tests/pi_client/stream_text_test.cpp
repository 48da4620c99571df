#include "stream_text.hpp"

#include <gtest/gtest.h>

#include "gearbox/base/text.hpp"

namespace gearbox::client {
namespace {

Part text_part(const std::string& text, wire::DType type = wire::DType::uint8) {
  Part part;
  std::string bytes = text;
  if (type == wire::DType::bytes) {
    std::array<std::byte, 4> length{};
    store_le(length.data(), static_cast<std::uint32_t>(text.size()));
    bytes = std::string(text_of(length)) + text;
  }
  const auto count = type == wire::DType::bytes ? 1 : static_cast<std::int64_t>(bytes.size());
  part.tensors.push_back({"text", type, {count}, bytes.size()});
  part.bytes = bytes.size();
  part.payload.assign(view_of(bytes).begin(), view_of(bytes).end());
  return part;
}

TEST(StreamText, JoinsTextsOfBothKindsAndEndsTheLine) {
  for (const wire::DType type : {wire::DType::uint8, wire::DType::bytes}) {
    StreamText text;
    EXPECT_EQ(text.add(text_part("K\xC3", type)), "K");
    EXPECT_EQ(text.add(text_part("\xA4"
                                 "fer",
                                 type)),
              "äfer");
    EXPECT_EQ(text.end(), "\n");
    EXPECT_EQ(text.add(text_part("x\n", type)), "x\n");
    EXPECT_EQ(text.end(), "");
  }
}

TEST(StreamText, GivesALineForEachPartOfOtherTensors) {
  StreamText text;
  Part part = text_part("ab");
  part.tensors.push_back({"score", wire::DType::uint8, {1, 1}, 1});
  part.payload.push_back(std::byte{7});
  EXPECT_EQ(text.add(part), "ab\nscore UINT8 [1,1]: 7\n");
}

}  // namespace
}  // namespace gearbox::client
