// transport_conformance.hpp: what transport.hpp promises, as one suite that every transport runs. Include it in one
// file of a program.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gearbox/plugin/transport.hpp"

namespace gearbox::test {

struct TransportCase {
  std::string name;
  std::function<std::unique_ptr<plugin::Transport>()> make;
  std::vector<std::string> listen_urls;  // each on a port or name that the system chooses
  std::string nobody_url;                // where nobody listens
};

inline std::string transport_name(const ::testing::TestParamInfo<TransportCase>& info) {
  return info.param.name;
}

/// Closes a descriptor at the end of a test.
class Closer {
 public:
  explicit Closer(int descriptor) : descriptor_(descriptor) {}
  ~Closer() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Closer(const Closer&) = delete;
  Closer& operator=(const Closer&) = delete;
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

inline Instant soon() {
  return after(Clock::now(), milliseconds{5000});
}

inline bool readable(int descriptor) {
  pollfd waiting{descriptor, POLLIN, 0};
  return ::poll(&waiting, 1, 5000) == 1;
}

class TransportConformance : public ::testing::TestWithParam<TransportCase> {
 protected:
  void SetUp() override { transport_ = GetParam().make(); }
  std::unique_ptr<plugin::Transport> transport_;
};

TEST_P(TransportConformance, ConnectsBothEndsAndBytesTravelBothWays) {
  for (const std::string& url : GetParam().listen_urls) {
    const auto listening = transport_->listen(url);
    ASSERT_TRUE(listening) << describe(listening.error());
    const Closer listener(listening.value().descriptor);
    const auto near = transport_->connect(listening.value().url, soon());
    ASSERT_TRUE(near) << describe(near.error());
    const Closer near_end(near.value().descriptor);
    ASSERT_TRUE(readable(listener.get()));
    const auto far = transport_->accept(listener.get());
    ASSERT_TRUE(far) << describe(far.error());
    const Closer far_end(far.value().descriptor);
    char got[3] = {};
    ASSERT_EQ(::write(near_end.get(), "to", 2), 2);
    ASSERT_TRUE(readable(far_end.get()));
    EXPECT_EQ(::read(far_end.get(), got, 2), 2);
    EXPECT_STREQ(got, "to");
    ASSERT_EQ(::write(far_end.get(), "fr", 2), 2);
    ASSERT_TRUE(readable(near_end.get()));
    EXPECT_EQ(::read(near_end.get(), got, 2), 2);
    EXPECT_STREQ(got, "fr");
    EXPECT_FALSE(far.value().peer.empty());
    EXPECT_FALSE(far.value().peer_group.empty());
  }
}

TEST_P(TransportConformance, EveryDescriptorIsNonBlockingAndCloseOnExec) {
  const auto listening = transport_->listen(GetParam().listen_urls.front());
  ASSERT_TRUE(listening) << describe(listening.error());
  const Closer listener(listening.value().descriptor);
  const auto near = transport_->connect(listening.value().url, soon());
  ASSERT_TRUE(near) << describe(near.error());
  const Closer near_end(near.value().descriptor);
  ASSERT_TRUE(readable(listener.get()));
  const auto far = transport_->accept(listener.get());
  ASSERT_TRUE(far) << describe(far.error());
  const Closer far_end(far.value().descriptor);
  for (const int descriptor : {listener.get(), near_end.get(), far_end.get()}) {
    EXPECT_NE(::fcntl(descriptor, F_GETFL) & O_NONBLOCK, 0);
    EXPECT_NE(::fcntl(descriptor, F_GETFD) & FD_CLOEXEC, 0);
  }
}

TEST_P(TransportConformance, AcceptDoesNotBlockWhenNobodyWaits) {
  const auto listening = transport_->listen(GetParam().listen_urls.front());
  ASSERT_TRUE(listening) << describe(listening.error());
  const Closer listener(listening.value().descriptor);
  EXPECT_EQ(transport_->accept(listener.get()).error().code, Errc::short_frame);
}

TEST_P(TransportConformance, ListeningDescriptorsOutliveTheInstance) {
  const auto listening = transport_->listen(GetParam().listen_urls.front());
  ASSERT_TRUE(listening) << describe(listening.error());
  const Closer listener(listening.value().descriptor);
  transport_ = GetParam().make();  // as at a swap
  const auto near = transport_->connect(listening.value().url, soon());
  ASSERT_TRUE(near) << describe(near.error());
  const Closer near_end(near.value().descriptor);
  ASSERT_TRUE(readable(listener.get()));
  const auto far = transport_->accept(listener.get());
  ASSERT_TRUE(far) << describe(far.error());
  ::close(far.value().descriptor);
}

TEST_P(TransportConformance, AnAddressInUseSaysSo) {
  const auto listening = transport_->listen(GetParam().listen_urls.front());
  ASSERT_TRUE(listening) << describe(listening.error());
  const Closer listener(listening.value().descriptor);
  const auto second = transport_->listen(listening.value().url);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Errc::io_error);
  EXPECT_NE(second.error().detail.find("address in use"), std::string::npos) << second.error().detail;
}

TEST_P(TransportConformance, WhereNobodyListensIsUnreachable) {
  const auto connection = transport_->connect(GetParam().nobody_url, soon());
  ASSERT_FALSE(connection);
  EXPECT_EQ(connection.error().code, Errc::unreachable) << connection.error().detail;
}

TEST_P(TransportConformance, RefusesWhatIsNoUrlOfItsScheme) {
  const std::string scheme(transport_->scheme());
  for (const std::string& url : {std::string(), std::string("x"), scheme + "://", scheme + ":/a",
                                 std::string("other://a:1"), scheme + "://\x01:1"}) {
    EXPECT_EQ(transport_->connect(url, soon()).error().code, Errc::bad_input) << url;
    EXPECT_EQ(transport_->listen(url).error().code, Errc::bad_input) << url;
  }
}

TEST_P(TransportConformance, SaysNoSpaceWhenDescriptorsAreUsedUpAndRecovers) {
  const auto listening = transport_->listen(GetParam().listen_urls.front());
  ASSERT_TRUE(listening) << describe(listening.error());
  const Closer listener(listening.value().descriptor);
  const auto near = transport_->connect(listening.value().url, soon());
  ASSERT_TRUE(near) << describe(near.error());
  const Closer near_end(near.value().descriptor);
  ASSERT_TRUE(readable(listener.get()));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  std::vector<int> taken;
  rlimit few = before;
  few.rlim_cur = 64;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  for (int one = ::dup(0); one >= 0; one = ::dup(0)) taken.push_back(one);
  const Errc accepted = transport_->accept(listener.get()).error().code;
  const Errc connected = transport_->connect(listening.value().url, soon()).error().code;
  for (const int one : taken) ::close(one);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(accepted, Errc::no_space);
  EXPECT_EQ(connected, Errc::no_space);
  const auto far = transport_->accept(listener.get());
  ASSERT_TRUE(far) << describe(far.error());
  ::close(far.value().descriptor);
}

TEST_P(TransportConformance, FailuresLeaveNoDescriptorBehind) {
  const auto open_descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  };
  const auto listening = transport_->listen(GetParam().listen_urls.front());
  ASSERT_TRUE(listening) << describe(listening.error());
  const Closer listener(listening.value().descriptor);
  const auto before = open_descriptors();
  EXPECT_FALSE(transport_->listen(listening.value().url));
  EXPECT_FALSE(transport_->connect(GetParam().nobody_url, soon()));
  EXPECT_FALSE(transport_->connect("x", soon()));
  EXPECT_FALSE(transport_->accept(listener.get()));
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace gearbox::test
