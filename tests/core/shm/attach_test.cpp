#include "gearbox/shm/attach.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>

namespace gearbox::shm {

namespace {
std::pair<Fd, Fd> sockets() {
  std::array<int, 2> pair{-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair.data()), 0);
  return {Fd(pair[0]), Fd(pair[1])};
}
}  // namespace

TEST(Attach, EveryMessageComesBackAsItWas) {
  WorkerHello hello{"det", "1.2", "abc", "worker_shim", kLayoutVersion, 42, 7};
  const auto hello_again = attach_body_from(to_json(hello)).value();
  EXPECT_EQ(std::get<WorkerHello>(hello_again).model, "det");
  EXPECT_EQ(std::get<WorkerHello>(hello_again).pid, 42);
  EXPECT_EQ(std::get<WorkerHello>(hello_again).slot, 7U);
  EXPECT_EQ(std::get<WorkerHello>(hello_again).layout_version, kLayoutVersion);
  hello.folder = "/models/" + std::string(3000, 'd');
  hello.origin = "0123456789abcdef";
  hello.attached = 3;
  hello.unfinished = {{1ULL << 40, 2}, {5, 0}};
  const auto full = std::get<WorkerHello>(attach_body_from(to_json(hello)).value());
  EXPECT_EQ(full.folder, hello.folder);
  EXPECT_EQ(full.origin, hello.origin);
  EXPECT_EQ(full.attached, 3U);
  ASSERT_EQ(full.unfinished.size(), 2U);
  EXPECT_EQ(full.unfinished[0].request, 1ULL << 40);
  EXPECT_EQ(full.unfinished[0].attempt, 2U);
  Accept accept{kLayoutVersion, 64, 1ULL << 40, ArenaId{3}, 5, 20};
  const auto accept_again = attach_body_from(to_json(accept)).value();
  EXPECT_EQ(std::get<Accept>(accept_again).input_bytes, 1ULL << 40);
  EXPECT_EQ(std::get<Accept>(accept_again).output_arena, ArenaId{3});
  EXPECT_EQ(std::get<ArenaNotice>(attach_body_from(to_json(ArenaNotice{ArenaId{9}, 77})).value()).bytes, 77U);
  EXPECT_EQ(std::get<ArenaGone>(attach_body_from(to_json(ArenaGone{ArenaId{9}})).value()).arena, ArenaId{9});
  EXPECT_EQ(std::get<SpinNotice>(attach_body_from(to_json(SpinNotice{35})).value()).spin_us, 35U);
  EXPECT_EQ(std::get<ExitNotice>(attach_body_from(to_json(ExitNotice{"go"})).value()).reason, "go");
  EXPECT_EQ(std::get<WorkerFailed>(attach_body_from(to_json(WorkerFailed{1, 2, "why"})).value()).text, "why");
}

TEST(Attach, RefusesWhatIsNoMessage) {
  for (const char* text :
       {"", "x", "[]", "{}", "{\"hello\":3}", "{\"hello\":{\"pid\":-1}}", "{\"hello\":{\"pid\":1e30}}",
        "{\"hello\":{\"slot\":4294967296}}", "{\"accept\":{\"capacity\":\"64\"}}", "{\"exit\":{}}",
        "{\"hello\":{\"model\":[[[[[[1]]]]]]}}"}) {
    EXPECT_FALSE(attach_body_from(text)) << text;
  }
  EXPECT_FALSE(attach_body_from("{\"hello\":{\"model\":\"" + std::string(300, 'a') + "\"}}"));
  EXPECT_TRUE(attach_body_from("{\"hello\":{\"model\":\"a\",\"later\":[1]},\"too\":1}"))
      << "unknown members are skipped";
}

TEST(Attach, DescriptorsTravelAndAreClosedWhenTheMessageIsRefused) {
  auto [one, two] = sockets();
  Fd spare(::dup(one.get()));
  ASSERT_TRUE(send_message(one.get(), AttachBody(ArenaNotice{ArenaId{1}, 5}), {spare.get()}));
  auto message = receive_message(two.get());
  ASSERT_TRUE(message);
  ASSERT_EQ(message.value().fds.size(), 1U);
  EXPECT_GE(message.value().fds[0].get(), 0);
  EXPECT_EQ(receive_message(two.get()).error().code, Errc::short_frame);
  const std::string wide(kMaxAttachBytes + 10, ' ');
  ASSERT_GT(::send(one.get(), wide.data(), wide.size(), 0), 0);
  EXPECT_EQ(receive_message(two.get()).error().code, Errc::bad_frame);
  one.reset();
  spare.reset();
  message.value().fds.clear();
  EXPECT_EQ(receive_message(two.get()).error().code, Errc::closed);
  EXPECT_EQ(send_message(two.get(), AttachBody(ExitNotice{"x"}), {}).error().code, Errc::closed);
}

TEST(Attach, NobodyThereIsUnreachable) {
  EXPECT_EQ(dial("/nonexistent/workers.sock").error().code, Errc::unreachable);
  EXPECT_EQ(dial(std::string(200, 'a')).error().code, Errc::unreachable);
  EXPECT_EQ(WorkerEndpoint::attach("/nonexistent/workers.sock", {}).error().code, Errc::unreachable);
}

}  // namespace gearbox::shm
