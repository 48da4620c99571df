#include "node/node_dialler.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <optional>
#include <utility>

#include "gearbox/link/login.hpp"

namespace gearbox::node {

namespace asio = boost::asio;
using net::FrameStream;
using wire::FrameHeader;
using wire::FrameType;

namespace {

constexpr milliseconds kConnectLimit{4'000};
constexpr milliseconds kAnswerLimit{3'000};

using MaybeConnected = std::optional<Outcome<plugin::Connection>>;  // co_spawn wants a result that can be empty

asio::awaitable<MaybeConnected> connect_now(
    std::function<Outcome<plugin::Connection>(const std::string&, Instant)> connect, std::string url) {
  co_return connect(url, after(Clock::now(), kConnectLimit));
}

}  // namespace

void NodeDialler::join() {
  diallers_.stop();
  diallers_.join();
}

asio::awaitable<NodeDialler::Stream> NodeDialler::reach(std::shared_ptr<NodeDialler> self, WantedWay wanted) {
  const std::string node = wanted.node;
  Outcome<wire::Located> way = co_await CentralLink::way(self->setup_.central, std::move(wanted));
  if (!way) co_return way.error();
  wire::Located found = std::move(way).value();
  Stream dialled = co_await dial(self, std::move(found));
  if (!dialled) co_return Error{dialled.error().code, "node '" + node + "': " + dialled.error().detail};
  co_return dialled;
}

asio::awaitable<NodeDialler::Stream> NodeDialler::dial(std::shared_ptr<NodeDialler> self, wire::Located way) {
  std::array<std::byte, 32> key{};
  if (!from_hex(way.node_key, key)) co_return Error{Errc::bad_frame, "central tells no key"};
  Stream stream = Error{Errc::unreachable, "it has no address"};
  for (const std::string& url : way.addresses) {
    MaybeConnected maybe = co_await asio::co_spawn(self->diallers_.get_executor(),
                                                   connect_now(self->setup_.connect, url), asio::use_awaitable);
    if (*maybe) {
      stream = FrameStream::adopt(self->setup_.io->get_executor(), maybe->value().descriptor, maybe->value().peer);
    } else {
      stream = maybe->error();
    }
    if (stream) break;
  }
  if (!stream) co_return stream;
  Outcome<void> sealed = co_await FrameStream::connect_sealed(stream.value(), key, kConnectLimit);
  if (!sealed) co_return sealed.error();
  wire::Hello hello;
  hello.role = "node";
  hello.agent = "broker " GEARBOX_VERSION;
  hello.ticket = way.ticket;
  link::sign_hello(self->setup_.keys, stream.value()->h(), hello);
  FrameHeader header;
  header.type = FrameType::hello;
  std::string hello_text = wire::to_json(hello);
  Outcome<void> sent =
      co_await FrameStream::write_frame(stream.value(), header, std::move(hello_text), ByteView(), kAnswerLimit);
  if (!sent) co_return sent.error();
  Outcome<wire::Frame> welcome = co_await FrameStream::read_frame(stream.value(), kAnswerLimit);
  if (!welcome) co_return welcome.error();
  if (welcome.value().header.type == FrameType::hello_ok) co_return stream;
  Outcome<wire::ErrorMessage> refusal = wire::parse<wire::ErrorMessage>(welcome.value().json);
  co_return refusal ? wire::to_error(refusal.value()) : refusal.error();
}

}  // namespace gearbox::node
