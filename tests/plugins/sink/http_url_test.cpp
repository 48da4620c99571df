#include "sink/http_url.hpp"

#include <gtest/gtest.h>

namespace gearbox::sink {
namespace {

TEST(HttpUrl, IsTakenApart) {
  const HttpUrl plain = http_url("http://example.org").value();
  EXPECT_EQ(plain.host + "|" + plain.port + "|" + plain.target, "example.org|80|/");
  const HttpUrl whole = http_url("http://10.0.0.1:8080/in/box?a=b#part").value();
  EXPECT_EQ(whole.host + "|" + whole.port + "|" + whole.target, "10.0.0.1|8080|/in/box?a=b");
  EXPECT_EQ(whole.host_header(), "10.0.0.1:8080");
  const HttpUrl six = http_url("http://[::1]:9000?q").value();
  EXPECT_EQ(six.host + "|" + six.port + "|" + six.target, "::1|9000|/?q");
  EXPECT_EQ(six.host_header(), "[::1]:9000");
}

TEST(HttpUrl, RefusesWhatItCannotDial) {
  for (const char* url : {"", "example.org", "https://example.org/", "http://", "http://:80/", "http://host:0/",
                          "http://host:99999/", "http://host:8x/", "http://[::1/", "http://[::1]8/",
                          "http://user:pw@host/", "http://host/a b", "http://host/\r\nX: y"}) {
    EXPECT_FALSE(http_url(url)) << url;
  }
}

}  // namespace
}  // namespace gearbox::sink
