#include "locate.hpp"

#include <optional>

#include "contact.hpp"
#include "gearbox/base/stop_point.hpp"

namespace gearbox::client {

namespace {

/// Did the way fail, and not the central at its end?
bool is_of_the_way(Errc code) {
  switch (code) {
    case Errc::unreachable:
    case Errc::timeout:
    case Errc::closed:
    case Errc::io_error:
    case Errc::decrypt_failed:
    case Errc::shutting_down:
      return true;
    default:
      return false;
  }
}

asio::awaitable<Outcome<wire::Located>> ask(Dialler dialler, std::shared_ptr<net::FrameStream> stream,
                                            const Identity* identity, wire::Locate question, milliseconds within,
                                            milliseconds* retry_after) {
  Outcome<wire::HelloOk> welcome =
      co_await log_in(stream, identity->user, &identity->keys, std::string(), within, retry_after);
  if (!welcome) co_return std::move(welcome).error();
  if (identity->desk) {
    Outcome<void> asked = co_await ask_for_commands(stream, within);
    if (!asked) co_return std::move(asked).error();
  }
  wire::FrameHeader header;
  header.type = wire::FrameType::locate;
  Outcome<void> written =
      co_await net::FrameStream::write_frame(stream, header, wire::to_json(question), ByteView(), within);
  if (!written) co_return std::move(written).error();
  Outcome<wire::Frame> answer = co_await expect(stream, wire::FrameType::located, within, retry_after, wire::kCommand);
  while (answer && answer.value().header.type == wire::kCommand) {
    if (identity->desk) {
      Outcome<void> told =
          co_await answer_command(dialler, identity->desk.get(), stream, std::move(answer.value().json), within);
      if (!told) co_return std::move(told).error();
    }
    answer = co_await expect(stream, wire::FrameType::located, within, retry_after, wire::kCommand);
  }
  if (!answer) co_return std::move(answer).error();
  Outcome<wire::Located> located = wire::parse<wire::Located>(answer.value().json);
  if (!located) co_return std::move(located).error();
  if (located.value().addresses.empty())
    co_return Error{Errc::bad_frame, "central names no address of node '" + located.value().node + "'"};
  co_return std::move(located).value();
}

}  // namespace

asio::awaitable<Outcome<wire::Located>> locate(Dialler dialler, CentralPlace central, const Identity* identity,
                                               wire::Locate question, milliseconds within, milliseconds* retry_after) {
  Outcome<std::shared_ptr<net::FrameStream>> stream = co_await dial(dialler, central.url, central.server_key, within);
  if (!stream) co_return std::move(stream).error();
  Outcome<wire::Located> located =
      co_await ask(dialler, stream.value(), identity, std::move(question), within, retry_after);
  stream.value()->close();
  if (located) stop_point("client.located");
  co_return located;
}

asio::awaitable<Outcome<wire::Located>> locate_in_turn(Dialler dialler, CentralAddress central,
                                                       const Identity* identity, wire::Locate question,
                                                       milliseconds within, milliseconds* retry_after,
                                                       std::size_t* turn) {
  const std::size_t count = 1 + central.others.size();
  std::optional<Error> said;
  Error failed;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t number = (*turn + i) % count;
    CentralPlace place = number == 0 ? static_cast<const CentralPlace&>(central) : central.others[number - 1];
    milliseconds advised{0};
    Outcome<wire::Located> located = co_await locate(dialler, std::move(place), identity, question, within, &advised);
    if (located) {
      *turn = number;
      co_return located;
    }
    failed = std::move(located).error();
    if (!said) *retry_after = advised;
    // What one central refuses, a standby that knows more may still grant.
    if (!is_of_the_way(failed.code) && !said) said = failed;
  }
  co_return said ? *said : failed;
}

}  // namespace gearbox::client
