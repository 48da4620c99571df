#include "coordination/http_post.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/verb.hpp>
#include <boost/beast/http/write.hpp>

namespace gearbox::coordination {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

constexpr std::uint32_t kMostHeadBytes = 16 * 1024;

/// What the coroutine of an exchange uses; it outlives it.
struct Exchange {
  explicit Exchange(asio::io_context& io) : stream(io) { parser.body_limit(kMostAnswerBytes); }
  beast::tcp_stream stream;
  http::request<http::string_body> request;
  http::response_parser<http::string_body> parser;
  boost::system::error_code failure;
  bool connected = false;
};

asio::awaitable<void> run(Exchange* at, const asio::ip::tcp::resolver::results_type* addresses, Instant deadline) {
  at->stream.expires_at(deadline);  // for all that follows
  co_await at->stream.async_connect(*addresses, asio::redirect_error(asio::use_awaitable, at->failure));
  if (at->failure) co_return;
  at->connected = true;
  co_await http::async_write(at->stream, at->request, asio::redirect_error(asio::use_awaitable, at->failure));
  if (at->failure) co_return;
  beast::flat_buffer buffer;
  co_await http::async_read(at->stream, buffer, at->parser, asio::redirect_error(asio::use_awaitable, at->failure));
  boost::system::error_code ignored;  // it is not needed any more, in whatever state it is
  at->stream.socket().close(ignored);
}

Error error_of(const Exchange& all) {
  if (all.failure == beast::error::timeout) return Error{Errc::timeout, "no answer in time"};
  if (!all.connected) return Error{Errc::unreachable, all.failure.message()};
  if (all.failure == http::error::body_limit) return Error{Errc::too_large, "the answer is too long"};
  return Error{Errc::closed, all.failure.message()};
}

}  // namespace

Outcome<HttpReply> post(const sink::HttpUrl& url, std::string_view path, std::string json,
                        std::string_view authorization, Instant deadline) {
  if (Clock::now() >= deadline) return Error{Errc::timeout, "no time is left"};
  asio::io_context io(1);
  asio::ip::tcp::resolver resolver(io);
  boost::system::error_code unresolved;
  const auto addresses = resolver.resolve(url.host, url.port, unresolved);
  if (unresolved) return Error{Errc::unreachable, "cannot resolve " + url.host + ": " + unresolved.message()};
  Exchange all(io);
  all.parser.header_limit(kMostHeadBytes);
  all.request = http::request<http::string_body>(http::verb::post, boost::core::string_view(path.data(), path.size()),
                                                 11, std::move(json));
  all.request.set(http::field::host, url.host_header());
  all.request.set(http::field::user_agent, "gearbox");
  all.request.set(http::field::content_type, "application/json");
  all.request.set(http::field::connection, "close");
  if (!authorization.empty()) {
    all.request.set(http::field::authorization, boost::core::string_view(authorization.data(), authorization.size()));
  }
  all.request.prepare_payload();
  asio::co_spawn(io, run(&all, &addresses, deadline), asio::detached);
  io.run();
  if (all.failure) return error_of(all);
  return HttpReply{all.parser.get().result_int(), std::move(all.parser.get().body())};
}

}  // namespace gearbox::coordination
