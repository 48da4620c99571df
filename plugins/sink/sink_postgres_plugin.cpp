#include "sink/postgres_sink.hpp"
#include "sink/postgres_words.hpp"

namespace {

using gearbox::plugin::OptionType;

constexpr gearbox::plugin::OptionSpec kOptions[] = {
    {.key = "connection",
     .type = OptionType::text,
     .fallback = "",
     .unit = "",
     .help = "libpq's \"host=... dbname=...\" or postgresql:// URL, without a password: that is for ~/.pgpass"},
    {.key = "table",
     .type = OptionType::text,
     .fallback = "gearbox_results",
     .unit = "",
     .help = "NAME or SCHEMA.NAME; made when it is missing"}};

gearbox::Outcome<std::unique_ptr<gearbox::plugin::Sink>> make(const gearbox::plugin::Options& options) {
  BOOST_OUTCOME_TRY(auto connection, options.text("connection"));
  BOOST_OUTCOME_TRY(auto table, options.text("table"));
  BOOST_OUTCOME_TRY(gearbox::sink::check_connection(connection));
  if (!gearbox::sink::is_table_name(table)) {
    return gearbox::Error{gearbox::Errc::bad_config, "table: expected NAME or SCHEMA.NAME of letters, digits and _"};
  }
  return std::make_unique<gearbox::sink::PostgresSink>(std::move(connection), std::move(table));
}

}  // namespace

GEARBOX_PLUGIN(sink, "postgres", "1.0", "one row for each request in a PostgreSQL table", kOptions, make)
