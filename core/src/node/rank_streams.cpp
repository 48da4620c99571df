#include "node/rank_streams.hpp"

#include <spdlog/spdlog.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <optional>
#include <utility>

#include "gearbox/base/text.hpp"
#include "gearbox/link/login.hpp"
#include "link/json_reader.hpp"
#include "serving/local_socket.hpp"

namespace gearbox::node {

namespace asio = boost::asio;
namespace json = boost::json;
using net::FrameStream;
using wire::FrameHeader;
using wire::FrameType;

namespace {

constexpr milliseconds kConnectLimit{4'000};
constexpr milliseconds kAnswerLimit{3'000};
constexpr milliseconds kWriteLimit{10'000};
constexpr milliseconds kQuiet{2'000};   // of another node: then it is asked for a sign of life
constexpr milliseconds kSilent{4'000};  // after which it is gone
constexpr milliseconds kBodyLimit{10'000};
constexpr milliseconds kIdle{std::chrono::hours(24)};  // of a process of this host: the kernel tells its end

struct Asked {
  std::string node, group, driver;
};

Outcome<Asked> read_asked(const std::string& text) {
  boost::system::error_code bad;
  const json::value value = json::parse(text, bad);
  if (bad || !value.is_object()) return Error{Errc::bad_frame, "ranks_open: no JSON object"};
  Asked asked;
  link::ObjectReader reader(value.get_object());
  reader.read("node", asked.node, kMaxNameBytes);
  reader.read("group", asked.group, kMaxNameBytes);
  reader.read("driver", asked.driver, kMaxNameBytes);
  BOOST_OUTCOME_TRY(reader.result());
  BOOST_OUTCOME_TRY(check_name("group", asked.group));  // it names a socket's file
  return asked;
}

using MaybeConnected = std::optional<Outcome<plugin::Connection>>;  // co_spawn wants a result that can be empty

asio::awaitable<MaybeConnected> connect_now(
    std::function<Outcome<plugin::Connection>(const std::string&, Instant)> connect, std::string url) {
  co_return connect(url, after(Clock::now(), kConnectLimit));
}

bool is_for_the_other_end(FrameType type) {
  return type == FrameType::ranks_data || type == FrameType::ranks_open || type == FrameType::error;
}

asio::awaitable<Outcome<void>> carry_one(std::shared_ptr<FrameStream> from, std::shared_ptr<FrameStream> to,
                                         FrameHeader header) {
  if (!is_for_the_other_end(header.type)) {
    Outcome<void> skipped = co_await FrameStream::skip_body(from, kBodyLimit);
    if (!skipped || header.type != FrameType::ping) co_return skipped;
    FrameHeader pong;
    pong.type = FrameType::pong;
    co_return co_await FrameStream::write_frame(from, pong, std::string(), ByteView(), kWriteLimit);
  }
  Bytes body(header.json_bytes + header.payload_bytes);
  Outcome<void> read = co_await FrameStream::read_body(from, body, kBodyLimit);
  if (!read) co_return read;
  std::string text(text_of(ByteView(body).first(header.json_bytes)));
  const ByteView payload = ByteView(body).subspan(header.json_bytes);
  co_return co_await FrameStream::write_frame(to, header, std::move(text), payload, kWriteLimit);
}

/// Until either end's end, which it makes the other one's.
asio::awaitable<Error> carry(std::shared_ptr<FrameStream> from, std::shared_ptr<FrameStream> to) {
  bool asked = false;
  Error end;
  for (;;) {
    const milliseconds patience = !from->sealed() ? kIdle : asked ? kSilent : kQuiet;
    Outcome<FrameHeader> header = co_await FrameStream::read_header(from, patience);
    Outcome<void> going = done();
    if (header) {
      asked = false;
      going = co_await carry_one(from, to, header.value());
    } else if (header.error().code == Errc::timeout && !asked) {
      asked = true;
      FrameHeader ping;
      ping.type = FrameType::ping;
      going = co_await FrameStream::write_frame(from, ping, std::string(), ByteView(), kWriteLimit);
    } else {
      going = header.error();
    }
    if (going) continue;
    end = going.error();
    break;
  }
  from->close();
  to->close();
  co_return end;
}

asio::awaitable<void> carry_back(std::shared_ptr<FrameStream> from, std::shared_ptr<FrameStream> to) {
  co_await carry(from, to);
}

}  // namespace

void RankStreams::join() {
  diallers_.stop();
  diallers_.join();
}

asio::awaitable<Outcome<void>> RankStreams::serve(std::shared_ptr<RankStreams> self, std::shared_ptr<FrameStream> from,
                                                  std::string text, session::Identity who) {
  Outcome<Asked> asked = read_asked(text);
  if (!asked) co_return asked.error();
  const std::string group = asked.value().group;
  json::object told{{"group", group}, {"driver", asked.value().driver}};
  Stream reached = Error{Errc::not_allowed, "the ticket is not for ranks of '" + group + "'"};
  if (who.local) {
    reached = co_await reach_node(self, asked.value().node, group);
  } else if (who.ticket.ranks == group) {
    reached = self->reach_host(group);
    told["from"] = who.ticket.user;  // by central's word: its name
  }
  if (!reached) co_return reached.error();
  const std::shared_ptr<FrameStream> to = reached.value();
  FrameHeader open;
  open.type = FrameType::ranks_open;
  std::string told_text = json::serialize(told);
  Outcome<void> sent = co_await FrameStream::write_frame(to, open, std::move(told_text), ByteView(), kAnswerLimit);
  if (!sent) co_return sent.error();
  spdlog::info("event=ranks_open group={} peer={} to={}", group, escaped(from->peer()), escaped(to->peer()));
  asio::co_spawn(*self->setup_.io, carry_back(to, from), asio::detached);
  const Error end = co_await carry(from, to);
  spdlog::info("event=ranks_closed group={} peer={} reason=\"{}\"", group, escaped(from->peer()),
               escaped(describe(end)));
  co_return Error{Errc::closed, {}};
}

asio::awaitable<RankStreams::Stream> RankStreams::reach_node(std::shared_ptr<RankStreams> self, std::string node,
                                                             std::string group) {
  Outcome<wire::Located> way = co_await CentralLink::way(self->setup_.central, node, group);
  if (!way) co_return way.error();
  wire::Located found = std::move(way).value();
  Stream dialled = co_await dial(self, std::move(found));
  if (!dialled) co_return Error{dialled.error().code, "node '" + node + "': " + dialled.error().detail};
  co_return dialled;
}

asio::awaitable<RankStreams::Stream> RankStreams::dial(std::shared_ptr<RankStreams> self, wire::Located way) {
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

RankStreams::Stream RankStreams::reach_host(const std::string& group) const {
  BOOST_OUTCOME_TRY(const int descriptor, serving::connect_local(setup_.hosts / (group + ".sock")));
  return FrameStream::adopt(setup_.io->get_executor(), descriptor, "rank host " + group);
}

}  // namespace gearbox::node
