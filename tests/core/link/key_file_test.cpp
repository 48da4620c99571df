#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "core/link/code_of.hpp"
#include "gearbox/link/keys.hpp"

namespace gearbox::link {
namespace {
namespace fs = std::filesystem;

class KeyFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "gearbox-keys-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    file_ = root_ / "state" / "channel.key";
  }
  void TearDown() override { fs::remove_all(root_); }
  std::string content() const {
    std::ostringstream text;
    text << std::ifstream(file_).rdbuf();
    return text.str();
  }
  void write(std::string_view text) const { std::ofstream(file_, std::ios::trunc) << text; }

  fs::path root_;
  fs::path file_;
};

mode_t mode_of(const fs::path& path) {
  struct stat info {};
  EXPECT_EQ(::stat(path.c_str(), &info), 0);
  return info.st_mode & 0777;
}

TEST_F(KeyFile, IsMadeOnceForTheOwnerAlone) {
  const auto made = load_or_make_channel_keys(file_);
  ASSERT_TRUE(made.has_value()) << made.error().detail;
  EXPECT_EQ(mode_of(file_), 0600U);
  EXPECT_EQ(mode_of(file_.parent_path()), 0700U);
  EXPECT_EQ(std::distance(fs::directory_iterator(file_.parent_path()), {}), 1) << "a helper file was left behind";
  const auto again = load_or_make_channel_keys(file_);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again.value().public_key, made.value().public_key);
  EXPECT_EQ(again.value().secret_key, made.value().secret_key);
}

TEST_F(KeyFile, ASigningKeySignsTheSameAfterARestart) {
  const auto made = load_or_make_signing_keys(file_);
  const auto again = load_or_make_signing_keys(file_);
  ASSERT_TRUE(made.has_value() && again.has_value());
  const auto signature = sign(again.value(), "test", view_of("message"));
  EXPECT_TRUE(verify(made.value().public_key, "test", view_of("message"), signature));
  EXPECT_FALSE(verify(made.value().public_key, "tes", view_of("tmessage"), signature)) << "purposes run into messages";
}

TEST_F(KeyFile, ABadFileIsRefusedAndKept) {
  ASSERT_TRUE(load_or_make_channel_keys(file_).has_value());
  const std::string good = content();
  std::string flipped = good;
  flipped[good.find("secret ") + 9] = good[good.find("secret ") + 9] == '0' ? '1' : '0';
  for (const std::string& bad : {std::string(), good.substr(0, good.size() - 1), good.substr(0, 30), good + "x",
                                 flipped, std::string(good.size(), '\0'), std::string(2000, 'a')}) {
    write(bad);
    const auto outcome = load_or_make_channel_keys(file_);
    ASSERT_FALSE(outcome.has_value()) << bad;
    EXPECT_EQ(code_of(outcome), Errc::bad_config);
    EXPECT_NE(outcome.error().detail.find(file_.string()), std::string::npos);
    EXPECT_EQ(content(), bad);
  }
  write(good);
  EXPECT_TRUE(load_or_make_channel_keys(file_).has_value());
  const auto other_kind = load_or_make_signing_keys(file_);
  ASSERT_FALSE(other_kind.has_value());
  EXPECT_EQ(code_of(other_kind), Errc::bad_config);
}

TEST_F(KeyFile, AFileThatOthersMayReadOrReplaceIsRefused) {
  ASSERT_TRUE(load_or_make_channel_keys(file_).has_value());
  ASSERT_EQ(::chmod(file_.c_str(), 0640), 0);
  EXPECT_EQ(code_of(load_or_make_channel_keys(file_)), Errc::bad_config);
  ASSERT_EQ(::chmod(file_.c_str(), 0600), 0);
  ASSERT_EQ(::chmod(file_.parent_path().c_str(), 0770), 0);
  EXPECT_EQ(code_of(load_or_make_channel_keys(file_)), Errc::bad_config);
  ASSERT_EQ(::chmod(file_.parent_path().c_str(), 0700), 0);
  const fs::path alias = file_.parent_path() / "alias.key";
  fs::create_symlink(file_, alias);
  EXPECT_EQ(code_of(load_or_make_channel_keys(alias)), Errc::bad_config);
}

TEST_F(KeyFile, OfSeveralFirstStartsAtOnceAllUseTheSameKey) {
  std::array<std::array<std::byte, 32>, 8> found{};
  {
    std::vector<std::jthread> starts;
    for (auto& key : found) {
      starts.emplace_back([this, &key] {
        const auto keys = load_or_make_channel_keys(file_);
        if (keys) key = keys.value().public_key;
      });
    }
  }
  EXPECT_NE(found[0], (std::array<std::byte, 32>{}));
  for (const auto& key : found) EXPECT_EQ(key, found[0]);
}

TEST(Keys, RequestIdsDiffer) {
  EXPECT_NE(random_request_id(), random_request_id());
}

}  // namespace
}  // namespace gearbox::link
