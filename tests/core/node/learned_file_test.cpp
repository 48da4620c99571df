// What a node keeps of central's words for its next process.
#include "node/learned_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <sstream>

#include "gearbox/base/boot.hpp"
#include "gearbox/base/text.hpp"
#include "gearbox/link/keys.hpp"
#include "node/central_dialler.hpp"
#include "support/temp_dir.hpp"

namespace gearbox::node {
namespace {

CentralKey key_of(unsigned byte) {
  CentralKey key;
  key.fill(static_cast<std::byte>(byte));
  return key;
}

class LearnedFile : public ::testing::Test {
 public:
  void SetUp() override {
    if (own_boot_id().empty()) GTEST_SKIP() << "NOT RUN: this kernel does not tell which boot it is";
    learned_.central_unix_ms = 1'800'000'000'000;
    learned_.ticket_keys["k1"] = std::string(64, '1');
    learned_.revoked = {std::string(64, '2')};
    ASSERT_TRUE(save_learned(file(), central_, learned_));
  }
  std::filesystem::path file() const { return folder_.path() / "learned"; }
  std::string content() const {
    std::ostringstream text;
    text << std::ifstream(file()).rdbuf();
    return text.str();
  }
  void put(const std::string& text) const { std::ofstream(file(), std::ios::trunc) << text; }
  Errc failure() const {
    const auto loaded = load_learned(file(), {other_, central_});
    return loaded ? Errc{} : loaded.error().code;
  }

  testing::TempDir folder_;
  const CentralKey central_ = key_of(0xC1), other_ = key_of(0xC2);
  wire::ReportOk learned_;
};

TEST_F(LearnedFile, ComesBackWithCentralsTimeAsItIsNow) {
  auto loaded = load_learned(file(), {other_, central_});
  ASSERT_TRUE(loaded) << loaded.error().detail;
  EXPECT_EQ(loaded.value().ticket_keys, learned_.ticket_keys);
  EXPECT_EQ(loaded.value().revoked, learned_.revoked);
  EXPECT_GE(loaded.value().central_unix_ms, learned_.central_unix_ms);
  EXPECT_LT(loaded.value().central_unix_ms, learned_.central_unix_ms + 60'000);
  // As if it had been written an hour of the boot's clock ago.
  std::string text = content();
  const std::size_t line = text.find('\n');
  const std::size_t blank = text.rfind(' ', line);
  const std::int64_t then = std::stoll(text.substr(blank + 1, line - blank - 1));
  put(text.substr(0, blank + 1) + std::to_string(then - 3'600'000) + text.substr(line));
  loaded = load_learned(file(), {other_, central_});
  ASSERT_TRUE(loaded) << loaded.error().detail;
  EXPECT_GE(loaded.value().central_unix_ms, learned_.central_unix_ms + 3'600'000);
}

TEST_F(LearnedFile, OfAnotherBootIsOfNoUse) {
  std::string text = content();
  const std::size_t at = text.find(own_boot_id());
  ASSERT_NE(at, std::string::npos);
  text[at] = text[at] == 'a' ? 'b' : 'a';
  put(text);
  EXPECT_EQ(failure(), Errc::not_found);
}

TEST_F(LearnedFile, OfAnotherCentralIsNotUsed) {
  for (const std::vector<CentralKey>& centrals : {std::vector{other_}, std::vector<CentralKey>{}}) {
    const auto loaded = load_learned(file(), centrals);
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().code, Errc::wrong_server_key);
  }
  ASSERT_TRUE(save_learned(file(), other_, learned_));
  EXPECT_TRUE(load_learned(file(), {other_})) << "what this one says takes its place";
  EXPECT_FALSE(load_learned(file(), {central_}));
}

TEST_F(LearnedFile, OfAnOlderBrokerThatDoesNotTellWhoseItIsOfNoUse) {
  put("gearbox learned 1 " + own_boot_id() + " 1\n" + wire::to_json(learned_));
  EXPECT_EQ(failure(), Errc::not_found);
}

TEST_F(LearnedFile, AKeyThatIsChangedIsRefused) {
  const std::string text = content();
  const std::size_t at = text.find("c1c1");
  ASSERT_NE(at, std::string::npos);
  std::string changed = text;
  changed[at] = 'd';
  put(changed);
  EXPECT_EQ(failure(), Errc::wrong_server_key);
  put(text.substr(0, at) + text.substr(at + 2));
  EXPECT_EQ(failure(), Errc::corrupt_data);
}

TEST_F(LearnedFile, TheKeysOfCentralsAreTheConfiguredOnesOrThisHostsOwn) {
  config::NodeConfig config;
  const std::filesystem::path own = folder_.path() / "central.channel";
  EXPECT_TRUE(central_keys(config, own).empty());
  EXPECT_FALSE(std::filesystem::exists(own)) << "making it is central's business";
  const auto made = link::load_or_make_channel_keys(own);
  ASSERT_TRUE(made);
  EXPECT_EQ(central_keys(config, own), std::vector<CentralKey>{made.value().public_key});
  config.central = "tcp://a:1, tcp://b:2";
  config.central_key = to_hex(central_) + ", " + to_hex(other_);
  EXPECT_EQ(central_keys(config, own), (std::vector<CentralKey>{central_, other_}));
}

TEST_F(LearnedFile, CutAnywhereItIsRefused) {
  const std::string text = content();
  for (std::size_t bytes = 0; bytes < text.size(); ++bytes) {
    put(text.substr(0, bytes));
    EXPECT_NE(failure(), Errc{}) << bytes;
  }
}

TEST_F(LearnedFile, AClockThatIsAheadIsDamage) {
  const std::string text = content();
  const std::size_t line = text.find('\n');
  put(text.substr(0, line) + "000" + text.substr(line));
  EXPECT_EQ(failure(), Errc::corrupt_data);
}

TEST_F(LearnedFile, IsPrivate) {
  struct stat found {};
  ASSERT_EQ(::stat(file().c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777U, 0600U);
  std::filesystem::remove(file());
  EXPECT_EQ(failure(), Errc::not_found);
}

}  // namespace
}  // namespace gearbox::node
