#include "transport_tcp/tcp_transport.hpp"

#include <arpa/inet.h>
#include <netinet/tcp.h>

#include "conformance/transport_conformance.hpp"

namespace gearbox::test {
namespace {

using transport_tcp::TcpTransport;

bool has_ipv6() {
  return TcpTransport().listen("tcp://[::1]:0").has_value();
}

/// A port that was free a moment ago and that the kernel gives to nobody by itself while the socket is bound but not
/// listening.
std::string nobody() {
  static const int bound = [] {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return ::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? socket : -1;
  }();
  sockaddr_in address{};
  socklen_t length = sizeof address;
  if (::getsockname(bound, reinterpret_cast<sockaddr*>(&address), &length) != 0) return {};
  return "tcp://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
}

TransportCase tcp_case() {
  std::vector<std::string> urls = {"tcp://127.0.0.1:0", "tcp://localhost:0"};
  if (has_ipv6()) urls.emplace_back("tcp://[::1]:0");
  return {"tcp", [] { return std::make_unique<TcpTransport>(); }, urls, nobody()};
}

INSTANTIATE_TEST_SUITE_P(Tcp, TransportConformance, ::testing::Values(tcp_case()), transport_name);

int option_of(int descriptor, int level, int name) {
  int value = -1;
  socklen_t length = sizeof value;
  EXPECT_EQ(::getsockopt(descriptor, level, name, &value, &length), 0);
  return value;
}

TEST(TcpTransport, SetsUpBothEndsSoThatAVanishedPeerIsNoticed) {
  TcpTransport transport(
      {.keepalive_idle_s = 7, .keepalive_every_s = 3, .keepalive_probes = 2, .user_timeout_ms = 4321, .backlog = 16});
  const auto listening = transport.listen("tcp://127.0.0.1:0");
  ASSERT_TRUE(listening) << listening.error().detail;
  const Closer listener(listening.value().descriptor);
  const auto near = transport.connect(listening.value().url, soon());
  ASSERT_TRUE(near) << near.error().detail;
  const Closer near_end(near.value().descriptor);
  ASSERT_TRUE(readable(listener.get()));
  const auto far = transport.accept(listener.get());
  ASSERT_TRUE(far) << far.error().detail;
  const Closer far_end(far.value().descriptor);
  for (const int descriptor : {near_end.get(), far_end.get()}) {
    EXPECT_EQ(option_of(descriptor, SOL_SOCKET, SO_KEEPALIVE), 1);
    EXPECT_EQ(option_of(descriptor, IPPROTO_TCP, TCP_NODELAY), 1);
    EXPECT_EQ(option_of(descriptor, IPPROTO_TCP, TCP_KEEPIDLE), 7);
    EXPECT_EQ(option_of(descriptor, IPPROTO_TCP, TCP_KEEPINTVL), 3);
    EXPECT_EQ(option_of(descriptor, IPPROTO_TCP, TCP_KEEPCNT), 2);
    EXPECT_EQ(option_of(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT), 4321);
  }
  EXPECT_EQ(far.value().peer_group, "127.0.0.1");
}

TEST(TcpTransport, GroupsIpv6PeersByTheir64BitPrefix) {
  if (!has_ipv6()) GTEST_SKIP() << "NOT RUN: no IPv6 here";
  TcpTransport transport;
  const auto listening = transport.listen("tcp://[::1]:0");
  ASSERT_TRUE(listening) << listening.error().detail;
  const Closer listener(listening.value().descriptor);
  const auto near = transport.connect(listening.value().url, soon());
  ASSERT_TRUE(near) << near.error().detail;
  const Closer near_end(near.value().descriptor);
  ASSERT_TRUE(readable(listener.get()));
  const auto far = transport.accept(listener.get());
  ASSERT_TRUE(far) << far.error().detail;
  const Closer far_end(far.value().descriptor);
  EXPECT_EQ(far.value().peer_group, "::/64");
}

TEST(TcpTransport, AnIpv6WildcardTakesIpv4ToAndShowsItAsSuch) {
  if (!has_ipv6()) GTEST_SKIP() << "NOT RUN: no IPv6 here";
  TcpTransport transport;
  const auto listening = transport.listen("tcp://[::]:0");
  ASSERT_TRUE(listening) << listening.error().detail;
  const Closer listener(listening.value().descriptor);
  const std::string port = listening.value().url.substr(listening.value().url.rfind(':'));
  const auto near = transport.connect("tcp://127.0.0.1" + port, soon());
  ASSERT_TRUE(near) << near.error().detail;
  const Closer near_end(near.value().descriptor);
  ASSERT_TRUE(readable(listener.get()));
  const auto far = transport.accept(listener.get());
  ASSERT_TRUE(far) << far.error().detail;
  const Closer far_end(far.value().descriptor);
  EXPECT_EQ(far.value().peer_group, "127.0.0.1");
  EXPECT_EQ(far.value().peer.rfind("127.0.0.1:", 0), 0U);
}

TEST(TcpTransport, ANameThatDoesNotExistIsUnreachable) {
  TcpTransport transport;
  const auto connection = transport.connect("tcp://no-such-host.invalid:1", soon());
  ASSERT_FALSE(connection);
  EXPECT_TRUE(connection.error().code == Errc::unreachable || connection.error().code == Errc::timeout)
      << connection.error().detail;
}

TEST(TcpTransport, ADeadlineThatHasPassedIsATimeout) {
  TcpTransport transport;
  // A full backlog: the kernel drops further SYNs, so a connect neither succeeds nor fails.
  TcpTransport narrow({.backlog = 1});
  const auto listening = narrow.listen("tcp://127.0.0.1:0");
  ASSERT_TRUE(listening) << listening.error().detail;
  const Closer listener(listening.value().descriptor);
  std::vector<std::unique_ptr<Closer>> held;
  Outcome<plugin::Connection> last = Error{};
  const Instant begin = Clock::now();
  for (int i = 0; i < 8; ++i) {
    last = transport.connect(listening.value().url, after(Clock::now(), milliseconds{300}));
    if (!last) break;
    held.push_back(std::make_unique<Closer>(last.value().descriptor));
  }
  ASSERT_FALSE(last) << "the backlog of 1 never filled";
  EXPECT_EQ(last.error().code, Errc::timeout) << last.error().detail;
  EXPECT_LT(Clock::now() - begin, seconds(4));
}

TEST(TcpTransport, DiallingPortZeroIsRefused) {
  EXPECT_EQ(TcpTransport().connect("tcp://127.0.0.1:0", soon()).error().code, Errc::bad_input);
}

TEST(TcpTransport, AcceptOnSomethingElseIsAnError) {
  EXPECT_EQ(TcpTransport().accept(-1).error().code, Errc::io_error);
}

TEST(TcpTransport, AConnectThatMeetsItselfIsNoConnection) {
  // Linux lets a socket connect to its own port; a client that dials a dead local server in a loop comes upon that.
  TcpTransport transport;
  const std::string url = nobody();
  for (int i = 0; i < 50; ++i) ASSERT_FALSE(transport.connect(url, soon()));
}

}  // namespace
}  // namespace gearbox::test
