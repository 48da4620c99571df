#include "coordination/etcd_store.hpp"
#include "gearbox/base/text.hpp"

namespace {

using gearbox::Errc;
using gearbox::Error;
using gearbox::Outcome;
using gearbox::plugin::OptionType;

constexpr std::size_t kMostMembers = 16;

constexpr gearbox::plugin::OptionSpec kOptions[] = {
    {.key = "endpoints",
     .type = OptionType::text,
     .fallback = "http://127.0.0.1:2379",
     .unit = "",
     .help =
         "where the cluster's members listen for clients, with commas between; addresses, not names, where the name "
         "server may be away"},
    {.key = "prefix",
     .type = OptionType::text,
     .fallback = "gearbox/",
     .unit = "",
     .help = "what the names of our keys begin with: one for each installation that uses the cluster"},
    {.key = "timeout_ms",
     .type = OptionType::integer,
     .fallback = "500",
     .unit = "ms",
     .help = "for one question to one member; then the next member is asked",
     .lowest = 10,
     .highest = 10'000},
    {.key = "user", .type = OptionType::text, .fallback = "", .unit = "", .help = "of etcd; empty: none is told"},
    {.key = "password_file",
     .type = OptionType::text,
     .fallback = "",
     .unit = "",
     .help = "a file whose first line is that user's password"}};

Outcome<std::vector<gearbox::sink::HttpUrl>> members_of(std::string_view text) {
  std::vector<gearbox::sink::HttpUrl> members;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    std::string_view one = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    while (one.starts_with(' ')) one.remove_prefix(1);
    while (one.ends_with(' ')) one.remove_suffix(1);
    const auto url = gearbox::sink::http_url(one);
    if (!url) return Error{Errc::bad_config, "endpoints: " + gearbox::escaped(one, 128) + ": " + url.error().detail};
    members.push_back(url.value());
  }
  if (members.empty()) return Error{Errc::bad_config, "endpoints: names none"};
  if (members.size() > kMostMembers) return Error{Errc::bad_config, "endpoints: more than 16"};
  return members;
}

Outcome<std::unique_ptr<gearbox::plugin::Coordination>> make(const gearbox::plugin::Options& options) {
  BOOST_OUTCOME_TRY(const auto endpoints, options.text("endpoints"));
  BOOST_OUTCOME_TRY(const auto prefix, options.text("prefix"));
  BOOST_OUTCOME_TRY(const auto timeout, options.integer("timeout_ms"));
  gearbox::coordination::EtcdLogin login;
  BOOST_OUTCOME_TRY(login.user, options.text("user"));
  BOOST_OUTCOME_TRY(login.password_file, options.text("password_file"));
  BOOST_OUTCOME_TRY(auto members, members_of(endpoints));
  if (prefix.empty() || prefix.size() > 128) return Error{Errc::bad_config, "prefix: must have 1 to 128 bytes"};
  if (login.user.empty() != login.password_file.empty())
    return Error{Errc::bad_config, "user: only together with password_file"};
  gearbox::coordination::EtcdMembers cluster(std::move(members), gearbox::milliseconds(timeout), std::move(login));
  return std::make_unique<gearbox::coordination::EtcdStore>(std::move(cluster), prefix);
}

}  // namespace

GEARBOX_PLUGIN(coordination, "etcd", "1.0", "leases in an etcd cluster (version 3)", kOptions, make)
