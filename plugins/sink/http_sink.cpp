#include "sink/http_sink.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/http/verb.hpp>
#include <charconv>
#include <fstream>

#include "sink/http_exchange.hpp"

namespace gearbox::sink {

namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;

/// The letter itself is refused: it is not JSON to the receiver's taste, too large, of the wrong type. All other 4xx
/// (a token that has run out, a path that is not there yet) are the receiver's or the configuration's, which people
/// mend.
constexpr std::array kNever{400U, 413U, 415U, 422U};

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

Outcome<void> HttpSink::open(const plugin::SinkPlace& /*place*/) {
  BOOST_OUTCOME_TRY(authorization());
  return done();
}

/// Read anew for each delivery: a token that has run out is replaced by writing another one into the file.
Outcome<std::string> HttpSink::authorization() const {
  std::string line;
  if (authorization_file_.empty()) return line;
  std::ifstream file(authorization_file_);
  if (!std::getline(file, line) || line.empty()) {
    return Error{Errc::io_error, "authorization_file " + authorization_file_ + " has no first line"};
  }
  if (line.back() == '\r') line.pop_back();
  return line;
}

plugin::Verdict HttpSink::deliver(std::span<const plugin::EventView> events, Instant deadline) {
  if (events.empty()) return {};
  const Outcome<std::string> token = authorization();
  if (!token) return later(describe(token.error()));
  http::request<http::string_body> request(http::verb::post, url_.target, 11);
  request.set(http::field::host, url_.host_header());
  request.set(http::field::user_agent, "gearbox");
  request.set(http::field::content_type, "application/json");
  request.set(http::field::connection, "close");
  if (!token.value().empty()) request.set(http::field::authorization, token.value());
  std::string& body = request.body();
  body += '[';
  for (const plugin::EventView& event : events) (body += body.size() > 1 ? ",\n" : "").append(event.json);
  body += ']';
  request.prepare_payload();

  asio::io_context io(1);
  asio::ip::tcp::resolver resolver(io);
  boost::system::error_code unresolved;
  const auto addresses = resolver.resolve(url_.host, url_.port, unresolved);
  if (unresolved) return later("cannot resolve " + url_.host + ": " + unresolved.message());
  const HttpAnswer answer = exchange(addresses, request, deadline);
  if (answer.failure) {
    return later("cannot " + std::string(answer.doing) + ": " + answer.failure.message() + " (" + url_.host + ":" +
                 url_.port + ")");
  }
  const unsigned status = answer.status;
  const std::string reason = "HTTP " + std::to_string(status);
  if (status / 100 == 2) return {};
  if (std::find(kNever.begin(), kNever.end(), status) != kNever.end()) {
    return {plugin::Fate::never, reason, milliseconds{0}};
  }
  return later(reason, pause_of(answer.retry_after));
}

}  // namespace gearbox::sink
