// Whatever answers at the address: one clear error within a bound, nothing sent that is secret, exit code 1.
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include "support.hpp"

namespace gearbox::client {
namespace {

struct Seen {
  int code = 0;
  std::string name;
  std::string detail;
};

Seen send_one(Device& device) {
  device.options.send.files = {device.scratch.file("a.ppm", noise_picture(30, 30))};
  Seen seen;
  seen.code = device.send();
  boost::system::error_code failed;
  const boost::json::value line = boost::json::parse(device.console.out, failed);
  EXPECT_FALSE(failed) << device.console.out << device.console.err;
  if (failed || !line.as_object().contains("error")) return seen;
  seen.name = line.at("error").at("name").as_string();
  seen.detail = line.at("error").at("detail").as_string();
  return seen;
}

TEST(BadServers, AnotherProtocolIsNamedAtOnce) {
  const std::string kGreetings[] = {
      "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nno such thing here at all, "
      "sorry for that\r\n",
      std::string("\x15\x03\x03\x00\x02\x02\x46", 7) + std::string(200, '\x01'),
      "SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u2\r\n" + std::string(200, 'x'), std::string(4096, '\xEE')};
  for (const std::string& greeting : kGreetings) {
    test::Greeter greeter(greeting);
    Device device;
    device.options.central.url = greeter.url();
    const Instant from = Clock::now();
    const Seen seen = send_one(device);
    EXPECT_EQ(seen.code, 1);
    EXPECT_TRUE(seen.name == "not_gearbox" || seen.name == "wrong_server_key" || seen.name == "unsupported_version")
        << seen.name << ": " << seen.detail;
    EXPECT_NE(seen.detail.find(greeter.url()), std::string::npos) << seen.detail;
    EXPECT_LT(elapsed(from, Clock::now()), seconds(5));
  }
}

TEST(BadServers, ASilentServerIsATimeout) {
  test::Greeter greeter("");
  Device device;
  device.options.central.url = greeter.url();
  device.settings.connect_within = milliseconds(200);
  const Seen seen = send_one(device);
  EXPECT_EQ(seen.code, 1);
  EXPECT_EQ(seen.name, "timeout") << seen.detail;
}

TEST(BadServers, NobodyThereIsUnreachableSoon) {
  std::string url;
  {
    test::Greeter greeter("");
    url = greeter.url();
  }
  Device device;
  device.options.central.url = url;
  const Instant from = Clock::now();
  const Seen seen = send_one(device);
  EXPECT_EQ(seen.code, 1);
  EXPECT_EQ(seen.name, "unreachable") << seen.detail;
  EXPECT_LT(elapsed(from, Clock::now()), seconds(5));
}

TEST(BadServers, AWrongServerKeyIsRefusedAndNothingIsSent) {
  test::FakeNode fake({});
  Device device(fake);
  device.options.central.server_key = link::make_channel_keys().public_key;
  const Seen seen = send_one(device);
  EXPECT_EQ(seen.code, 1);
  EXPECT_EQ(seen.name, "wrong_server_key") << seen.detail;
  fake.stop();
  EXPECT_EQ(fake.counts().logins, 0);
}

TEST(BadServers, ARefusedLoginIsFinal) {
  test::FakeScript script;
  script.refuse_login = Error{Errc::auth_failed, "unknown device"};
  test::FakeNode fake(script);
  Device device(fake);
  const Seen seen = send_one(device);
  EXPECT_EQ(seen.code, 1);
  EXPECT_EQ(seen.name, "auth_failed");
  fake.stop();
  EXPECT_EQ(fake.counts().logins, 1);
}

TEST(BadServers, AnUnknownTaskIsNamed) {
  test::FakeNode fake({});
  Device device(fake);
  device.options.send.task = "fly";
  const Seen seen = send_one(device);
  EXPECT_EQ(seen.code, 1);
  EXPECT_EQ(seen.name, "unknown_task");
  EXPECT_NE(seen.detail.find("fly"), std::string::npos);
}

TEST(BadServers, NoNodeIsWaitedForOnlyWhenCentralAdvisesIt) {
  test::FakeScript script;
  script.no_node = 1;
  test::FakeNode no(script);
  Device refused(no);
  EXPECT_EQ(send_one(refused).name, "no_node");

  script.retry_after_ms = 50;
  test::FakeNode soon(script);
  Device waits(soon);
  EXPECT_EQ(send_one(waits).code, 0) << waits.console.out;
}

TEST(BadServers, WhatCentralPutsOffIsWaitedForBeyondTheFirstContact) {
  test::FakeScript script;
  script.no_node = 12;
  script.retry_after_ms = 20;
  test::FakeNode later(script);
  Device waits(later);
  waits.options.send.first_contact = milliseconds(1);
  EXPECT_EQ(send_one(waits).code, 0) << waits.console.out;
}

TEST(BadServers, ANodeThatFallsSilentIsLeftWithinABound) {
  test::FakeScript script;
  script.silent_node = true;
  test::FakeNode fake(script);
  Device device(fake);
  device.options.send.timeout = milliseconds(2'000);
  const Instant from = Clock::now();
  const Seen seen = send_one(device);
  EXPECT_EQ(seen.code, 1);
  EXPECT_EQ(seen.name, "timeout") << seen.detail;
  EXPECT_LT(elapsed(from, Clock::now()), seconds(5));
  fake.stop();
  EXPECT_GE(fake.counts().connections, 2);  // silence was noticed: it dialled again
}

TEST(BadServers, ANodeThatIsAnotherIsNotGivenTheTicket) {
  test::Greeter greeter("HTTP/1.1 400 Bad Request\r\n\r\n" + std::string(200, ' '));
  test::FakeScript script;
  script.node_url = greeter.url();
  test::FakeNode fake(script);
  Device device(fake);
  const Seen seen = send_one(device);
  EXPECT_EQ(seen.code, 1);
  EXPECT_TRUE(seen.name == "not_gearbox" || seen.name == "wrong_server_key" || seen.name == "unsupported_version")
      << seen.name;
}

TEST(BadServers, AResultThatContradictsItselfIsRefused) {
  for (const int fault : {0, 1, 2, 3}) {
    test::FakeScript script;
    script.make_result = [fault](const wire::Submit&, const Bytes&) {
      test::FakeResult result;
      wire::TensorSpec spec;
      spec.name = "x";
      spec.dtype = wire::DType::uint8;
      spec.shape = {4};
      spec.bytes = 4;
      result.message.tensors = {spec};
      result.message.bytes = 4;
      result.payload = Bytes(4);
      if (fault == 0) result.message.bytes = 5;                                  // sum and announcement differ
      if (fault == 1) result.payload = Bytes(3);                                 // ends early
      if (fault == 2) result.payload = Bytes(9);                                 // more than announced
      if (fault == 3) result.message.tensors[0].shape = {1LL << 40, 1LL << 40};  // absurd
      return result;
    };
    test::FakeNode fake(script);
    Device device(fake);
    device.options.send.timeout = milliseconds(3'000);
    const Seen seen = send_one(device);
    EXPECT_EQ(seen.code, 1) << fault;
    EXPECT_TRUE(seen.name == "bad_frame" || seen.name == "bad_input")
        << fault << " " << seen.name << " " << seen.detail;
  }
}

TEST(BadServers, AHugeAnnouncedResultReservesNothing) {
  test::FakeScript script;
  script.make_result = [](const wire::Submit&, const Bytes&) {
    test::FakeResult result;
    wire::TensorSpec spec;
    spec.name = "x";
    spec.dtype = wire::DType::uint8;
    spec.shape = {1LL << 40};
    spec.bytes = 1ULL << 40;
    result.message.tensors = {spec};
    result.message.bytes = 1ULL << 40;
    return result;
  };
  test::FakeNode fake(script);
  Device device(fake);
  EXPECT_EQ(send_one(device).name, "result_too_large");
}

}  // namespace
}  // namespace gearbox::client
