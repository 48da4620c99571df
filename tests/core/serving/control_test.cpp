#include "serving/control.hpp"
#include "serving/local_socket.hpp"

#include <gtest/gtest.h>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include <filesystem>

#include "gearbox/net/frame_stream.hpp"
#include "gearbox/wire/messages.hpp"
#include "support/temp_dir.hpp"

namespace gearbox::serving {
namespace {

namespace json = boost::json;
using net::FrameStream;
constexpr milliseconds kWithin{20'000};

Outcome<json::object> handle(std::string_view command, const json::object& request) {
  if (command == "echo") return json::object{{"said", request.at("what")}};
  if (command == "throw") throw std::runtime_error("oops");
  return Error{Errc::not_found, "no such command"};
}

TEST(Control, AnswersPingFactsAndFaultsOfTheHandler) {
  EXPECT_NE(answer_control(handle, R"({"command":"ping"})").value().find("pid"), std::string::npos);
  EXPECT_EQ(answer_control(handle, R"({"command":"echo","what":7})").value(), R"({"said":7})");
  EXPECT_EQ(answer_control(handle, R"({"command":"dance"})").error().code, Errc::not_found);
  EXPECT_EQ(answer_control(handle, R"({"command":"throw"})").error().code, Errc::internal);
  EXPECT_EQ(answer_control(handle, "[]").error().code, Errc::bad_frame);
  EXPECT_EQ(answer_control(handle, "{\"command\":").error().code, Errc::bad_frame);
  EXPECT_EQ(answer_control(handle, R"({"command":5})").error().code, Errc::bad_frame);
  EXPECT_EQ(answer_control(handle, std::string(5000, '[')).error().code, Errc::bad_frame);
}

asio::awaitable<void> talk(std::shared_ptr<FrameStream> stream, std::vector<std::string> said,
                           std::shared_ptr<std::vector<wire::Frame>> heard) {
  for (std::string& text : said) {
    wire::FrameHeader header;
    header.type = wire::FrameType::control;
    Outcome<void> sent = co_await FrameStream::write_frame(stream, header, std::move(text), ByteView(), kWithin);
    if (!sent) co_return;
    Outcome<wire::Frame> frame = co_await FrameStream::read_frame(stream, kWithin);
    if (!frame) co_return;
    heard->push_back(std::move(frame).value());
  }
}

TEST(Control, ServesSeveralQuestionsOnOneConnectionAndLeavesNothingBehind) {
  gearbox::testing::TempDir folder;
  const std::filesystem::path path = folder.path() / "role.sock";
  asio::io_context io;
  auto server = ControlServer::start(io.get_executor(), path, handle);
  ASSERT_TRUE(server) << server.error().detail;
  auto descriptor = connect_local(path);
  ASSERT_TRUE(descriptor);
  auto stream = FrameStream::adopt(io.get_executor(), descriptor.value(), "test");
  ASSERT_TRUE(stream);
  auto heard = std::make_shared<std::vector<wire::Frame>>();
  bool ended = false;
  std::vector<std::string> said = {R"({"command":"echo","what":"x"})", R"({"command":"dance"})",
                                   R"({"command":"ping"})"};
  asio::co_spawn(io, talk(stream.value(), said, heard), [&](std::exception_ptr) { ended = true; });
  const Instant deadline = after(Clock::now(), kWithin);
  while (!ended && Clock::now() < deadline) io.run_one_for(seconds{1});
  ASSERT_EQ(heard->size(), 3U);
  EXPECT_EQ((*heard)[0].header.type, wire::FrameType::control_answer);
  EXPECT_EQ((*heard)[0].json, R"({"said":"x"})");
  EXPECT_EQ((*heard)[1].header.type, wire::FrameType::error);
  EXPECT_EQ(wire::parse<wire::ErrorMessage>((*heard)[1].json).value().name, "not_found");
  EXPECT_EQ((*heard)[2].header.type, wire::FrameType::control_answer);
  stream.value()->close();
  server.value().reset();
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace gearbox::serving
