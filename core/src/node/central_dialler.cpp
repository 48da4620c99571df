#include "node/central_dialler.hpp"

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>

#include <string>
#include <system_error>
#include <utility>

#include "gearbox/base/text.hpp"
#include "gearbox/link/keys.hpp"
#include "serving/control_client.hpp"

namespace gearbox::node {

namespace json = boost::json;

namespace {

/// This host's own central tells where it really listens (port 0 is allowed) and its key.
Outcome<config::CentralPlace> ask_own(const std::filesystem::path& socket, milliseconds within) {
  BOOST_OUTCOME_TRY(const std::string text, serving::ask_control_now(socket, R"({"command": "status"})", within));
  boost::system::error_code unreadable;
  const json::value parsed = json::parse(text, unreadable);
  const json::object* status = unreadable ? nullptr : parsed.if_object();
  const json::value* url = status == nullptr ? nullptr : status->if_contains("listen");
  const json::value* key = status == nullptr ? nullptr : status->if_contains("channel_key");
  if (url == nullptr || !url->is_string() || key == nullptr || !key->is_string()) {
    return Error{Errc::bad_frame, "central's status names no address and key"};
  }
  return config::CentralPlace{std::string(url->get_string()), std::string(key->get_string())};
}

}  // namespace

CentralDialler::CentralDialler(std::filesystem::path own_socket, const config::NodeConfig& config)
    : own_socket_(std::move(own_socket)), places_(config::central_places(config)) {}

Outcome<CentralLink::Dialled> CentralDialler::dial(plugin_host::PluginHost& plugins, milliseconds within,
                                                   bool another) {
  if (another) turn_ = (turn_ + 1) % places_.size();
  Error last;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const std::size_t at = (turn_ + i) % places_.size();
    Outcome<CentralLink::Dialled> dialled = dial_one(plugins, places_[at], within);
    if (dialled) {
      turn_ = at;
      return dialled;
    }
    last = std::move(dialled).error();
    if (places_.size() > 1) last.detail = places_[at].url + ": " + last.detail;
  }
  return last;
}

Outcome<CentralLink::Dialled> CentralDialler::dial_one(plugin_host::PluginHost& plugins, config::CentralPlace place,
                                                       milliseconds within) const {
  if (place.url.empty() || place.key.empty()) {
    BOOST_OUTCOME_TRY(config::CentralPlace own, ask_own(own_socket_, within));
    if (place.url.empty()) place.url = std::move(own.url);
    if (place.key.empty()) place.key = std::move(own.key);
  }
  CentralLink::Dialled dialled;
  BOOST_OUTCOME_TRY(from_hex(place.key, dialled.key));
  BOOST_OUTCOME_TRY(const auto transport, plugins.transport_for(place.url));
  BOOST_OUTCOME_TRY(dialled.connection, transport->connect(place.url, after(Clock::now(), within)));
  dialled.url = std::move(place.url);
  return dialled;
}

std::vector<CentralKey> central_keys(const config::NodeConfig& config, const std::filesystem::path& own_key) {
  std::vector<CentralKey> keys;
  for (const config::CentralPlace& place : config::central_places(config)) {
    CentralKey key{};
    if (!place.key.empty()) {
      if (from_hex(place.key, key)) keys.push_back(key);
      continue;
    }
    std::error_code unreadable;
    if (!std::filesystem::exists(own_key, unreadable)) continue;  // central makes it, not we
    if (const auto own = link::load_or_make_channel_keys(own_key)) keys.push_back(own.value().public_key);
  }
  return keys;
}

}  // namespace gearbox::node
