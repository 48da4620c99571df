// Good and interrupted deliveries, against a node that speaks the whole protocol.
#include "delivery.hpp"

#include <gtest/gtest.h>
#include <signal.h>

#include <boost/json/parse.hpp>

#include <random>
#include <sstream>

#include "support.hpp"

namespace gearbox::client {
namespace {

std::vector<boost::json::object> lines_of(const std::string& text) {
  std::vector<boost::json::object> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    boost::system::error_code failed;
    boost::json::value value = boost::json::parse(line, failed);
    EXPECT_FALSE(failed) << line;
    if (!failed) lines.push_back(value.as_object());
  }
  return lines;
}

std::string error_name(const boost::json::object& line) {
  return line.contains("error") ? std::string(line.at("error").at("name").as_string()) : std::string("none");
}

/// Dials `to` whenever `from` is meant: what travels is sealed for the node behind it, only the address differs.
class Detour final : public plugin::Transport {
 public:
  Detour(std::string from, std::string to) : from_(std::move(from)), to_(std::move(to)) {}
  std::string_view scheme() const override { return "tcp"; }
  Outcome<plugin::Listening> listen(std::string_view url) override { return tcp_.listen(url); }
  Outcome<plugin::Connection> accept(int listening) override { return tcp_.accept(listening); }
  Outcome<plugin::Connection> connect(std::string_view url, Instant deadline) override {
    return tcp_.connect(url == from_ ? std::string_view(to_) : url, deadline);
  }

