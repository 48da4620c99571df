#include "client.hpp"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

#include "gearbox/link/login.hpp"

namespace gearbox::bench {

namespace {

Error io(const char* what) {
  return Error{Errc::io_error, std::string(what) + ": " + std::strerror(errno)};
}

sockaddr_in address_of(const std::string& text, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  ::inet_pton(AF_INET, text.c_str(), &address.sin_addr);
  return address;
}

}  // namespace

Client::Client(Client&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), channel_(std::move(other.channel_)) {}

Client::~Client() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Outcome<Client> Client::log_in(const NodeProcess& node, const std::string& address) {
  Client client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (client.descriptor_ < 0) return io("socket");
  const int on = 1;
  const timeval patience{20, 0};
  // A device's pace is its own affair: BBR's timers would run on the node's time here, where both share a kernel.
  ::setsockopt(client.descriptor_, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
  ::setsockopt(client.descriptor_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(client.descriptor_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  ::setsockopt(client.descriptor_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  const sockaddr_in from = address_of(address, 0);
  const sockaddr_in to = address_of("127.0.0.1", node.port());
  if (::bind(client.descriptor_, reinterpret_cast<const sockaddr*>(&from), sizeof from) != 0) return io("bind");
  if (::connect(client.descriptor_, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) return io("connect");

  link::ClientHandshake handshake(node.server_key());
  BOOST_OUTCOME_TRY(client.send(handshake.hello()));
  std::array<std::byte, link::kReplyBytes> reply{};
  BOOST_OUTCOME_TRY(client.read(reply));
  BOOST_OUTCOME_TRY(auto agreed, handshake.read_reply(reply));
  BOOST_OUTCOME_TRY(client.send(agreed.finish));
  client.channel_.emplace(std::move(agreed.channel));

  // Each connection is a device of its own: a node takes only a few of one device.
  const link::SigningKeys device = link::make_signing_keys();
  wire::Hello hello;
  hello.role = "device";
  hello.ticket = node.ticket_for(device.public_key);
  hello.agent = "bench_path";
  link::sign_hello(device, client.channel_->h(), hello);
  wire::FrameHeader header;
  header.type = wire::FrameType::hello;
  Bytes sealed;
  client.seal(header, wire::to_json(hello), {}, sealed);
  BOOST_OUTCOME_TRY(client.send(sealed));
  BOOST_OUTCOME_TRY(client.receive(wire::FrameType::hello_ok));
  return client;
}

void Client::seal(wire::FrameHeader header, std::string_view json, ByteView payload, Bytes& out) {
  header.json_bytes = static_cast<std::uint32_t>(json.size());
  header.payload_bytes = static_cast<std::uint32_t>(payload.size());
  const wire::HeaderBytes plain = wire::encode(header);
  const std::size_t body = json.size() + payload.size();
  const std::size_t at = out.size();
  const std::size_t head = plain.size() + link::kSealBytes;
  out.resize(at + head + (body == 0 ? 0 : body + link::kSealBytes));
  channel_->seal(plain, {}, {}, ByteSpan(out).subspan(at, head));
  if (body != 0) channel_->seal(view_of(json), payload, plain, ByteSpan(out).subspan(at + head));
}

Outcome<void> Client::send(ByteView sealed) {
  while (!sealed.empty()) {
    const ssize_t sent = ::send(descriptor_, sealed.data(), sealed.size(), MSG_NOSIGNAL);
    if (sent <= 0) return io("send");
    sealed = sealed.subspan(static_cast<std::size_t>(sent));
  }
  return done();
}

Outcome<void> Client::read(ByteSpan out) {
  while (!out.empty()) {
    const ssize_t got = ::recv(descriptor_, out.data(), out.size(), MSG_WAITALL);
    if (got == 0) return Error{Errc::io_error, "the node closed the connection"};
    if (got < 0) return io("recv");
    out = out.subspan(static_cast<std::size_t>(got));
  }
  return done();
}

Outcome<wire::Frame> Client::receive() {
  std::array<std::byte, wire::kHeaderBytes + link::kSealBytes> head{};
  wire::HeaderBytes plain{};
  BOOST_OUTCOME_TRY(read(head));
  BOOST_OUTCOME_TRY(channel_->open(head, {}, plain));
  wire::Frame frame;
  BOOST_OUTCOME_TRY(frame.header, wire::parse_header(plain));
  const std::size_t body = std::size_t{frame.header.json_bytes} + frame.header.payload_bytes;
  if (body != 0) {
    Bytes sealed(body + link::kSealBytes);
    BOOST_OUTCOME_TRY(read(sealed));
    Bytes opened(body);
    BOOST_OUTCOME_TRY(channel_->open(sealed, plain, opened));
    frame.json.assign(text_of(opened).substr(0, frame.header.json_bytes));
    frame.payload.assign(opened.begin() + frame.header.json_bytes, opened.end());
  }
  if (frame.header.type == wire::FrameType::error) return Error{Errc::io_error, "the node says " + frame.json};
  return frame;
}

Outcome<wire::Frame> Client::receive(wire::FrameType type) {
  for (;;) {
    BOOST_OUTCOME_TRY(auto frame, receive());
    if (frame.header.type == type) return frame;
  }
}

}  // namespace gearbox::bench
