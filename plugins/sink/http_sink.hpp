// http_sink.hpp: batches of events, posted to a web server as JSON lists.
#pragma once

#include <string>

#include "gearbox/plugin/sink.hpp"
#include "sink/http_url.hpp"

namespace gearbox::sink {

/// Posts `[EVENT, ...]`. 2xx: done. 400, 413, 415, 422: never. Everything else, and no answer in time: later (after the
/// answer's Retry-After, if it has one).
class HttpSink final : public plugin::Sink {
 public:
  /// `authorization_file`: its first line is sent as Authorization; empty: none is.
  HttpSink(HttpUrl url, std::string authorization_file)
      : url_(std::move(url)), authorization_file_(std::move(authorization_file)) {}

  Outcome<void> open(const plugin::SinkPlace& place) override;
  plugin::Verdict deliver(std::span<const plugin::EventView> events, Instant deadline) override;

 private:
  Outcome<std::string> authorization() const;
  const HttpUrl url_;
  const std::string authorization_file_;
};

}  // namespace gearbox::sink
