#include "gearbox/base/text.hpp"

#include <gtest/gtest.h>

namespace gearbox {
namespace {

TEST(Names, AllowsWhatTheRuleSays) {
  for (const char* good : {"a", "Z9", "read-text", "v1.2.3", "a_b", "0"}) EXPECT_TRUE(is_name(good)) << good;
  EXPECT_TRUE(is_name(std::string(64, 'a')));
}

TEST(Names, RefusesAllElse) {
  for (const char* bad :
       {"", ".", "..", "a..b", "-a", "_a", ".a", "a/b", "a b", "a\n", "ä", "a\\b", "a:b", "../etc/passwd"}) {
    EXPECT_FALSE(is_name(bad)) << bad;
  }
  EXPECT_FALSE(is_name(std::string(65, 'a')));
  EXPECT_FALSE(is_name(std::string_view("a\0b", 3)));
}

TEST(Names, QuotesABadOneEscapedAndCut) {
  const auto refused = check_name("task", std::string(500, '\n'));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Errc::bad_name);
  EXPECT_NE(refused.error().detail.find("task name"), std::string::npos);
  EXPECT_EQ(refused.error().detail.find('\n'), std::string::npos);
  EXPECT_LT(refused.error().detail.size(), 250U);
}

TEST(Escaped, KeepsPlainTextAndWellFormedUtf8) {
  EXPECT_EQ(escaped("plain text, Käse \xE2\x82\xAC \xF0\x9F\x90\x84"),
            "plain text, Käse \xE2\x82\xAC \xF0\x9F\x90\x84");
}

TEST(Escaped, MakesOneLineOfControlBytesAndBrokenUtf8) {
  EXPECT_EQ(escaped("a\nb\r\x1b[2J\x7f"), "a\\x0ab\\x0d\\x1b[2J\\x7f");
  EXPECT_EQ(escaped("back\\slash"), "back\\\\slash");
  EXPECT_EQ(escaped("\xFF\xC3"), "\\xff\\xc3");
  EXPECT_EQ(escaped("\xC2\x85"), "\\xc2\\x85");           // NEL
  EXPECT_EQ(escaped("\xE2\x80\xA8"), "\\xe2\\x80\\xa8");  // line separator
  EXPECT_EQ(escaped("\xED\xA0\x80"), "\\xed\\xa0\\x80");  // a surrogate
  EXPECT_EQ(escaped("\xC0\xAF"), "\\xc0\\xaf");           // overlong
}

TEST(Escaped, CutsAtTheLimit) {
  const std::string cut = escaped(std::string(10'000, 'x'), 20);
  EXPECT_EQ(cut, std::string(20, 'x') + "...");
}

TEST(Utf8, TellsWellFormedFromBroken) {
  EXPECT_TRUE(is_utf8("abc \xC3\xA4 \xF4\x8F\xBF\xBF"));
  for (const char* bad :
       {"\x80", "\xC3", "\xC1\x81", "\xE0\x80\x80", "\xED\xBF\xBF", "\xF4\x90\x80\x80", "\xF8\x88\x80\x80\x80"}) {
    EXPECT_FALSE(is_utf8(bad));
  }
}

TEST(Nearest, FindsASlipAndNothingFarAway) {
  const std::vector<std::string> keys{"workers", "queue_limit", "address"};
  EXPECT_EQ(nearest("worker", keys), "workers");
  EXPECT_EQ(nearest("qeue_limit", keys), "queue_limit");
  EXPECT_EQ(nearest("zebra_crossing", keys), "");
  EXPECT_EQ(nearest("anything", {}), "");
}

}  // namespace
}  // namespace gearbox
