#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "gearbox/toml/document.hpp"

namespace gearbox::toml {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// Parses `text` as "f.toml", lets `read` look at the root, and gives the faults' text.
template <class Read>
std::string faults_of(const std::string& text, Read read) {
  Faults faults;
  if (const auto document = Document::parse(text, "f.toml", faults)) {
    read(document->root());
    document->report_unknown_keys();
  }
  return faults.empty() ? std::string() : faults.error().detail;
}
std::string faults_of(const std::string& text) {
  return faults_of(text, [](const Table&) {});
}

TEST(Document, GivesValuesThatAreThereAndFallbacksForThoseThatAreNot) {
  const std::string faults = faults_of(
      "port = 80\nname = 'node-1'\non = true\nshape = [1, -1]\n[limits]\nload = 0.5\n", [](const Table& root) {
        EXPECT_EQ(root.integer("port", 7, 1, 65535), 80);
        EXPECT_EQ(root.integer("other", 7, 1, 65535), 7);
        EXPECT_EQ(root.name("name", ""), "node-1");
        EXPECT_TRUE(root.boolean("on", false));
        EXPECT_EQ(root.integers("shape", -1, 10, 8), (std::vector<std::int64_t>{1, -1}));
        EXPECT_DOUBLE_EQ(root.table("limits")->number("load", 0, 0, 1), 0.5);
      });
  EXPECT_EQ(faults, "");
}

TEST(Document, TellsEveryFaultWithFileLineColumnAndKey) {
  const std::string faults = faults_of("[server]\nport = 65616\nhost = 5\n", [](const Table& root) {
    const auto server = root.table("server");
    EXPECT_EQ(server->integer("port", 1, 1, 65535), 1);
    EXPECT_EQ(server->text("host", "h"), "h");
  });
  EXPECT_EQ(faults,
            "f.toml:2:8: server.port: 65616 is out of range (1 to 65535)\n"
            "f.toml:3:8: server.host: expected a text in quotes, got an integer");
}

TEST(Document, NeverTakesAnotherTypeForAnInteger) {
  for (const char* value : {"8080.0", "\"8080\"", "true", "[1]", "{a = 1}", "1979-05-27"}) {
    const std::string faults = faults_of(std::string("port = ") + value + "\n", [](const Table& root) {
      if (root.is_table("port")) return;
      EXPECT_EQ(root.integer("port", 1, 1, 65535), 1);
    });
    EXPECT_THAT(faults, StartsWith("f.toml:1:")) << value;
  }
}

TEST(Document, RefusesNumbersThatDoNotFit64Bits) {
  for (const char* value : {"9223372036854775808", "-9223372036854775809", "0x1FFFFFFFFFFFFFFFF",
                            "100000000000000000000", "0x", "80__80", "0080"}) {
    EXPECT_THAT(faults_of(std::string("port = ") + value + "\n"), StartsWith("f.toml:1:")) << value;
  }
}

TEST(Document, RefusesNumbersThatAreNone) {
  for (const char* value : {"nan", "inf", "-inf", "1e300"}) {
    const std::string faults = faults_of(std::string("load = ") + value + "\n",
                                         [](const Table& root) { EXPECT_EQ(root.number("load", 0.25, 0, 1), 0.25); });
    EXPECT_THAT(faults, HasSubstr("out of range (0 to 1)")) << value;
  }
}

TEST(Document, NamesTheNearestKeyForAnUnknownOne) {
  const std::string faults = faults_of("[server]\nprot = 8080\nzzzzzzzzz = 1\n", [](const Table& root) {
    static_cast<void>(root.table("server")->integer("port", 1, 1, 65535));
  });
  EXPECT_EQ(faults,
            "f.toml:2:1: server.prot: unknown key; did you mean 'port'?\n"
            "f.toml:3:1: server.zzzzzzzzz: unknown key");
}

TEST(Document, AnUnknownTableIsAnUnknownKey) {
  EXPECT_THAT(faults_of("[servr]\nport = 1\n", [](const Table& root) { static_cast<void>(root.table("server")); }),
              HasSubstr("servr: unknown key; did you mean 'server'?"));
}

TEST(Document, RefusesKeysAndTablesGivenTwice) {
  EXPECT_THAT(faults_of("port = 1\nport = 2\n"), StartsWith("f.toml:2:"));
  EXPECT_THAT(faults_of("[a]\nx = 1\n[a]\ny = 1\n"), StartsWith("f.toml:3:"));
  EXPECT_THAT(faults_of("a = 1\n[a]\nx = 1\n"), StartsWith("f.toml:2:"));
}

TEST(Document, ReadsTablesInTablesWithTheirNumbersInFaults) {
  const std::string faults = faults_of("[[worker]]\ncount = 1\n[[worker]]\ncount = -1\n", [](const Table& root) {
    const auto workers = root.tables("worker", 10);
    ASSERT_EQ(workers.size(), 2U);
    EXPECT_EQ(workers[0].integer("count", 5, 0, 64), 1);
    EXPECT_EQ(workers[1].integer("count", 5, 0, 64), 5);
  });
  EXPECT_EQ(faults, "f.toml:4:9: worker[2].count: -1 is out of range (0 to 64)");
}

TEST(Document, RefusesMoreTablesThanAllowed) {
  EXPECT_THAT(faults_of("[[w]]\n[[w]]\n[[w]]\n", [](const Table& root) { EXPECT_TRUE(root.tables("w", 2).empty()); }),
              HasSubstr("3 entries, at most 2"));
}

TEST(Document, RefusesNamesOutsideTheAllowList) {
  for (const char* bad : {"../etc", "a/b", "", ".hidden", "a\\u0000b", "ä"}) {
    EXPECT_THAT(faults_of(std::string("model = \"") + bad + "\"\n",
                          [](const Table& root) { EXPECT_EQ(root.name("model", "x"), "x"); }),
                HasSubstr("is no name"))
        << bad;
  }
}

TEST(Document, RefusesWhatIsNoTextFileBeforeParsing) {
  EXPECT_EQ(faults_of(""), "f.toml: is empty");
  EXPECT_EQ(faults_of(" \n\n"), "f.toml: is empty");
  EXPECT_EQ(faults_of("a = 1\nb = '\xff\xfe'\n"), "f.toml:2:6: is not UTF-8");
  EXPECT_EQ(faults_of(std::string("a = 1\n# x\0y\n", 11)), "f.toml:2:4: contains a NUL byte");
  EXPECT_EQ(faults_of("a = '" + std::string(kMaxFileBytes, 'x') + "'"), "f.toml: is larger than 262144 bytes");
}

TEST(Document, AFaultIsOneLineWhateverTheKeyHolds) {
  const std::string faults = faults_of("\"a\\nb\\u001b[31m\" = 1\n");
  EXPECT_EQ(faults.find('\n'), std::string::npos);
  EXPECT_EQ(faults.find('\x1b'), std::string::npos);
  EXPECT_THAT(faults, HasSubstr("a\\x0ab\\x1b[31m: unknown key"));
}

TEST(Document, TellsAtMostFiftyFaultsAndCountsTheRest) {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "k" + std::to_string(i) + " = 1\n";
  EXPECT_THAT(faults_of(text), HasSubstr("and 10 more faults"));
}

class DocumentFile : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/gearbox-toml-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path folder_;
};

TEST_F(DocumentFile, SaysThatAFileIsMissing) {
  Faults faults;
  EXPECT_FALSE(Document::read(folder_ / "none.toml", "none.toml", faults));
  EXPECT_EQ(faults.error().detail, "none.toml: no such file");
}

TEST_F(DocumentFile, DoesNotWaitForAFifoNorReadAFolder) {
  ASSERT_EQ(::mkfifo((folder_ / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(read_file(folder_ / "fifo").error().detail, "is not a regular file");
  EXPECT_EQ(read_file(folder_).error().detail, "is not a regular file");
}

TEST_F(DocumentFile, RefusesAFileOverTheLimitWithoutReadingIt) {
  std::ofstream(folder_ / "big") << std::string(1001, 'x');
  EXPECT_EQ(read_file(folder_ / "big", 1000).error().code, Errc::too_large);
  EXPECT_EQ(read_file(folder_ / "big", 1001).value().size(), 1001U);
}

}  // namespace
}  // namespace gearbox::toml
