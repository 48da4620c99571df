// A session that turns out to be a stream between hosts, to a rank or to decide on groups: it is nothing else until its
// end.
#include <utility>

#include "session/device_session.hpp"

namespace gearbox::session {

namespace asio = boost::asio;
using net::FrameStream;

asio::awaitable<Outcome<void>> DeviceSession::serve_carried(Self self, wire::FrameHeader header) {
  Bytes body(header.json_bytes + header.payload_bytes);
  Outcome<void> read = co_await FrameStream::read_body(self->stream_, body, kWriteLimit);
  if (!read) co_return read.error();
  std::string text(text_of(ByteView(body).first(header.json_bytes)));
  const Service::ServeStream& serve =
      header.type == wire::FrameType::gears_open ? self->service_.serve_gears : self->service_.serve_ranks;
  Outcome<void> served = co_await serve(self->stream_, std::move(text), self->identity_);
  if (!served && served.error().code != Errc::closed) {
    wire::FrameHeader refusal;
    refusal.type = wire::FrameType::error;
    std::string why = wire::to_json(wire::to_message(served.error()));
    co_await write(self, refusal, std::move(why));
  }
  co_return served;
}

}  // namespace gearbox::session
