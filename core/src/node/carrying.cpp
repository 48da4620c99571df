#include "node/carrying.hpp"

#include <string>
#include <utility>

namespace gearbox::node {

namespace asio = boost::asio;
using net::FrameStream;
using wire::FrameHeader;
using wire::FrameType;

namespace {

constexpr milliseconds kIdle{std::chrono::hours(24)};  // of a process of this host: the kernel tells its end

asio::awaitable<Outcome<void>> carry_one(std::shared_ptr<FrameStream> from, std::shared_ptr<FrameStream> to,
                                         FrameHeader header, Carried carried) {
  if (header.type != carried.open && header.type != carried.data && header.type != FrameType::error) {
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

}  // namespace

asio::awaitable<Error> carry(std::shared_ptr<FrameStream> from, std::shared_ptr<FrameStream> to, Carried carried) {
  bool asked = false;
  Error end;
  for (;;) {
    const milliseconds patience = !from->sealed() ? kIdle : asked ? kSilent : kQuiet;
    Outcome<FrameHeader> header = co_await FrameStream::read_header(from, patience);
    Outcome<void> going = done();
    if (header) {
      asked = false;
      going = co_await carry_one(from, to, header.value(), carried);
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

}  // namespace gearbox::node
