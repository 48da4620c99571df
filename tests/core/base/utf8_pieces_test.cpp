#include "gearbox/base/utf8_pieces.hpp"

#include <gtest/gtest.h>

#include "gearbox/base/text.hpp"

namespace gearbox {
namespace {

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

}  // namespace
}  // namespace gearbox
