#include "sink/http_sink.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <charconv>
#include <exception>
#include <fstream>

namespace gearbox::sink {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

constexpr std::uint32_t kMaxHeadBytes = 16 * 1024;

struct Answer {
  boost::system::error_code failure;
  const char* doing = "";  // of a failure
  unsigned status = 0;
  std::string retry_after;
};

/// One request on a connection of its own. Of the answer only the head is read: it says it all.
asio::awaitable<void> post(asio::ip::tcp::resolver::results_type addresses, http::request<http::string_body>* request,
                           Instant deadline, Answer* answer) {
  beast::tcp_stream stream(co_await asio::this_coro::executor);
  stream.expires_at(deadline);  // for all that follows
  answer->doing = "connect";
  co_await stream.async_connect(addresses, asio::redirect_error(asio::use_awaitable, answer->failure));
  if (answer->failure) co_return;
  answer->doing = "send";
  co_await http::async_write(stream, *request, asio::redirect_error(asio::use_awaitable, answer->failure));
  if (answer->failure) co_return;
  answer->doing = "read the answer";
  beast::flat_buffer buffer;
  http::response_parser<http::empty_body> parser;
  parser.header_limit(kMaxHeadBytes);
  co_await http::async_read_header(stream, buffer, parser, asio::redirect_error(asio::use_awaitable, answer->failure));
  if (answer->failure) co_return;
  answer->status = parser.get().result_int();
  answer->retry_after = std::string(parser.get()[http::field::retry_after]);
}

plugin::Verdict later(std::string reason, milliseconds pause = milliseconds{0}) {
  return {plugin::Fate::later, std::move(reason), pause};
}

/// Of a Retry-After in seconds; a date is left to the host's own pauses.
milliseconds pause_of(const std::string& retry_after) {
  std::uint32_t number = 0;
  const char* const end = retry_after.data() + retry_after.size();
  const auto [stop, error] = std::from_chars(retry_after.data(), end, number);
  return error == std::errc() && stop == end ? milliseconds(std::int64_t{number} * 1000) : milliseconds{0};
}

}  // namespace

Outcome<void> HttpSink::open(const plugin::SinkPlace& place) {
  node_ = place.node;
  if (authorization_file_.empty()) return done();
  std::ifstream file(authorization_file_);
  if (!std::getline(file, authorization_) || authorization_.empty()) {
    return Error{Errc::io_error, "authorization_file " + authorization_file_ + " has no first line"};
  }
  return done();
}

plugin::Verdict HttpSink::deliver(std::span<const plugin::EventView> events, Instant deadline) {
  if (events.empty()) return {};
  http::request<http::string_body> request(http::verb::post, url_.target, 11);
  request.set(http::field::host, url_.host_header());
  request.set(http::field::user_agent, "gearbox");
  request.set(http::field::content_type, "application/json");
  request.set(http::field::connection, "close");
  if (!authorization_.empty()) request.set(http::field::authorization, authorization_);
  std::string& body = request.body();
  body += '[';
  for (const plugin::EventView& event : events) (body += body.size() > 1 ? ",\n" : "").append(event.json);
  body += ']';
  request.prepare_payload();

  asio::io_context io(1);
  asio::ip::tcp::resolver resolver(io);
  Answer answer;
  const auto addresses = resolver.resolve(url_.host, url_.port, answer.failure);
  if (answer.failure) return later("cannot resolve " + url_.host + ": " + answer.failure.message());
  asio::co_spawn(io, post(addresses, &request, deadline, &answer), asio::detached);
  io.run();
  if (answer.failure) {
    return later("cannot " + std::string(answer.doing) + ": " + answer.failure.message() + " (" + url_.host + ":" +
                 url_.port + ")");
  }
  const unsigned status = answer.status;
  const std::string reason = "HTTP " + std::to_string(status);
  if (status / 100 == 2) return {};
  if (status / 100 == 4 && status != 408 && status != 429) return {plugin::Fate::never, reason, milliseconds{0}};
  return later(reason, pause_of(answer.retry_after));
}

}  // namespace gearbox::sink
