#include "sink/sqlite_sink.hpp"

namespace {

using gearbox::plugin::OptionType;

constexpr gearbox::plugin::OptionSpec kOptions[] = {
    {.key = "file",
     .type = OptionType::text,
     .fallback = "results.db",
     .unit = "",
     .help = "the database; a relative path is below STATE/sinks/NAME/"},
    {.key = "max_rows",
     .type = OptionType::integer,
     .fallback = "1000000",
     .unit = "rows",
     .help = "beyond that the oldest rows are removed; 0: never",
     .lowest = 0}};

gearbox::Outcome<std::unique_ptr<gearbox::plugin::Sink>> make(const gearbox::plugin::Options& options) {
  BOOST_OUTCOME_TRY(auto file, options.text("file"));
  BOOST_OUTCOME_TRY(const auto max_rows, options.integer("max_rows"));
  if (file.empty()) return gearbox::Error{gearbox::Errc::bad_config, "file: is empty"};
  return std::make_unique<gearbox::sink::SqliteSink>(std::move(file), max_rows);
}

}  // namespace

GEARBOX_PLUGIN(sink, "sqlite", "1.0", "one row for each request in a SQLite file", kOptions, make)
