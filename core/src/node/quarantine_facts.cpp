#include "node/quarantine_facts.hpp"

#include <boost/json/array.hpp>

#include <algorithm>

#include "gearbox/base/text.hpp"

namespace gearbox::node {

namespace json = boost::json;

namespace {
constexpr std::size_t kAtOnce = 16;      // so that an answer fits into a frame
constexpr std::size_t kMostText = 1000;  // of one text

json::object facts_of(const session::Quarantined& held) {
  json::array ends;
  for (const std::string& end : held.deadly.ends) ends.push_back(json::value(escaped(end, kMostText)));
  return json::object{{"request", to_text(held.key.id)},
                      {"device", to_text(held.key.device)},
                      {"user", held.user},
                      {"task", held.task},
                      {"step", held.deadly.step},
                      {"model", held.deadly.model},
                      {"version", held.deadly.version},
                      {"ends", std::move(ends)},
                      {"input_bytes", held.input_bytes},
                      {"since_unix_ms", held.since_unix_ms}};
}
}  // namespace

Outcome<json::object> answer_quarantine(session::Requests& requests, const json::object& request) {
  if (const json::value* wanted = request.if_contains("release")) {
    if (!wanted->is_string()) return Error{Errc::bad_input, "'release' names a request by its id"};
    BOOST_OUTCOME_TRY(const RequestKey key, requests.release(wanted->get_string()));
    return json::object{{"request", to_text(key.id)}};
  }
  std::size_t from = 0;
  if (const json::value* at = request.if_contains("from")) {
    boost::system::error_code odd;
    from = at->to_number<std::size_t>(odd);
    if (odd) return Error{Errc::bad_input, "'from' is a number"};
  }
  const auto& all = requests.quarantine().all();
  json::array held;
  for (std::size_t i = from; i < std::min(all.size(), from + kAtOnce); ++i) {
    held.push_back(facts_of(all[all.size() - 1 - i]));
  }
  return json::object{{"total", all.size()}, {"requests", std::move(held)}};
}

}  // namespace gearbox::node
