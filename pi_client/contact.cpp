#include "contact.hpp"

#include <utility>

#include "command_desk.hpp"
#include "tasks.hpp"

namespace gearbox::client {

asio::awaitable<Outcome<void>> ask_for_commands(std::shared_ptr<net::FrameStream> stream, milliseconds within) {
  wire::FrameHeader header;
  header.type = wire::kCommand;
  Outcome<void> written = co_await net::FrameStream::write_frame(stream, header, std::string(), ByteView(), within);
  co_return written;
}

asio::awaitable<Outcome<void>> answer_command(Dialler dialler, CommandDesk* desk,
                                              std::shared_ptr<net::FrameStream> stream, std::string json,
                                              milliseconds within) {
  Outcome<wire::Command> read = wire::parse<wire::Command>(json);
  if (!read) co_return std::move(read).error();
  const wire::Command command = std::move(read).value();
  auto work = [desk, &command] { return desk->carry_out(command); };
  CommandDesk::Carried carried = co_await on_pool(*dialler.pool, std::move(work));
  wire::FrameHeader header;
  header.type = wire::kCommandAnswer;
  std::string text = wire::to_json(carried.answer);
  Outcome<void> written = co_await net::FrameStream::write_frame(stream, header, std::move(text), ByteView(), within);
  desk->take_effect(command, carried);
  co_return written;
}

namespace {

asio::awaitable<Outcome<void>> visit(Dialler dialler, CentralPlace central, const Identity* identity,
                                     milliseconds within) {
  Outcome<std::shared_ptr<net::FrameStream>> dialled = co_await dial(dialler, central.url, central.server_key, within);
  if (!dialled) co_return std::move(dialled).error();
  const std::shared_ptr<net::FrameStream> stream = dialled.value();
  Outcome<wire::HelloOk> welcome =
      co_await log_in(stream, identity->user, &identity->keys, std::string(), within, nullptr);
  Outcome<void> done_so_far = welcome ? done() : Outcome<void>(welcome.error());
  if (done_so_far) done_so_far = co_await ask_for_commands(stream, within);
  if (done_so_far) {
    // Central answers this when no command is left.
    wire::FrameHeader ping;
    ping.type = wire::FrameType::ping;
    done_so_far = co_await net::FrameStream::write_frame(stream, ping, std::string(), ByteView(), within);
  }
  while (done_so_far) {
    Outcome<wire::Frame> frame = co_await expect(stream, wire::FrameType::pong, within, nullptr, wire::kCommand);
    if (!frame) {
      done_so_far = std::move(frame).error();
    } else if (frame.value().header.type == wire::FrameType::pong) {
      break;
    } else {
      done_so_far =
          co_await answer_command(dialler, identity->desk.get(), stream, std::move(frame.value().json), within);
    }
  }
  stream->close();
  co_return done_so_far;
}

}  // namespace

asio::awaitable<Outcome<void>> keep_in_touch(Dialler dialler, CentralAddress central, const Identity* identity,
                                             milliseconds within, std::size_t* turn) {
  const std::size_t count = 1 + central.others.size();
  Outcome<void> last = done();
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t number = (*turn + i) % count;
    CentralPlace place = number == 0 ? static_cast<const CentralPlace&>(central) : central.others[number - 1];
    last = co_await visit(dialler, std::move(place), identity, within);
    if (!last) continue;
    *turn = number;
    break;
  }
  co_return last;
}

}  // namespace gearbox::client
