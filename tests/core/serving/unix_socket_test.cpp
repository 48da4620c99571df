#include "serving/unix_socket.hpp"
#include "serving/local_socket.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "serving/log_budget.hpp"
#include "support/temp_dir.hpp"

namespace gearbox::serving {
namespace {

namespace fs = std::filesystem;
constexpr milliseconds kWithin{5000};

class UnixSocketTest : public ::testing::Test {
 protected:
  gearbox::testing::TempDir folder_;
  fs::path path_ = folder_.path() / "central.sock";
};

TEST_F(UnixSocketTest, IsForItsOwnerOnlyAndGoesWithTheObject) {
  {
    auto listener = UnixListener::open(path_);
    ASSERT_TRUE(listener) << listener.error().detail;
    struct stat info {};
    ASSERT_EQ(::stat(path_.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777U, 0600U);
    auto client = connect_local(path_);
    ASSERT_TRUE(client);
    auto accepted = accept_unix(listener.value().descriptor());
    ASSERT_TRUE(accepted);
    EXPECT_EQ(accepted.value().peer.find("pid " + std::to_string(::getpid())), 0U);
    EXPECT_EQ(accept_unix(listener.value().descriptor()).error().code, Errc::short_frame);
    ::close(accepted.value().descriptor);
    ::close(client.value());
  }
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(UnixSocketTest, NeverTakesAPlaceWhereSomebodyAnswers) {
  auto first = UnixListener::open(path_);
  ASSERT_TRUE(first);
  const auto second = UnixListener::open(path_);
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().detail.find("another process serves"), std::string::npos);
  auto client = connect_local(path_);
  ASSERT_TRUE(client);  // the first one was not disturbed
  ::close(client.value());
}

TEST_F(UnixSocketTest, TakesThePlaceOfASocketThatAKilledProcessLeft) {
  {
    auto killed = UnixListener::open(path_);
    ASSERT_TRUE(killed);
    const fs::path kept = folder_.path() / "kept";
    fs::rename(path_, kept);  // so that the object does not find and remove it
    { [[maybe_unused]] auto gone = std::move(killed).value(); }
    fs::rename(kept, path_);
  }
  ASSERT_TRUE(fs::exists(path_));
  auto next = UnixListener::open(path_);
  ASSERT_TRUE(next) << next.error().detail;
  auto client = connect_local(path_);
  ASSERT_TRUE(client);
  ::close(client.value());
}

TEST_F(UnixSocketTest, LeavesAFileThatIsNoSocketAlone) {
  std::ofstream(path_) << "precious";
  EXPECT_FALSE(UnixListener::open(path_));
  EXPECT_EQ(fs::file_size(path_), 8U);
}

TEST_F(UnixSocketTest, WorksInFoldersDeeperThanASocketAddressIsLong) {
  const fs::path deep = folder_.path() / std::string(100, 'a') / std::string(100, 'b');
  fs::create_directories(deep);
  auto listener = UnixListener::open(deep / "node.sock");
  ASSERT_TRUE(listener) << listener.error().detail;
  EXPECT_TRUE(fs::is_socket(deep / "node.sock"));
  EXPECT_FALSE(UnixListener::open(deep / "node.sock"));
}

TEST(LogBudget, CountsTheLinesThatItLeavesOut) {
  LogBudget budget(2, milliseconds{1000});
  const Instant start{std::chrono::hours(1)};
  EXPECT_TRUE(budget.allows(start));
  EXPECT_TRUE(budget.allows(start));
  EXPECT_FALSE(budget.allows(start));
  EXPECT_FALSE(budget.allows(start + milliseconds{999}));
  EXPECT_TRUE(budget.allows(start + milliseconds{1000}));
  EXPECT_EQ(budget.note(), " left_out=2");
  EXPECT_EQ(budget.note(), "");
}

}  // namespace
}  // namespace gearbox::serving
