#include "supervisor/readiness.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

#include <cstdint>

#include "gearbox/base/text.hpp"

namespace gearbox::supervisor {

namespace json = boost::json;

namespace {

std::string text(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value != nullptr && value->is_string() ? escaped(value->get_string()) : std::string();
}

bool truth(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value != nullptr && value->is_bool() && value->get_bool();
}

std::uint64_t number(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  boost::system::error_code bad;
  const auto out = value != nullptr && value->is_number() ? value->to_number<std::uint64_t>(bad) : 0;
  return bad ? 0 : out;
}

const json::array& list(const json::object& object, std::string_view key) {
  static const json::array kNone;
  const json::value* value = object.if_contains(key);
  return value != nullptr && value->is_array() ? value->get_array() : kNone;
}

void join(std::string& into, const std::string& word) {
  if (!into.empty()) into += ", ";
  into += word;
}

/// Workers of a model that have answered a probe: `ready` is their number (or, for all `workers`, true).
std::uint64_t ready_workers(const json::object& model) {
  return truth(model, "ready") ? number(model, "workers") : number(model, "ready");
}

/// "ppocr-det 1 worker, ppocr-rec 2 workers"
std::string models_that_serve(const json::object& status) {
  std::string out;
  for (const json::value& each : list(status, "models")) {
    const std::uint64_t workers = each.is_object() ? ready_workers(each.get_object()) : 0;
    if (workers == 0) continue;
    join(out,
         text(each.get_object(), "name") + " " + std::to_string(workers) + (workers == 1 ? " worker" : " workers"));
  }
  return out;
}

/// "ppocr-det (model.py does not import: ...)"
std::string what_is_missing(const json::object& status) {
  std::string out;
  for (const json::value& each : list(status, "models")) {
    if (!each.is_object() || ready_workers(each.get_object()) > 0) continue;
    const std::string reason = text(each.get_object(), "reason");
    const std::string state = text(each.get_object(), "state");
    std::string word = text(each.get_object(), "name");
    if (!reason.empty() || !state.empty()) word += " (" + (reason.empty() ? state : reason) + ")";
    join(out, word);
  }
  return out;
}

}  // namespace

Outcome<Readiness> read_readiness(std::string_view role, std::string_view status_json) {
  boost::system::error_code error;
  const json::value value = json::parse(json::string_view(status_json.data(), status_json.size()), error);
  if (error || !value.is_object()) return Error{Errc::bad_frame, std::string(role) + ": its status is no JSON object"};
  const json::object& status = value.get_object();
  Readiness out;
  out.ready = truth(status, "ready");
  const std::string listen = text(status, "listen");
  const std::string at = listen.empty() ? std::string() : " at " + listen;
  std::string tasks;
  for (const json::value& each : list(status, "tasks")) {
    if (each.is_object() && truth(each.get_object(), "ready")) join(tasks, text(each.get_object(), "name"));
  }
  const std::string models = models_that_serve(status);
  if (out.ready) {
    out.line = std::string(role) + " ready" + at;
    if (!tasks.empty()) out.line += ": tasks " + tasks;
    if (!models.empty()) out.line += " (" + models + ")";
  } else {
    out.line = std::string(role) + " is not ready" + at;
    const std::string missing = what_is_missing(status);
    if (!missing.empty()) out.line += ": waiting for " + missing;
    if (!tasks.empty()) out.line += "; it serves " + tasks;
  }
  return out;
}

}  // namespace gearbox::supervisor
