#include "node/rank_streams.hpp"

#include <spdlog/spdlog.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <utility>

#include "gearbox/base/text.hpp"
#include "link/json_reader.hpp"
#include "node/carrying.hpp"
#include "serving/local_socket.hpp"

namespace gearbox::node {

namespace asio = boost::asio;
namespace json = boost::json;
using net::FrameStream;
using wire::FrameHeader;
using wire::FrameType;

namespace {

constexpr milliseconds kAnswerLimit{3'000};

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

constexpr Carried kCarried{FrameType::ranks_open, FrameType::ranks_data};

asio::awaitable<void> carry_back(std::shared_ptr<FrameStream> from, std::shared_ptr<FrameStream> to) {
  co_await carry(from, to, kCarried);
}

}  // namespace

asio::awaitable<Outcome<void>> RankStreams::serve(std::shared_ptr<RankStreams> self, std::shared_ptr<FrameStream> from,
                                                  std::string text, session::Identity who) {
  Outcome<Asked> asked = read_asked(text);
  if (!asked) co_return asked.error();
  const std::string group = asked.value().group;
  json::object told{{"group", group}, {"driver", asked.value().driver}};
  Stream reached = Error{Errc::not_allowed, "the ticket is not for ranks of '" + group + "'"};
  if (who.local) {
    WantedWay wanted{.node = asked.value().node, .ranks = group};
    reached = co_await NodeDialler::reach(self->setup_.nodes, std::move(wanted));
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
  const Error end = co_await carry(from, to, kCarried);
  spdlog::info("event=ranks_closed group={} peer={} reason=\"{}\"", group, escaped(from->peer()),
               escaped(describe(end)));
  co_return Error{Errc::closed, {}};
}

RankStreams::Stream RankStreams::reach_host(const std::string& group) const {
  BOOST_OUTCOME_TRY(const int descriptor, serving::connect_local(setup_.hosts / (group + ".sock")));
  return FrameStream::adopt(setup_.io->get_executor(), descriptor, "rank host " + group);
}

}  // namespace gearbox::node
