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

TEST(Utf8Pieces, PutsCharactersTogetherWhereverTheyAreCut) {
  const std::string all = "aß東🐞é!";
  for (std::size_t first = 0; first <= all.size(); ++first) {
    for (std::size_t second = first; second <= all.size(); ++second) {
      Utf8Pieces pieces;
      std::string shown;
      for (const std::string& piece : {all.substr(0, first), all.substr(first, second - first), all.substr(second)}) {
        const std::string now = pieces.add(piece);
        EXPECT_TRUE(is_utf8(now)) << first << " " << second;
        shown += now;
      }
      EXPECT_EQ(shown + pieces.end(), all) << first << " " << second;
    }
  }
}

TEST(Utf8Pieces, ShowsACharacterAsSoonAsItIsWhole) {
  Utf8Pieces pieces;
  EXPECT_EQ(pieces.add("x\xF0\x9F"), "x");
  EXPECT_EQ(pieces.add("\x90"), "");
  EXPECT_EQ(pieces.add("\x9Ey"), "🐞y");
}

TEST(Utf8Pieces, MarksWhatIsNoTextAndWhatWouldSteerTheTerminal) {
  Utf8Pieces pieces;
  EXPECT_EQ(pieces.add("a\xFF\x1B[2J\tb\n\\"), "a\\xff\\x1b[2J\tb\n\\");
  EXPECT_EQ(pieces.add("\xC3"), "");
  EXPECT_EQ(pieces.add("("), "\\xc3(");
  EXPECT_EQ(pieces.add("\xE6\x9D"), "");
  EXPECT_EQ(pieces.end(), "\\xe6\\x9d");
  EXPECT_EQ(pieces.end(), "");
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
