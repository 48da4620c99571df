#include "sink/http_exchange.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>

namespace gearbox::sink {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

using Request = http::request<http::string_body>;

constexpr std::uint32_t kMaxHeadBytes = 16 * 1024;
constexpr int kMostInterim = 16;  // answers 1xx before the one that counts

/// What both coroutines of an exchange use; it outlives them.
struct Exchange {
  explicit Exchange(asio::io_context& io, const Request& wanted) : request(&wanted), stream(io), sent(io) {}
  const Request* request;
  beast::tcp_stream stream;
  bool sending = true;
  asio::steady_timer sent;  // cancelled when the request is out, or cannot be sent
  boost::system::error_code send_failure;
  HttpAnswer answer;
};

asio::awaitable<void> send(Exchange* at) {
  co_await http::async_write(at->stream, *at->request, asio::redirect_error(asio::use_awaitable, at->send_failure));
  at->sending = false;
  at->sent.cancel();
}

/// Of the answer only the head is read: it says it all.
asio::awaitable<void> read_answer(Exchange* at) {
  HttpAnswer& answer = at->answer;
  beast::flat_buffer buffer;
  for (int interim = 0; interim <= kMostInterim; ++interim) {
    http::response_parser<http::empty_body> parser;
    parser.header_limit(kMaxHeadBytes);
    co_await http::async_read_header(at->stream, buffer, parser,
                                     asio::redirect_error(asio::use_awaitable, answer.failure));
    if (answer.failure) co_return;
    answer.status = parser.get().result_int();
    answer.retry_after = std::string(parser.get()[http::field::retry_after]);
    // 101 is final, and an answer that nobody asked for.
    if (answer.status / 100 != 1 || answer.status == 101) co_return;
  }
  answer.failure = http::make_error_code(http::error::bad_status);
}

asio::awaitable<void> run(Exchange* at, const asio::ip::tcp::resolver::results_type* addresses, Instant deadline) {
  HttpAnswer& answer = at->answer;
  at->stream.expires_at(deadline);  // for all that follows
  answer.doing = "connect";
  co_await at->stream.async_connect(*addresses, asio::redirect_error(asio::use_awaitable, answer.failure));
  if (answer.failure) co_return;
  at->sent.expires_at(Instant::max());
  asio::co_spawn(at->stream.get_executor(), send(at), asio::detached);
  co_await read_answer(at);
  answer.doing = at->sending || at->send_failure ? "send" : "read the answer";
  if (!answer.failure && answer.status / 100 == 2) {
    // Believed only when it had the whole request; it had, if that is out at once now.
    boost::system::error_code woken;
    if (at->sending) co_await at->sent.async_wait(asio::redirect_error(asio::use_awaitable, woken));
    answer.failure = at->send_failure;
  } else if (answer.failure && at->send_failure && at->send_failure != asio::error::operation_aborted) {
    answer.failure = at->send_failure;  // the first of the two to know
  }
  boost::system::error_code ignored;  // it is not needed any more, in whatever state it is
  at->stream.socket().close(ignored);
}

}  // namespace

HttpAnswer exchange(const asio::ip::tcp::resolver::results_type& addresses, const Request& request, Instant deadline) {
  asio::io_context io(1);
  Exchange all(io, request);
  asio::co_spawn(io, run(&all, &addresses, deadline), asio::detached);
  io.run();
  return std::move(all.answer);
}

}  // namespace gearbox::sink
