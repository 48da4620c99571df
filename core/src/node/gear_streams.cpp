#include "node/gear_streams.hpp"

#include <spdlog/spdlog.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>
#include <utility>

#include "gear_facts/ask.hpp"
#include "gear_facts/engine_status.hpp"
#include "gear_facts/places.hpp"
#include "gearbox/base/text.hpp"
#include "link/json_reader.hpp"
#include "node/carrying.hpp"
#include "node/gear_questions.hpp"
#include "serving/control_client.hpp"

namespace gearbox::node {

namespace asio = boost::asio;
namespace json = boost::json;
using net::FrameStream;
using wire::FrameHeader;
using wire::FrameType;

namespace {

constexpr milliseconds kAnswerLimit{3'000};
constexpr milliseconds kRole{2'000};    // of observer and executor
constexpr milliseconds kPrice{10'000};  // of a driver
constexpr Carried kCarried{FrameType::gears_open, FrameType::gears_data};

Outcome<std::string> read_node(const std::string& text) {
  boost::system::error_code bad;
  const json::value value = json::parse(text, bad);
  if (bad || !value.is_object()) return Error{Errc::bad_frame, "gears_open: no JSON object"};
  std::string node;
  link::ObjectReader reader(value.get_object());
  reader.read("node", node, kMaxNameBytes);
  BOOST_OUTCOME_TRY(reader.result());
  BOOST_OUTCOME_TRY(check_name("node", node));
  return node;
}

asio::awaitable<void> carry_back(std::shared_ptr<FrameStream> from, std::shared_ptr<FrameStream> to) {
  co_await carry(from, to, kCarried);
}

/// All that a scheduler looks at; the rest of an engine's answer may be of any size.
std::string priced(const json::object& answer) {
  const gear_facts::EngineWord word = gear_facts::word_of(answer);
  json::object told{{"ok", word.ok}, {"why", word.why}};
  const json::value* fits = answer.if_contains("fits");
  if (fits != nullptr && fits->is_bool()) told["fits"] = fits->get_bool();
  return json::serialize(told);
}

}  // namespace

asio::awaitable<Outcome<void>> GearStreams::serve(std::shared_ptr<GearStreams> self, std::shared_ptr<FrameStream> from,
                                                  std::string text, session::Identity who) {
  if (!who.local) co_return co_await answer(self, from, std::move(who));
  Outcome<std::string> node = read_node(text);
  if (!node) co_return node.error();
  co_return co_await pass_on(self, from, std::move(node).value());
}

asio::awaitable<Outcome<void>> GearStreams::pass_on(std::shared_ptr<GearStreams> self,
                                                    std::shared_ptr<FrameStream> from, std::string node) {
  WantedWay wanted{.node = node, .ranks = {}, .gears = true};
  NodeDialler::Stream reached = co_await NodeDialler::reach(self->setup_.nodes, std::move(wanted));
  if (!reached) co_return reached.error();
  const std::shared_ptr<FrameStream> to = reached.value();
  FrameHeader open;
  open.type = FrameType::gears_open;
  Outcome<void> sent = co_await FrameStream::write_frame(to, open, std::string("{}"), ByteView(), kAnswerLimit);
  if (!sent) co_return sent.error();
  asio::co_spawn(*self->setup_.io, carry_back(to, from), asio::detached);
  co_await carry(from, to, kCarried);
  co_return Error{Errc::closed, {}};
}

Outcome<void> GearStreams::may_decide(const session::Identity& who) const {
  if (!who.ticket.gears) return Error{Errc::not_allowed, "the ticket is not for deciding on groups"};
  const std::vector<std::string> leaders = setup_.leaders();
  if (std::find(leaders.begin(), leaders.end(), who.ticket.user) == leaders.end()) {
    return Error{Errc::not_allowed, "node '" + setup_.node + "' does not let '" + escaped(who.ticket.user) +
                                        "' decide on its groups: gears.leaders there does not name it"};
  }
  return setup_.still_good(who);
}

asio::awaitable<Outcome<void>> GearStreams::answer(std::shared_ptr<GearStreams> self, std::shared_ptr<FrameStream> from,
                                                   session::Identity who) {
  Outcome<void> may = self->may_decide(who);
  if (!may) co_return may;
  const std::string leader = who.ticket.user;
  Open& open_ones = self->open_[leader];
  if (const auto oldest = open_ones.before.lock()) oldest->close();
  open_ones.before = std::exchange(open_ones.last, from);
  // Half of its time: the next one is opened while this one still counts.
  json::object told{{"renew_ms", self->setup_.time_left(who.ticket).count() / 2}};
  std::string told_text = json::serialize(told);
  FrameHeader open;
  open.type = FrameType::gears_open;
  Outcome<void> going = co_await FrameStream::write_frame(from, open, std::move(told_text), ByteView(), kWriteLimit);
  spdlog::info("event=gears_open leader={} peer={}", escaped(leader), escaped(from->peer()));
  const auto waiting = std::make_shared<std::size_t>(0);
  bool asked = false;
  while (going) {
    Outcome<FrameHeader> header = co_await FrameStream::read_header(from, asked ? kSilent : kQuiet);
    if (header) {
      asked = false;
      going = self->may_decide(who);
      if (going) going = co_await take(self, from, header.value(), leader, waiting);
    } else if (header.error().code == Errc::timeout && !asked) {
      asked = true;
      FrameHeader ping;
      ping.type = FrameType::ping;
      going = co_await FrameStream::write_frame(from, ping, std::string(), ByteView(), kWriteLimit);
    } else {
      going = header.error();
    }
  }
  spdlog::info("event=gears_closed leader={} peer={} reason=\"{}\"", escaped(leader), escaped(from->peer()),
               escaped(describe(going.error())));
  co_return going;
}

/// One frame of a leader.
asio::awaitable<Outcome<void>> GearStreams::take(std::shared_ptr<GearStreams> self, std::shared_ptr<FrameStream> from,
                                                 FrameHeader header, std::string leader,
                                                 std::shared_ptr<std::size_t> open) {
  if (header.type != FrameType::gears_data) {
    Outcome<void> skipped = co_await FrameStream::skip_body(from, kBodyLimit);
    if (!skipped || header.type != FrameType::ping) co_return skipped;
    FrameHeader pong;
    pong.type = FrameType::pong;
    co_return co_await FrameStream::write_frame(from, pong, std::string(), ByteView(), kWriteLimit);
  }
  if (header.payload_bytes > 0) co_return Error{Errc::bad_frame, "gears_data: a question has no payload"};
  std::string text(header.json_bytes, '\0');
  Outcome<void> read = co_await FrameStream::read_body(from, std::as_writable_bytes(std::span(text)), kBodyLimit);
  if (!read) co_return read;
  if (*open >= kMostAtOnce) {
    FrameHeader refused;
    refused.type = FrameType::error;
    refused.request = header.request;
    const Error many{Errc::overloaded, "too many questions at once"};
    std::string why = wire::to_json(wire::to_message(many));
    co_return co_await FrameStream::write_frame(from, refused, std::move(why), ByteView(), kWriteLimit);
  }
  ++*open;
  asio::co_spawn(*self->setup_.io, answer_one(self, from, header.request, std::move(text), std::move(leader), open),
                 asio::detached);
  co_return done();
}

asio::awaitable<void> GearStreams::answer_one(std::shared_ptr<GearStreams> self, std::shared_ptr<FrameStream> from,
                                              RequestId id, std::string text, std::string leader,
                                              std::shared_ptr<std::size_t> open) {
  Outcome<std::string> answer = co_await ask_here(self, std::move(text), std::move(leader));
  --*open;
  FrameHeader header;
  header.type = answer ? FrameType::gears_data : FrameType::error;
  header.request = id;
  std::string told = answer ? std::move(answer).value() : wire::to_json(wire::to_message(answer.error()));
  // Who cannot be told is gone: the reader notices.
  [[maybe_unused]] const Outcome<void> sent =
      co_await FrameStream::write_frame(from, header, std::move(told), ByteView(), kWriteLimit);
}

asio::awaitable<Outcome<std::string>> GearStreams::ask_here(std::shared_ptr<GearStreams> self, std::string text,
                                                            std::string leader) {
  Outcome<GearQuestion> question = read_gear_question(text, leader);
  if (!question) co_return question.error();
  const config::StateDir& state = self->setup_.state;
  const asio::any_io_executor executor = self->setup_.io->get_executor();
  if (question.value().to == GearQuestion::To::group) {
    std::filesystem::path driver = gear_facts::group_socket(state, question.value().group);
    gear_facts::Answer price =
        co_await gear_facts::ask_engine(executor, std::move(driver), std::move(question.value().passed), kPrice);
    if (!price) co_return price.error();
    co_return priced(price.value());
  }
  std::filesystem::path socket = question.value().to == GearQuestion::To::observer ? gear_facts::observer_socket(state)
                                                                                   : gear_facts::executor_socket(state);
  std::string passed = json::serialize(question.value().passed);
  co_return co_await serving::ask_control(executor, std::move(socket), std::move(passed), kRole);
}

}  // namespace gearbox::node
