// The handshake, whole but for what the input changes: any changed byte ends it, and only a changed one does.
#include "fuzz.hpp"
#include "gearbox/link/keys.hpp"
#include "gearbox/link/secure_channel.hpp"

namespace gearbox::fuzz {
namespace {

/// Changes bytes of `message` as the input says; true when it is another one then.
bool change(Input& input, ByteSpan message) {
  const Bytes before(message.begin(), message.end());
  for (auto count = input.take<std::uint8_t>() % 4; count > 0; --count) {
    const std::size_t at = input.take<std::uint8_t>() % message.size();
    message[at] ^= input.take<std::byte>();
  }
  return !std::equal(before.begin(), before.end(), message.begin());
}

void strangers(const link::ChannelKeys& keys, ByteView bytes) {
  (void)link::ServerHandshake::look_at(bytes);
  (void)link::ClientHandshake::look_at(bytes);
  link::ServerHandshake server(keys);
  const auto reply = server.read_hello(bytes);
  if (reply) require(!server.read_finish(bytes), "a finish that nobody made is refused");
  link::ClientHandshake client(keys.public_key);
  require(!client.read_reply(bytes), "a reply that nobody made is refused");
}

void altered(const link::ChannelKeys& keys, Input& input) {
  link::ClientHandshake client(keys.public_key);
  auto hello = client.hello();
  const bool other_hello = change(input, hello);
  link::ServerHandshake server(keys);
  auto reply = server.read_hello(hello);
  if (!reply) return require(other_hello, "an honest hello is taken");
  const bool other_reply = change(input, reply.value());
  auto done = client.read_reply(reply.value());
  if (!done) return require(other_hello || other_reply, "an honest reply is taken");
  require(!other_reply, "a changed reply is refused");
  require(!other_hello, "a changed hello shows");
  auto finish = done.value().finish;
  const bool other_finish = change(input, finish);
  auto channel = server.read_finish(finish);
  require(channel.has_value() == !other_finish, "a finish is taken when it is the client's");
  if (!channel) return;
  const ByteView plain = input.rest();
  Bytes sealed(plain.size() + link::kSealBytes);
  done.value().channel.seal(plain, {}, {}, sealed);
  Bytes opened(plain.size());
  require(channel.value().open(sealed, {}, opened).has_value(), "a record is opened");
  require(std::equal(plain.begin(), plain.end(), opened.begin()), "and is what was sealed");
  require(!channel.value().open(sealed, {}, opened), "a record that comes again is refused");
}

}  // namespace
}  // namespace gearbox::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gearbox;
  link::crypto_ready();
  static const link::ChannelKeys keys = link::make_channel_keys();
  fuzz::Input input(data, size);
  if (input.take<std::uint8_t>() % 2 == 0) {
    fuzz::strangers(keys, input.rest());
  } else {
    fuzz::altered(keys, input);
  }
  return 0;
}
