#include "cli/metrics_server.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>

#include <charconv>
#include <chrono>
#include <memory>
#include <string_view>

#include "gearbox/base/text.hpp"

namespace gearbox::cli {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;

namespace {

constexpr std::chrono::seconds kLimit{5};
constexpr std::chrono::milliseconds kPause{100};  // after an accept that failed: descriptors may run out
constexpr int kMostOpen = 16;
constexpr std::uint32_t kMostHeader = 8 * 1024;

struct Server {
  const std::function<std::string()>& page;
  tcp::acceptor acceptor;
  int open = 0;
};

http::response<http::string_body> answer_to(const Server& server, const http::request<http::empty_body>& request) {
  http::response<http::string_body> answer;
  answer.version(request.version());
  answer.set(http::field::content_type, "text/plain; charset=utf-8");
  const beast::string_view target = request.target();
  const beast::string_view path = target.substr(0, target.find('?'));
  const bool reads = request.method() == http::verb::get || request.method() == http::verb::head;
  if (!reads) {
    answer.result(http::status::method_not_allowed);
    answer.set(http::field::allow, "GET, HEAD");
    answer.body() = "Only GET and HEAD are answered here.\n";
  } else if (path != "/metrics") {
    answer.result(http::status::not_found);
    answer.body() = "The metrics are at /metrics.\n";
  } else {
    answer.set(http::field::content_type, "text/plain; version=0.0.4; charset=utf-8");
    answer.body() = server.page();
  }
  answer.keep_alive(request.keep_alive());
  answer.content_length(answer.body().size());
  if (request.method() == http::verb::head) answer.body().clear();
  return answer;
}

asio::awaitable<void> converse(Server& server, tcp::socket socket) {
  beast::tcp_stream stream(std::move(socket));
  beast::flat_buffer buffer(kMostHeader);
  boost::system::error_code error;
  for (bool more = true; more && !error;) {
    http::request_parser<http::empty_body> parser;
    parser.header_limit(kMostHeader);
    stream.expires_after(kLimit);
    co_await http::async_read(stream, buffer, parser, asio::redirect_error(asio::use_awaitable, error));
    if (error) break;
    const http::response<http::string_body> answer = answer_to(server, parser.get());
    more = answer.keep_alive();
    stream.expires_after(kLimit);
    co_await http::async_write(stream, answer, asio::redirect_error(asio::use_awaitable, error));
  }
  stream.socket().shutdown(tcp::socket::shutdown_both, error);
}

asio::awaitable<void> accept_all(Server& server) {
  asio::steady_timer pause(co_await asio::this_coro::executor);
  while (server.acceptor.is_open()) {
    boost::system::error_code error;
    tcp::socket socket = co_await server.acceptor.async_accept(asio::redirect_error(asio::use_awaitable, error));
    if (error == asio::error::operation_aborted) co_return;
    if (error) {
      pause.expires_after(kPause);
      co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
      continue;
    }
    if (server.open >= kMostOpen) continue;  // closes it
    ++server.open;
    asio::co_spawn(socket.get_executor(), converse(server, std::move(socket)),
                   [&server](const std::exception_ptr&) { --server.open; });
  }
}

Outcome<tcp::endpoint> endpoint_of(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  const std::string_view all = address;
  std::string_view host = colon == std::string::npos ? std::string_view() : all.substr(0, colon);
  const std::string_view port = colon == std::string::npos ? std::string_view() : all.substr(colon + 1);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  std::uint16_t number = 0;
  const auto [end, bad] = std::from_chars(port.data(), port.data() + port.size(), number);
  boost::system::error_code error;
  const asio::ip::address parsed = asio::ip::make_address(std::string(host), error);
  if (error || bad != std::errc() || port.empty() || end != port.data() + port.size()) {
    return Error{Errc::bad_input, "'" + escaped(address, 80) +
                                      "' is no address to listen at: a numeric one with a port, as 127.0.0.1:9464 or "
                                      "[::1]:9464"};
  }
  return tcp::endpoint(parsed, number);
}

}  // namespace

Outcome<void> serve_metrics(const std::string& address, const std::function<std::string()>& page,
                            const std::function<void(const std::string&)>& listening) {
  BOOST_OUTCOME_TRY(const tcp::endpoint endpoint, endpoint_of(address));
  asio::io_context io(1);
  Server server{page, tcp::acceptor(io)};
  boost::system::error_code error;
  server.acceptor.open(endpoint.protocol(), error);
  if (!error) server.acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) server.acceptor.bind(endpoint, error);
  if (!error) server.acceptor.listen(kMostOpen, error);
  if (error) return Error{Errc::io_error, "cannot listen at " + address + ": " + error.message()};
  asio::signal_set signals(io, SIGTERM, SIGINT);
  signals.async_wait([&](const boost::system::error_code&, int) { io.stop(); });
  asio::co_spawn(io, accept_all(server), asio::detached);
  const tcp::endpoint at = server.acceptor.local_endpoint(error);
  const std::string host = at.address().is_v6() ? "[" + at.address().to_string() + "]" : at.address().to_string();
  listening(host + ":" + std::to_string(at.port()));
  io.run();
  return done();
}

}  // namespace gearbox::cli
