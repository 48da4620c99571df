// metrics_server.hpp: GET /metrics for one scraper or a few, on an address of this host.
#pragma once

#include <functional>
#include <string>

#include "gearbox/base/outcome.hpp"

namespace gearbox::cli {

/// Serves until SIGTERM or SIGINT, on this thread. `page` is called for each scrape, on it, and may block. A connection
/// has 5 s for each request and answer, 16 are open at most; what is not GET or HEAD of /metrics is refused in words.
/// `listening` is told where, as HOST:PORT, once connections are taken. `address`: numeric, as 127.0.0.1:9464 or
/// [::1]:9464; port 0: any. Not encrypted, and asks nobody who he is: for loopback, or a network that is protected
/// otherwise. Errors: bad_input (no address), io_error (cannot listen there).
Outcome<void> serve_metrics(const std::string& address, const std::function<std::string()>& page,
                            const std::function<void(const std::string&)>& listening);

}  // namespace gearbox::cli
