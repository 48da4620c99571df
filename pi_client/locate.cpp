#include "locate.hpp"

#include "gearbox/base/stop_point.hpp"

namespace gearbox::client {

namespace {

asio::awaitable<Outcome<wire::Located>> ask(std::shared_ptr<net::FrameStream> stream, const Identity* identity,
                                            wire::Locate question, milliseconds within, milliseconds* retry_after) {
  Outcome<wire::HelloOk> welcome =
      co_await log_in(stream, identity->user, &identity->keys, std::string(), within, retry_after);
  if (!welcome) co_return std::move(welcome).error();
  wire::FrameHeader header;
  header.type = wire::FrameType::locate;
  Outcome<void> written =
      co_await net::FrameStream::write_frame(stream, header, wire::to_json(question), ByteView(), within);
  if (!written) co_return std::move(written).error();
  Outcome<wire::Frame> answer = co_await expect(stream, wire::FrameType::located, within, retry_after);
  if (!answer) co_return std::move(answer).error();
  Outcome<wire::Located> located = wire::parse<wire::Located>(answer.value().json);
  if (!located) co_return std::move(located).error();
  if (located.value().addresses.empty())
    co_return Error{Errc::bad_frame, "central names no address of node '" + located.value().node + "'"};
  co_return std::move(located).value();
}

}  // namespace

asio::awaitable<Outcome<wire::Located>> locate(Dialler dialler, CentralAddress central, const Identity* identity,
                                               wire::Locate question, milliseconds within, milliseconds* retry_after) {
  Outcome<std::shared_ptr<net::FrameStream>> stream = co_await dial(dialler, central.url, central.server_key, within);
  if (!stream) co_return std::move(stream).error();
  Outcome<wire::Located> located = co_await ask(stream.value(), identity, std::move(question), within, retry_after);
  stream.value()->close();
  if (located) stop_point("client.located");
  co_return located;
}

}  // namespace gearbox::client
