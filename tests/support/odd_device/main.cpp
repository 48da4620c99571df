// odd_device: a device that does what pi_client never would: shows its ticket, uses another's, uploads what it did not
// announce, holds a thousand connections. It prints one line for what happened and exits 0; 1 when it could not try, 2
// for wrong usage.
//
//   odd_device ticket CENTRAL KEY USER KEYS TASK          asks central; prints Located as JSON
//   odd_device use KEYS                                   logs in with the Located on standard input
//   odd_device hold CENTRAL KEY USER TASK EACH KEYS...    as each device: asks central, logs in EACH times; prints
//                                                         "holding N", keeps them alive until standard input ends,
//                                                         prints "lost N"
//   odd_device upload KEYS TASK FILE PLAIN_BYTES CODEC    announces PLAIN_BYTES, sends FILE as the one coded tile
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device_key.hpp"
#include "dial.hpp"
#include "gearbox/base/text.hpp"
#include "gearbox/link/upload.hpp"
#include "locate.hpp"
#include "tasks.hpp"
#include "transport_tcp/tcp_transport.hpp"

namespace {

using namespace gearbox;
using namespace gearbox::client;
using Stream = std::shared_ptr<net::FrameStream>;

constexpr milliseconds kWithin{20'000};

struct Scene {
  Dialler dialler;
  Identity identity;
  wire::Located located;
  std::array<std::byte, 32> node_key{};
};

void print(const Error& error) {
  std::printf("%s: %s\n", std::string(name_of(error.code)).c_str(), escaped(error.detail, 500).c_str());
  std::fflush(stdout);
}

asio::awaitable<Outcome<Stream>> enter(const Scene* scene, std::uint32_t* idle_ms) {
  Outcome<Stream> stream = co_await dial(scene->dialler, scene->located.addresses.front(), scene->node_key, kWithin);
  if (!stream) co_return std::move(stream).error();
  Outcome<wire::HelloOk> welcome = co_await log_in(stream.value(), scene->identity.user, &scene->identity.keys,
                                                   scene->located.ticket, kWithin, nullptr);
  if (!welcome) co_return std::move(welcome).error();
  if (idle_ms != nullptr) *idle_ms = welcome.value().idle_ms;
  co_return std::move(stream).value();
}

asio::awaitable<void> use(const Scene* scene) {
  Outcome<Stream> stream = co_await enter(scene, nullptr);
  if (!stream) co_return print(stream.error());
  std::puts("ok: logged in");
  stream.value()->close();
}

asio::awaitable<void> keep_alive(Stream stream, milliseconds every, std::size_t* lost) {
  for (;;) {
    Outcome<wire::Frame> frame = co_await net::FrameStream::read_frame(stream, every);
    wire::FrameHeader header;
    header.type = frame ? wire::FrameType::pong : wire::FrameType::ping;
    if (!frame && frame.error().code != Errc::timeout) break;
    if (frame && frame.value().header.type != wire::FrameType::ping) continue;
    Outcome<void> sent = co_await net::FrameStream::write_frame(stream, header, std::string(), ByteView(), kWithin);
    if (!sent) break;
  }
  ++*lost;
}

/// Logs in `each` times as one device.
asio::awaitable<Outcome<void>> hold_as(Scene* scene, CentralAddress central, std::string task, std::size_t each,
                                       TaskGroup* tasks, std::vector<Stream>* streams, std::size_t* lost) {
  milliseconds retry_after{0};
  wire::Locate question{.task = std::move(task)};
  Outcome<wire::Located> located =
      co_await locate(scene->dialler, std::move(central), &scene->identity, std::move(question), kWithin, &retry_after);
  if (!located) co_return std::move(located).error();
  scene->located = std::move(located).value();
  Outcome<void> key = from_hex(scene->located.node_key, scene->node_key);
  if (!key) co_return std::move(key).error();
  for (std::size_t i = 0; i < each; ++i) {
    std::uint32_t idle_ms = 0;
    Outcome<Stream> stream = co_await enter(scene, &idle_ms);
    if (!stream) co_return std::move(stream).error();
    streams->push_back(stream.value());
    tasks->spawn(keep_alive(streams->back(), milliseconds(idle_ms / 3), lost));
  }
  co_return done();
}

asio::awaitable<void> hold(Scene* scene, CentralAddress central, std::vector<std::string> words,
                           asio::io_context* context, int* code) {
  TaskGroup tasks(scene->dialler.executor);
  std::vector<Stream> streams;
  std::size_t lost = 0;
  for (std::size_t i = 6; i < words.size(); ++i) {
    Outcome<link::SigningKeys> keys = load_device_key(words[i]);
    Outcome<void> held = done();
    if (keys) {
      scene->identity.keys = std::move(keys).value();
      held = co_await hold_as(scene, central, words[4], std::stoul(words[5]), &tasks, &streams, &lost);
    } else {
      held = keys.error();
    }
    if (!held) {
      print(held.error());
      *code = 1;
      context->stop();
      co_return;
    }
  }
  std::printf("holding %zu\n", streams.size());
  std::fflush(stdout);
  asio::posix::stream_descriptor input(scene->dialler.executor, ::dup(STDIN_FILENO));
  std::array<char, 16> bytes{};
  co_await input.async_read_some(asio::buffer(bytes), asio::as_tuple(asio::use_awaitable));
  std::printf("lost %zu\n", lost);
  for (const Stream& stream : streams) stream->close();
  context->stop();
}

asio::awaitable<void> upload(const Scene* scene, std::string task, Bytes file, std::int64_t plain_bytes,
                             std::string codec) {
  Outcome<Stream> stream = co_await enter(scene, nullptr);
  if (!stream) co_return print(stream.error());
  wire::InputSpec spec;
  spec.tensor.name = "image";
  spec.tensor.dtype = wire::DType::uint8;
  spec.tensor.shape = {plain_bytes};
  spec.tensor.bytes = static_cast<std::uint64_t>(plain_bytes);
  spec.wire_bytes = file.size();
  spec.codecs = {std::move(codec)};
  wire::Submit submit;
  submit.task = std::move(task);
  submit.wire_bytes = file.size();
  submit.inputs.push_back(std::move(spec));
  link::Digest digest;
  digest.update(file);
  submit.digest = digest.hex();
  wire::FrameHeader header;
  header.type = wire::FrameType::submit;
  header.request = link::random_request_id();
  Outcome<void> sent =
      co_await net::FrameStream::write_frame(stream.value(), header, wire::to_json(submit), ByteView(), kWithin);
  if (!sent) co_return print(sent.error());
  Outcome<wire::Frame> answer = co_await expect(stream.value(), wire::FrameType::upload_at, kWithin, nullptr);
  if (!answer) co_return print(answer.error());
  header.type = wire::FrameType::upload_data;
  sent = co_await net::FrameStream::write_frame(stream.value(), header, std::string(), file, kWithin);
  if (!sent) co_return print(sent.error());
  answer = co_await expect(stream.value(), wire::FrameType::result, kWithin, nullptr);
  if (!answer) co_return print(answer.error());
  std::puts("ok: it was answered");
  stream.value()->close();
}

asio::awaitable<void> ticket(const Scene* scene, CentralAddress central, std::string task, int* code) {
  milliseconds retry_after{0};
  wire::Locate question{.task = std::move(task)};
  Outcome<wire::Located> located =
      co_await locate(scene->dialler, std::move(central), &scene->identity, std::move(question), kWithin, &retry_after);
  if (!located) {
    print(located.error());
    *code = 1;
  } else {
    std::puts(wire::to_json(located.value()).c_str());
  }
}

int fail(const Error& error) {
  print(error);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  ::signal(SIGPIPE, SIG_IGN);
  link::crypto_ready();
  const std::vector<std::string> words(argv + 1, argv + argc);
  const std::string command = words.empty() ? std::string() : words[0];
  const bool asks = command == "ticket" && words.size() == 6;
  const bool holds = command == "hold" && words.size() >= 7;
  if (!asks && !holds && !(command == "use" && words.size() == 2) && !(command == "upload" && words.size() == 6)) {
    std::fputs("usage: odd_device ticket|use|hold|upload ... (see main.cpp)\n", stderr);
    return 2;
  }
  asio::io_context context(1);
  asio::thread_pool pool(1);
  transport_tcp::TcpTransport transport;
  Outcome<link::SigningKeys> keys = load_device_key(asks ? words[4] : holds ? words[6] : words[1]);
  if (!keys) return fail(keys.error());
  Scene scene{.dialler = {context.get_executor(), &transport, &pool},
              .identity = {asks || holds ? words[3] : std::string(), std::move(keys).value()},
              .located = {},
              .node_key = {}};
  int code = 0;
  TaskGroup tasks(scene.dialler.executor);
  if (asks || holds) {
    CentralAddress central;
    central.url = words[1];
    central.user = words[3];
    if (!from_hex(words[2], central.server_key)) return fail(Error{Errc::bad_input, "KEY"});
    if (asks) tasks.spawn(ticket(&scene, std::move(central), words[5], &code));
    if (holds) tasks.spawn(hold(&scene, std::move(central), words, &context, &code));
  } else {
    std::string line;
    std::getline(std::cin, line);
    Outcome<wire::Located> located = wire::parse<wire::Located>(line);
    if (!located) return fail(located.error());
    scene.located = std::move(located).value();
    if (!from_hex(scene.located.node_key, scene.node_key)) return fail(Error{Errc::bad_input, "node_key"});
    if (command == "use") tasks.spawn(use(&scene));
    if (command == "upload") {
      std::ifstream file(words[3], std::ios::binary);
      const std::string text{std::istreambuf_iterator<char>(file), {}};
      const ByteView bytes = std::as_bytes(std::span(text));
      tasks.spawn(upload(&scene, words[2], Bytes(bytes.begin(), bytes.end()), std::stoll(words[4]), words[5]));
    }
  }
  context.run();
  pool.join();
  return code;
}
