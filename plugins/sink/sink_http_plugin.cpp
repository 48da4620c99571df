#include "sink/http_sink.hpp"

namespace {

using gearbox::plugin::OptionType;

constexpr gearbox::plugin::OptionSpec kOptions[] = {
    {.key = "url",
     .type = OptionType::text,
     .fallback = "http://127.0.0.1:8000/",
     .unit = "",
     .help = "where events are posted to, as a JSON list"},
    {.key = "authorization_file",
     .type = OptionType::text,
     .fallback = "",
     .unit = "",
     .help = "a file whose first line is sent as the Authorization header; empty: none is"}};

gearbox::Outcome<std::unique_ptr<gearbox::plugin::Sink>> make(const gearbox::plugin::Options& options) {
  BOOST_OUTCOME_TRY(const auto text, options.text("url"));
  BOOST_OUTCOME_TRY(auto file, options.text("authorization_file"));
  BOOST_OUTCOME_TRY(auto url, gearbox::sink::http_url(text));
  return std::make_unique<gearbox::sink::HttpSink>(std::move(url), std::move(file));
}

}  // namespace

GEARBOX_PLUGIN(sink, "http", "1.0", "posts events to a web server, as JSON", kOptions, make)
