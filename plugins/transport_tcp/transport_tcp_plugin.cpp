#include "transport_tcp/tcp_transport.hpp"

namespace {

using gearbox::plugin::OptionType;

constexpr gearbox::plugin::OptionSpec kOptions[] = {
    {.key = "keepalive_idle_s",
     .type = OptionType::integer,
     .fallback = "15",
     .unit = "s",
     .help = "silence after which the kernel asks whether the peer is still there",
     .lowest = 1,
     .highest = 32767},
    {.key = "keepalive_every_s",
     .type = OptionType::integer,
     .fallback = "5",
     .unit = "s",
     .help = "time between such questions",
     .lowest = 1,
     .highest = 32767},
    {.key = "keepalive_probes",
     .type = OptionType::integer,
     .fallback = "3",
     .unit = "",
     .help = "unanswered questions that end a connection",
     .lowest = 1,
     .highest = 127},
    {.key = "user_timeout_ms",
     .type = OptionType::integer,
     .fallback = "30000",
     .unit = "ms",
     .help = "sent data that stays unacknowledged for so long ends a connection",
     .lowest = 100,
     .highest = 3600000},
    {.key = "backlog",
     .type = OptionType::integer,
     .fallback = "4096",
     .unit = "connections",
     .help = "connections that may wait to be accepted",
     .lowest = 1,
     .highest = 65535},
};

gearbox::Outcome<std::unique_ptr<gearbox::plugin::Transport>> make(const gearbox::plugin::Options& options) {
  gearbox::transport_tcp::Settings settings;
  const auto read = [&](const char* key, std::uint32_t& into) -> gearbox::Outcome<void> {
    BOOST_OUTCOME_TRY(const auto value, options.integer(key));
    into = static_cast<std::uint32_t>(value);
    return gearbox::done();
  };
  BOOST_OUTCOME_TRY(read("keepalive_idle_s", settings.keepalive_idle_s));
  BOOST_OUTCOME_TRY(read("keepalive_every_s", settings.keepalive_every_s));
  BOOST_OUTCOME_TRY(read("keepalive_probes", settings.keepalive_probes));
  BOOST_OUTCOME_TRY(read("user_timeout_ms", settings.user_timeout_ms));
  BOOST_OUTCOME_TRY(read("backlog", settings.backlog));
  return std::make_unique<gearbox::transport_tcp::TcpTransport>(settings);
}

}  // namespace

GEARBOX_PLUGIN(transport, "tcp", "1.0", "TCP over IPv4 and IPv6: tcp://HOST:PORT", kOptions, make)
