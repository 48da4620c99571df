#include "transport_tcp/tcp_url.hpp"

#include <gtest/gtest.h>

namespace gearbox::transport_tcp {
namespace {

TEST(TcpUrl, TakesNamesAndBothKindsOfAddresses) {
  EXPECT_EQ(parse_url("tcp://central.example:7600").value().host, "central.example");
  EXPECT_EQ(parse_url("tcp://192.0.2.7:1").value().port, 1);
  EXPECT_EQ(parse_url("tcp://[2001:db8::1]:65535").value().host, "2001:db8::1");
  EXPECT_EQ(parse_url("tcp://[fe80::1%eth0]:0").value().host, "fe80::1%eth0");
}

TEST(TcpUrl, TextFormComesBack) {
  for (const char* url : {"tcp://a:1", "tcp://127.0.0.1:65535", "tcp://[::1]:7600"})
    EXPECT_EQ(to_text(parse_url(url).value()), url);
}

TEST(TcpUrl, RefusesEverythingElseAndNeverWrapsAPort) {
  for (const char* url : {"",
                          "tcp:",
                          "tcp://",
                          "tcp://a",
                          "tcp://a:",
                          "tcp://:1",
                          "tcp://a:65536",
                          "tcp://a:65616",
                          "tcp://a:4294975376",
                          "tcp://a:99999999999999999999",
                          "tcp://a:-1",
                          "tcp://a:+1",
                          "tcp://a:1x",
                          "tcp://a: 1",
                          "tcp://::1:1",
                          "tcp://[::1]",
                          "tcp://[]:1",
                          "tcp://a b:1",
                          "tcp://a/b:1",
                          "tcp://-a:1",
                          "udp://a:1",
                          "TCP://a:1",
                          "tcp://a\n:1"}) {
    const auto parsed = parse_url(url);
    ASSERT_FALSE(parsed) << url;
    EXPECT_EQ(parsed.error().code, Errc::bad_input);
    EXPECT_EQ(parsed.error().detail.find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace gearbox::transport_tcp
