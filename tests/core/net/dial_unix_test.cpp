#include "gearbox/net/dial_unix.hpp"

#include <sys/un.h>

#include <cstring>
#include <filesystem>

#include "core/net/stream_fixture.hpp"

namespace gearbox::net {
namespace {
namespace fs = std::filesystem;

class DialUnix : public StreamFixture {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "gearbox-dial-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    path_ = folder_ / "node.sock";
  }
  void TearDown() override {
    if (listener_ >= 0) ::close(listener_);
    fs::remove_all(folder_);
  }
  void listen(int backlog) {
    listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.c_str(), path_.native().size());
    ASSERT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(::listen(listener_, backlog), 0);
  }
  fs::path folder_;
  fs::path path_;
  int listener_ = -1;
};

TEST_F(DialUnix, GivesAStreamThatCarriesFrames) {
  listen(4);
  const auto dialled = dial_unix(path_, kSoon);
  ASSERT_TRUE(dialled.has_value()) << describe(dialled.error());
  Stream client = adopt(dialled.value());
  Stream server = adopt(::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC));
  ASSERT_TRUE(write_now(client, "hello").has_value());
  EXPECT_EQ(read_now(server).value().json, "hello");
}

TEST_F(DialUnix, SaysWhenNobodyListens) {
  EXPECT_EQ(code_of(dial_unix(path_, kSoon)), Errc::unreachable);
  listen(1);
  ::close(listener_);
  listener_ = -1;
  const auto stale = dial_unix(path_, kSoon);
  EXPECT_EQ(code_of(stale), Errc::unreachable);
  EXPECT_NE(stale.error().detail.find(path_.string()), std::string::npos);
  EXPECT_EQ(code_of(dial_unix(std::string(200, 'x'), kSoon)), Errc::bad_input);
}

TEST_F(DialUnix, WaitsForAFullQueueOnlySoLong) {
  listen(0);
  std::vector<int> held;
  Outcome<int> last = 0;
  for (int i = 0; i < 10; ++i) {
    last = dial_unix(path_, kShort);
    if (!last) break;
    held.push_back(last.value());
  }
  ASSERT_FALSE(last.has_value());
  EXPECT_EQ(code_of(last), Errc::timeout);
  for (const int descriptor : held) ::close(descriptor);
}

}  // namespace
}  // namespace gearbox::net