 private:
  transport_tcp::TcpTransport tcp_;
  std::string from_;
  std::string to_;
};

TEST(Delivery, FilesAreInFlightTogetherOverOneConnection) {
  test::FakeScript script;
  script.hold_results = 4;  // nobody is answered before four are accepted: one after the other would wait for ever
  test::FakeNode fake(script);
  Device device(fake);
  for (int i = 0; i < 8; ++i) {
    const std::string name = "n" + std::to_string(i) + ".ppm";
    device.options.send.files.push_back(
        device.scratch.file(name, noise_picture(200, 200, static_cast<std::uint32_t>(i))));
  }
  EXPECT_EQ(device.send(), 0) << device.console.err << device.console.out;
  EXPECT_TRUE(fake.wait_for_acks(8));
  fake.stop();
  EXPECT_EQ(fake.counts().connections, 1);
  EXPECT_EQ(fake.counts().locates, 1);
  EXPECT_EQ(fake.counts().held, 4U);
  EXPECT_EQ(fake.counts().runs, 8);
  EXPECT_EQ(fake.counts().acks, 8);
  const auto lines = lines_of(device.console.out);
  ASSERT_EQ(lines.size(), 8U);
  for (const auto& line : lines) {
    EXPECT_TRUE(line.at("ok").as_bool());
    EXPECT_EQ(line.at("outputs").at("text").at("data").as_array()[0].as_string(), "image 120000 of 120000");
    EXPECT_EQ(line.at("bytes").at("wire").as_int64(), 120'000);
    EXPECT_GT(line.at("bytes").at("sent").as_int64(), 120'000);
    EXPECT_EQ(line.at("node").as_string(), "fake");
  }
}

TEST(Delivery, SmallStoredUploadsTravelWithTheirSubmit) {
  test::FakeNode fake({});
  Device device(fake);
  device.options.send.files = {device.scratch.file("small.ppm", noise_picture(20, 20))};
  EXPECT_EQ(device.send(), 0) << device.console.out;
  fake.stop();
  EXPECT_EQ(fake.counts().upload_bytes, 1'200U);
  EXPECT_EQ(fake.counts().submits, 1);
}

TEST(Delivery, SeveralInputsMakeOneRequest) {
  test::FakeNode fake({});
  Device device(fake);
  device.options.send.json = false;
  device.options.send.inputs = {{"color", device.scratch.file("c.ppm", noise_picture(200, 100))},
                                {"depth", device.scratch.file("d.ppm", smooth_picture(640, 480))}};
  EXPECT_EQ(device.send(), 0) << device.console.err;
  fake.stop();
  EXPECT_EQ(fake.counts().runs, 1);
  EXPECT_NE(device.console.out.find("color 60000 of"), std::string::npos) << device.console.out;
  EXPECT_NE(device.console.out.find("depth 921600 of"), std::string::npos) << device.console.out;
  EXPECT_NE(device.console.err.find("step only"), std::string::npos) << device.console.err;
}

TEST(Delivery, AResultComesInManyFrames) {
  test::FakeScript script;
  script.result_part_bytes = 100'000;
  script.make_result = [](const wire::Submit&, const Bytes&) {
    test::FakeResult result;
    wire::TensorSpec mask;
    mask.name = "mask";
    mask.dtype = wire::DType::uint8;
    mask.shape = {1'000, 2'500};
    mask.bytes = 2'500'000;
    wire::TensorSpec score;
    score.name = "score";
    score.dtype = wire::DType::fp32;
    score.shape = {1};
    score.bytes = 4;
    result.message.tensors = {mask, score};
    result.message.bytes = 2'500'004;
    for (std::uint32_t i = 0; i < 2'500'000; ++i) result.payload.push_back(static_cast<std::byte>(i * 7));
    result.payload.insert(result.payload.end(), {std::byte{0}, std::byte{0}, std::byte{0xC0}, std::byte{0x7F}});  // NaN
    return result;
  };
  test::FakeNode fake(script);
  Device device(fake);
  device.options.send.files = {device.scratch.file("a.ppm", noise_picture(10, 10))};
  EXPECT_EQ(device.send(), 0) << device.console.err;
  const auto lines = lines_of(device.console.out);
  ASSERT_EQ(lines.size(), 1U);
  const auto& data = lines[0].at("outputs").at("mask").at("data").as_array();
  ASSERT_EQ(data.size(), 2'500'000U);
  EXPECT_EQ(data[2'499'999].as_int64(), (2'499'999 * 7) & 255);
  EXPECT_EQ(lines[0].at("outputs").at("score").at("data").as_array()[0].as_string(), "NaN");
}

TEST(Delivery, ARefusedUploadFailsAloneAndBeforeItIsSent) {
  test::FakeScript script;
  script.limit_bytes = 200'000;
  test::FakeNode fake(script);
  Device device(fake);
  device.options.send.files = {device.scratch.file("big.ppm", noise_picture(300, 300)),
                               device.scratch.file("good.ppm", noise_picture(100, 100))};
  EXPECT_EQ(device.send(), 1);
  fake.stop();
  EXPECT_EQ(fake.counts().upload_bytes, 30'000U);
  for (const auto& line : lines_of(device.console.out)) {
    const bool big = line.at("file").as_string().ends_with("big.ppm");
    EXPECT_EQ(error_name(line), big ? "too_large" : "none");
  }
}

TEST(Delivery, TheNodesAnnouncedLimitSavesTheRoundTrip) {
  test::FakeScript script;
  script.max_upload_bytes = 1'000;
  test::FakeNode fake(script);
  Device device(fake);
  device.options.send.files = {device.scratch.file("big.ppm", noise_picture(300, 300))};
  EXPECT_EQ(device.send(), 1);
  fake.stop();
  EXPECT_EQ(fake.counts().submits, 0);
  EXPECT_EQ(error_name(lines_of(device.console.out).at(0)), "too_large");
}

TEST(Delivery, ABadFileFailsAloneAndTheOthersGoOn) {
  test::FakeNode fake({});
  Device device(fake);
  device.options.send.json = false;
  const std::string bad = device.scratch.file("bad.jpg", "no picture");
  device.options.send.files = {bad, device.scratch.file("good.ppm", noise_picture(30, 30))};
  EXPECT_EQ(device.send(), 1);
  EXPECT_NE(device.console.err.find(bad + ": bad_picture"), std::string::npos) << device.console.err;
  EXPECT_NE(device.console.out.find("image 2700 of 2700"), std::string::npos) << device.console.out;
}

TEST(Delivery, ABusyNodeIsAskedAgainNoSoonerThanItSays) {
  test::FakeScript script;
  script.busy_submits = 2;
  script.retry_after_ms = 150;
  test::FakeNode fake(script);
  Device device(fake);
  device.options.send.files = {device.scratch.file("a.ppm", noise_picture(30, 30))};
  const Instant from = Clock::now();
  EXPECT_EQ(device.send(), 0) << device.console.out;
  fake.stop();
  EXPECT_GE(elapsed(from, Clock::now()), milliseconds(300));
  EXPECT_EQ(fake.counts().submits, 3);
  EXPECT_EQ(fake.counts().runs, 1);
}

TEST(Delivery, AFailureAfterAcceptanceIsFinal) {
  // `overloaded` too: before acceptance it would be worth another try, after it the request has had its one answer.
  for (const Errc code : {Errc::model_failed, Errc::overloaded}) {
    test::FakeScript script;
    script.fail_request = Error{code, "ValueError: no cow"};
    test::FakeNode fake(script);
    Device device(fake);
    device.options.send.files = {device.scratch.file("a.ppm", noise_picture(30, 30))};
    device.options.send.timeout = milliseconds(3'000);
    EXPECT_EQ(device.send(), 1);
    fake.stop();
    EXPECT_EQ(fake.counts().submits, 1);
    const auto lines = lines_of(device.console.out);
    EXPECT_EQ(error_name(lines.at(0)), name_of(code));
    EXPECT_EQ(lines.at(0).at("error").at("detail").as_string(), "ValueError: no cow");
  }
}

TEST(Delivery, AnUploadCutAtAnyByteGoesOnWhereTheNodeIs) {
  // Cuts that fall into handshake, login, submit, tiles and between them; the same seed in every run.
  std::mt19937 random(20240314);
  for (const bool coded : {false, true}) {
    std::vector<std::uint64_t> cuts;
    std::uniform_int_distribution<std::uint64_t> anywhere(1, coded ? 30'000 : 700'000);
    for (int i = 0; i < 12; ++i) cuts.push_back(anywhere(random));
    test::FakeNode good({});
    test::CuttingRelay relay(good.node_url(), cuts);
    Device device(good);
    Detour detour(good.node_url(), relay.url());
    const std::string picture = coded ? smooth_picture(2'400, 1'600) : noise_picture(1'600, 1'000);
    device.options.send.files = {device.scratch.file("a.ppm", picture)};
    device.options.send.timeout = milliseconds(60'000);
    EXPECT_EQ(run_send(device.options, device.settings, detour, device.console), 0) << device.console.out;
    good.stop();
    const auto lines = lines_of(device.console.out);
    ASSERT_EQ(lines.size(), 1U);
    EXPECT_EQ(error_name(lines[0]), "none");
    EXPECT_EQ(good.counts().runs, 1);
    EXPECT_EQ(good.counts().bad_chunks, 0);
    // The node counts each byte once, however often the line was cut.
    EXPECT_EQ(good.counts().upload_bytes, static_cast<std::uint64_t>(lines[0].at("bytes").at("wire").as_int64()));
    EXPECT_GT(relay.connections(), 3U) << "no cut was met";
  }
}

TEST(Delivery, ALostAcceptanceIsAskedForUnderTheSameId) {
  test::FakeScript script;
  script.drop_before_accepted = 2;
  script.drop_before_result = 1;
  test::FakeNode fake(script);
  Device device(fake);
  device.options.send.files = {device.scratch.file("a.ppm", noise_picture(300, 300))};
  EXPECT_EQ(device.send(), 0) << device.console.out;
  EXPECT_TRUE(fake.wait_for_acks(1));
  fake.stop();
  EXPECT_EQ(fake.counts().runs, 1);
  EXPECT_EQ(fake.counts().digests.size(), 1U);
  EXPECT_EQ(fake.counts().upload_bytes, 270'000U);
  EXPECT_EQ(fake.counts().acks, 1);
  EXPECT_GE(fake.counts().connections, 3);
}

TEST(Delivery, ANodeThatRestartedAfterAcceptanceIsAskedAgainUntilItHasRoom) {
  for (const Errc code : {Errc::overloaded, Errc::no_space, Errc::shutting_down}) {
    test::FakeScript script;
    script.drop_before_result = 1;
    script.busy_after_restart = 2;
    script.busy_code = code;
    test::FakeNode fake(script);
    Device device(fake);
    device.options.send.files = {device.scratch.file("a.ppm", noise_picture(300, 300))};
    EXPECT_EQ(device.send(), 0) << name_of(code) << device.console.out;
    EXPECT_TRUE(fake.wait_for_acks(1));
    fake.stop();
    EXPECT_EQ(fake.counts().submits, 4);
    EXPECT_EQ(fake.counts().runs, 2);             // what the first one knew is gone
    EXPECT_EQ(fake.counts().digests.size(), 1U);  // one id throughout
    EXPECT_EQ(fake.counts().acks, 1);
  }
}

TEST(Delivery, AnIdleLineIsKeptAliveByPings) {
  test::FakeScript script;
  script.never_answer = true;
  script.idle_ms = 300;
  test::FakeNode fake(script);
  Device device(fake);
  device.options.send.files = {device.scratch.file("a.ppm", noise_picture(30, 30))};
  device.options.send.timeout = milliseconds(900);
  EXPECT_EQ(device.send(), 1);
  fake.stop();
  EXPECT_EQ(fake.counts().connections, 1);  // pongs are life: nothing was torn down
  EXPECT_GE(fake.counts().pings, 3);
  EXPECT_EQ(fake.counts().cancels, 1);
  EXPECT_EQ(error_name(lines_of(device.console.out).at(0)), "timeout");
}

TEST(Delivery, ADeadlineEndsTheWaitAndCancels) {
  test::FakeScript script;
  script.never_answer = true;
  test::FakeNode fake(script);
  Device device(fake);
  device.options.send.files = {device.scratch.file("a.ppm", noise_picture(30, 30))};
  device.options.send.deadline = milliseconds(100);
  EXPECT_EQ(device.send(), 1);
  fake.stop();
  EXPECT_EQ(fake.counts().cancels, 1);
  EXPECT_EQ(error_name(lines_of(device.console.out).at(0)), "deadline_exceeded");
}

TEST(Delivery, AnInterruptCancelsWhatIsUnderWayAndReportsEveryFile) {
  test::FakeScript script;
  script.never_answer = true;
  int accepted = 0;
  script.on_accepted = [&accepted] {
    if (++accepted == 2) ::kill(::getpid(), SIGINT);
  };
  test::FakeNode fake(script);
  Device device(fake);
  device.options.send.parallel = 2;
  for (int i = 0; i < 3; ++i) {
    device.options.send.files.push_back(device.scratch.file("f" + std::to_string(i) + ".ppm", noise_picture(20, 20)));
  }
  EXPECT_EQ(device.send(), 1);
  fake.stop();
  EXPECT_EQ(fake.counts().cancels, 2);
  const auto lines = lines_of(device.console.out);
  ASSERT_EQ(lines.size(), 3U);
  for (const auto& line : lines) EXPECT_EQ(error_name(line), "cancelled");
}

}  // namespace
}  // namespace gearbox::client
