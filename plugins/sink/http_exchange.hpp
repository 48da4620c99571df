// http_exchange.hpp: one HTTP request on a connection of its own, and the head of what is answered.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>

#include <string>

#include "gearbox/base/clock.hpp"

namespace gearbox::sink {

struct HttpAnswer {
  boost::system::error_code failure;
  const char* doing = "";  // of a failure: "connect", "send", "read the answer"
  unsigned status = 0;     // never 1xx but for 101; valid when nothing failed
  std::string retry_after;
};

/// Blocks until the final answer is there, the connection fails, or `deadline`. The answer is read while the request is
/// sent: a receiver that refuses a body may answer and close without reading it. A success counts only when the whole
/// request was sent.
HttpAnswer exchange(const boost::asio::ip::tcp::resolver::results_type& addresses,
                    const boost::beast::http::request<boost::beast::http::string_body>& request, Instant deadline);

}  // namespace gearbox::sink
