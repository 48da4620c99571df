#include <gtest/gtest.h>

#include <string>

#include "gearbox/toml/document.hpp"

namespace gearbox::toml {
namespace {

std::string repeated(std::string_view piece, std::size_t times) {
  std::string text;
  for (std::size_t i = 0; i < times; ++i) text += piece;
  return text;
}

std::string fault_of(const std::string& text) {
  const auto checked = check_nesting(text);
  return checked ? std::string() : checked.error().detail;
}

TEST(Nesting, RefusesADottedKeyOf400Kilobytes) {
  EXPECT_EQ(fault_of(repeated("a.", 200'000) + "a = 1\n"), "1:64: a dotted key of more than 32 parts");
}

TEST(Nesting, RefusesALongTableHeaderWithItsLine) {
  EXPECT_EQ(fault_of("x = 1\n[" + repeated("a.", 200'000) + "a]\n"), "2:65: a dotted key of more than 32 parts");
}

TEST(Nesting, AllowsExactlyThirtyTwoPartsAndNoMore) {
  EXPECT_EQ(fault_of(repeated("a.", 31) + "a = 1\n"), "");
  EXPECT_NE(fault_of(repeated("a.", 32) + "a = 1\n"), "");
}

TEST(Nesting, RefusesDeepArraysAndInlineTablesClosedOrNot) {
  EXPECT_EQ(fault_of("a = " + repeated("[", 32) + repeated("]", 32)), "");
  EXPECT_EQ(fault_of("a = " + repeated("[", 33) + repeated("]", 33)), "1:37: nested more than 32 deep");
  EXPECT_NE(fault_of("a = " + repeated("[", 100'000)), "");
  EXPECT_NE(fault_of("a = " + repeated("{a=", 20'000)), "");
}

TEST(Nesting, CountsNothingInsideStringsAndComments) {
  const std::string dots = repeated(".", 100) + repeated("[", 100);
  EXPECT_EQ(fault_of("a = \"" + dots + "\"\n"), "");
  EXPECT_EQ(fault_of("a = '" + dots + "'\n"), "");
  EXPECT_EQ(fault_of("a = \"\"\"\n" + dots + "\n\"\"\"\n"), "");
  EXPECT_EQ(fault_of("a = '''\n" + dots + "\n'''\n"), "");
  EXPECT_EQ(fault_of("a = 1 # " + dots + "\n"), "");
}

TEST(Nesting, IsNotFooledByQuotesThatOnlyLookLikeTheEnd) {
  const std::string deep = repeated("[", 40);
  EXPECT_NE(fault_of("a = \"\\\\\"\nb = " + deep), "");           // an escaped backslash, then the end
  EXPECT_EQ(fault_of("a = \"\\\"" + deep + "\"\n"), "");          // an escaped quote: still inside
  EXPECT_NE(fault_of("a = \"\"\nb = " + deep), "");               // the empty string
  EXPECT_NE(fault_of("a = \"\"\"x\"\"\"\"\"\nb = " + deep), "");  // two quotes before the closing three
  EXPECT_NE(fault_of("a = \"open\nb = " + deep), "");             // a string that a line's end cuts
  EXPECT_NE(fault_of("a = \"\"\"x\\\ny\"\"\"\nb = " + deep), "");
}

TEST(Nesting, KeepsAHeaderWithoutANameFromTheParserWhichTakesItForImpossible) {
  for (const char* header : {"[# a comment]\n", "[\n", "[ =]\n", "[[# x]]\n", "[ \t[ . ]]\n", "[\xC3\xA9]\n", "[,]"}) {
    EXPECT_EQ(fault_of(header), "1:1: a table without a name") << header;
    EXPECT_EQ(fault_of(std::string("a = 1\n \t") + header), "2:3: a table without a name") << header;
    EXPECT_EQ(fault_of(std::string("\xEF\xBB\xBF") + header), "1:1: a table without a name") << header;
    Faults faults;
    EXPECT_FALSE(Document::parse(header, "a.toml", faults));
  }
  for (const char* fine : {"[a]\n", "[ \"a b\" ]\n", "[['a']]\n", "[]\n", "[[]]\n", "[", "[[", "a = [# none\n]\n",
                           "a = [\n [# none\n ],\n]\n", "a = \"\"\"\n[# text\n\"\"\"\n", "# [# text\n"}) {
    EXPECT_EQ(fault_of(fine), "") << fine;
    Faults faults;
    (void)Document::parse(fine, "a.toml", faults);
  }
}

TEST(Nesting, SurvivesAnyCutOfAFile) {
  const std::string text = "[a.b]\nx = \"\"\"q\\\"\"\"\"\ny = ['''z''', {k = 1}]\n";
  for (std::size_t length = 0; length <= text.size(); ++length)
    EXPECT_EQ(fault_of(text.substr(0, length)), "") << length;
}

}  // namespace
}  // namespace gearbox::toml
