#include "cli/local_request.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "cli/no_node.hpp"
#include "gearbox/link/keys.hpp"
#include "gearbox/link/upload.hpp"
#include "gearbox/net/frame_stream.hpp"
#include "serving/control_client.hpp"

namespace gearbox::cli {

namespace asio = boost::asio;
using net::FrameStream;
using wire::FrameType;

namespace {

constexpr std::size_t kShownIdChars = 12;  // as the lists of requests show them

/// One conversation with the node. Lives as long as its coroutine.
struct Conversation {
  std::shared_ptr<FrameStream> stream;
  wire::Submit submit;
  link::UploadSender sender;
  RequestId request;
  Instant deadline;
  OnPart on_part;
  PartReader parts{};
  milliseconds within{};  // all that was granted
  bool told = false;      // an error came from the node itself
  bool announced = false, accepted = false;

  milliseconds left() const {
    return std::max(milliseconds(1), std::chrono::duration_cast<milliseconds>(deadline - Clock::now()));
  }
  wire::FrameHeader header(FrameType type) const {
    wire::FrameHeader out;
    out.type = type;
    out.request = request;
    out.remaining_ms = static_cast<std::uint32_t>(std::min<std::int64_t>(left().count(), wire::kNoDeadline - 1));
    return out;
  }
};

/// The next frame that is about us; pings are answered on the way.
asio::awaitable<Outcome<wire::Frame>> next_frame(std::shared_ptr<Conversation> talk) {
  for (;;) {
    Outcome<wire::Frame> frame = co_await FrameStream::read_frame(talk->stream, talk->left());
    if (!frame) co_return frame.error();
    const FrameType type = frame.value().header.type;
    if (type == FrameType::error) {
      Outcome<wire::ErrorMessage> message = wire::parse<wire::ErrorMessage>(frame.value().json);
      if (!message) co_return message.error();
      talk->told = true;
      if (talk->accepted) {
        // A final word is acknowledged, so that the node need not keep it. That it does is the worst that can come.
        const wire::FrameHeader received = talk->header(FrameType::result_ack);
        [[maybe_unused]] const Outcome<void> sent =
            co_await FrameStream::write_frame(talk->stream, received, std::string(), ByteView(), talk->left());
      }
      Error refused = wire::to_error(message.value());
      if (message.value().retry_after_ms > 0)
        refused.detail += "; worth asking again in " + std::to_string(message.value().retry_after_ms) + " ms";
      co_return refused;
    }
    if (type != FrameType::ping) co_return frame;
    wire::FrameHeader pong;
    pong.type = FrameType::pong;
    Outcome<void> sent = co_await FrameStream::write_frame(talk->stream, pong, std::string(), ByteView(), talk->left());
    if (!sent) co_return sent.error();
  }
}

asio::awaitable<Outcome<void>> log_in(std::shared_ptr<Conversation> talk) {
  wire::Hello hello;
  hello.role = "local";
  hello.agent = "broker " GEARBOX_VERSION;
  wire::FrameHeader header;
  header.type = FrameType::hello;
  std::string json = wire::to_json(hello);
  Outcome<void> sent =
      co_await FrameStream::write_frame(talk->stream, header, std::move(json), ByteView(), talk->left());
  if (!sent) co_return sent.error();
  Outcome<wire::Frame> answer = co_await next_frame(talk);
  if (!answer) co_return answer.error();
  if (answer.value().header.type != FrameType::hello_ok)
    co_return Error{Errc::bad_frame, "the node's first answer is no hello_ok"};
  co_return done();
}

/// Announces, waits for the node's offset, sends what it has not got.
asio::awaitable<Outcome<void>> upload(std::shared_ptr<Conversation> talk) {
  std::string json = wire::to_json(talk->submit);
  const wire::FrameHeader header = talk->header(FrameType::submit);
  talk->announced = true;
  Outcome<void> sent =
      co_await FrameStream::write_frame(talk->stream, header, std::move(json), ByteView(), talk->left());
  if (!sent) co_return sent.error();
  Outcome<wire::Frame> at = co_await next_frame(talk);
  if (!at) co_return at.error();
  if (at.value().header.type == FrameType::accepted) {  // of an empty file there is nothing to send
    talk->accepted = true;
    co_return done();
  }
  if (at.value().header.type != FrameType::upload_at)
    co_return Error{Errc::bad_frame, "the node did not say where to begin"};
  Outcome<void> sought = talk->sender.seek(at.value().header.offset);
  if (!sought) co_return sought.error();
  while (!talk->sender.finished()) {
    const link::UploadSender::Chunk chunk = talk->sender.next();
    wire::FrameHeader data = talk->header(FrameType::upload_data);
    data.offset = chunk.offset;
    Outcome<void> written =
        co_await FrameStream::write_frame(talk->stream, data, std::string(), chunk.bytes, talk->left());
    if (!written) co_return written.error();
  }
  co_return done();
}

/// Hands a whole part on and says that it was taken.
asio::awaitable<Outcome<void>> receive_part(std::shared_ptr<Conversation> talk, wire::Frame frame) {
  Outcome<std::optional<LocalPart>> part = talk->parts.take(frame);
  if (!part) co_return part.error();
  if (!part.value()) co_return done();
  if (talk->on_part) talk->on_part(talk->request, *part.value());
  wire::FrameHeader taken = talk->header(FrameType::part_ack);
  taken.part = talk->parts.count();
  Outcome<void> sent = co_await FrameStream::write_frame(talk->stream, taken, std::string(), ByteView(), talk->left());
  co_return sent;
}

asio::awaitable<Outcome<LocalAnswer>> receive(std::shared_ptr<Conversation> talk) {
  LocalAnswer answer;
  answer.request = talk->request;
  bool described = false;
  for (;;) {
    Outcome<wire::Frame> frame = co_await next_frame(talk);
    if (!frame) co_return frame.error();
    const wire::FrameHeader& header = frame.value().header;
    if (header.request != talk->request) continue;
    if (header.type == FrameType::accepted) talk->accepted = true;
    if (header.type == FrameType::result_part) {
      Outcome<void> taken = co_await receive_part(talk, std::move(frame).value());
      if (!taken) co_return taken.error();
      continue;
    }
    if (header.type == FrameType::result) {
      Outcome<wire::ResultMessage> result = wire::parse<wire::ResultMessage>(frame.value().json);
      if (!result) co_return result.error();
      answer.result = std::move(result).value();
      described = true;
      if (answer.result.bytes > kMaxResultBytes)
        co_return Error{Errc::result_too_large, std::to_string(answer.result.bytes) + " bytes"};
    } else if (header.type != FrameType::result_data || !described) {
      continue;  // upload_at, accepted
    }
    if (answer.payload.size() + frame.value().payload.size() > answer.result.bytes) {
      co_return Error{Errc::bad_frame, "the result is longer than it says"};
    }
    answer.payload.insert(answer.payload.end(), frame.value().payload.begin(), frame.value().payload.end());
    if ((header.flags & wire::kLastPart) == 0) continue;
    if (answer.payload.size() != answer.result.bytes)
      co_return Error{Errc::bad_frame, "the result is shorter than it says"};
    const wire::FrameHeader received = talk->header(FrameType::result_ack);
    Outcome<void> acknowledged =
        co_await FrameStream::write_frame(talk->stream, received, std::string(), ByteView(), talk->left());
    if (!acknowledged) co_return acknowledged.error();
    co_return answer;
  }
}

/// What the conversation's end means for the request. What the node said itself is passed on as it is.
Error explained(const Conversation& talk, Error error) {
  if (talk.told) return error;
  const std::string id = "request " + to_text(talk.request).substr(0, kShownIdChars);
  if (error.code == Errc::timeout) {
    std::string text = "no answer in " + std::to_string(talk.within.count()) + " ms";
    text += talk.announced ? "; " + id + " has no more time than that, so the node ends it as well"
                           : "; the node has not got the request";
    return Error{Errc::timeout, std::move(text)};
  }
  if (error.code != Errc::closed && error.code != Errc::io_error) return error;
  std::string text = "the node ended (" + error.detail + "); ";
  if (talk.accepted && talk.submit.stream) {
    text += "nobody takes the parts of " + id + " any more: send it again";
  } else if (talk.accepted) {
    text += "unless journal.level is none, its next process goes on with " + id + ": see `broker results list`";
  } else {
    text += "it had not acknowledged " + id + ": send it again";
  }
  return Error{Errc::closed, std::move(text)};
}

asio::awaitable<void> converse(std::shared_ptr<Conversation> talk, std::shared_ptr<Outcome<LocalAnswer>> into) {
  Outcome<void> logged_in = co_await log_in(talk);
  Outcome<void> uploaded = logged_in;
  if (logged_in) uploaded = co_await upload(talk);
  if (uploaded) {
    Outcome<LocalAnswer> answer = co_await receive(talk);
    if (!answer) answer = explained(*talk, answer.error());
    *into = std::move(answer);
  } else {
    *into = explained(*talk, uploaded.error());
  }
  talk->stream->close();
}

}  // namespace

Outcome<LocalAnswer> run_local_request(const std::filesystem::path& node_socket, const LocalWork& work,
                                       std::vector<LocalInput> inputs, milliseconds within, OnPart on_part) {
  asio::io_context io(1);
  Outcome<std::shared_ptr<FrameStream>> stream = serving::dial_control(io.get_executor(), node_socket);
  if (!stream) return from_node(stream.error());
  wire::Submit submit;
  submit.task = work.task;
  submit.steps = work.own.steps;
  submit.result = work.own.result;
  submit.stream = on_part != nullptr;
  std::vector<link::UploadSender::Input> uploads;
  for (LocalInput& input : inputs) {
    wire::InputSpec spec;
    spec.tensor.name = input.name;
    spec.tensor.dtype = wire::DType::uint8;
    spec.tensor.shape = {static_cast<std::int64_t>(input.file.size())};
    spec.tensor.bytes = input.file.size();
    spec.wire_bytes = input.file.size();
    submit.wire_bytes += spec.wire_bytes;
    submit.inputs.push_back(std::move(spec));
    link::UploadSender::Input upload_input{.wire = std::move(input.file), .tile_bytes = {}};
    uploads.push_back(std::move(upload_input));
  }
  link::UploadSender sender(std::move(uploads));
  submit.digest = sender.digest();
  auto talk = std::make_shared<Conversation>(Conversation{std::move(stream).value(), std::move(submit),
                                                          std::move(sender), link::random_request_id(),
                                                          after(Clock::now(), within), std::move(on_part)});
  talk->within = within;
  auto result = std::make_shared<Outcome<LocalAnswer>>(Error{Errc::timeout, {}});
  asio::co_spawn(io, converse(talk, result), asio::detached);
  io.run_for(within + milliseconds(1000));
  const bool cut_off = !*result && result->error().code == Errc::timeout && result->error().detail.empty();
  if (cut_off) return explained(*talk, result->error());
  return std::move(*result);
}

}  // namespace gearbox::cli
