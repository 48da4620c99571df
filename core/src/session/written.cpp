#include "session/written.hpp"

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>
#include <utility>

#include "gearbox/base/boot.hpp"

namespace gearbox::session {

namespace json = boost::json;

namespace {

/// No request had more time than this; what says otherwise was not written by us.
constexpr milliseconds kLongest = std::chrono::hours(1);

Error unreadable(const std::string& what) {
  return Error{Errc::corrupt_data, "the journal's text of a request: " + what};
}

Outcome<json::object> object_of(std::string_view text) {
  json::error_code failed;
  json::value parsed = json::parse({text.data(), text.size()}, failed);
  if (failed || !parsed.is_object()) return unreadable("it is no JSON object");
  return std::move(parsed.get_object());
}

Outcome<std::string_view> text_at(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  if (value == nullptr || !value->is_string()) return unreadable("\"" + std::string(key) + "\" is missing");
  return std::string_view(value->get_string());
}

Outcome<std::int64_t> number_at(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  const std::int64_t* number = value == nullptr ? nullptr : value->if_int64();
  if (number == nullptr) return unreadable("\"" + std::string(key) + "\" is missing");
  return *number;
}

/// 0 when it is not there.
std::int64_t number_or_none(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  const std::int64_t* number = value == nullptr ? nullptr : value->if_int64();
  return number == nullptr ? 0 : std::max<std::int64_t>(*number, 0);
}

}  // namespace

std::int64_t unix_ms() {
  return std::chrono::duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Wire messages lie in it as the text that goes over the wire: their one form, with its own checks.
std::string to_text(const WrittenRequest& request) {
  const Instant now = Clock::now();
  json::object text;
  text["submit"] = wire::to_json(request.submit);
  text["ticket"] = wire::to_json(request.identity.ticket);
  text["local"] = request.identity.local;
  text["priority"] = std::int64_t{request.priority};
  text["attempt"] = std::int64_t{request.attempt};
  text["boot"] = own_boot_id();
  text["deadline_ns"] = std::chrono::nanoseconds(request.deadline.time_since_epoch()).count();
  if (!request.models.empty()) text["models"] = request.models;
  text["left_ms"] = elapsed(now, request.deadline).count() / 1000;
  return json::serialize(text);
}

Outcome<WrittenRequest> written_request(std::string_view text) {
  BOOST_OUTCOME_TRY(const json::object object, object_of(text));
  WrittenRequest request;
  BOOST_OUTCOME_TRY(const auto submit, text_at(object, "submit"));
  BOOST_OUTCOME_TRY(request.submit, wire::parse<wire::Submit>(submit));
  BOOST_OUTCOME_TRY(const auto ticket, text_at(object, "ticket"));
  BOOST_OUTCOME_TRY(request.identity.ticket, wire::parse<wire::Ticket>(ticket));
  const json::value* local = object.if_contains("local");
  request.identity.local = local != nullptr && local->is_bool() && local->get_bool();
  BOOST_OUTCOME_TRY(const std::int64_t priority, number_at(object, "priority"));
  request.priority = static_cast<std::uint8_t>(std::clamp<std::int64_t>(priority, 0, 255));
  BOOST_OUTCOME_TRY(const std::int64_t attempt, number_at(object, "attempt"));
  request.attempt = static_cast<std::uint32_t>(std::clamp<std::int64_t>(attempt, 0, 0xFFFFFFFF));
  BOOST_OUTCOME_TRY(const auto boot, text_at(object, "boot"));
  BOOST_OUTCOME_TRY(const std::int64_t deadline_ns, number_at(object, "deadline_ns"));
  BOOST_OUTCOME_TRY(const std::int64_t left_ms, number_at(object, "left_ms"));
  const Instant now = Clock::now();
  request.deadline = !boot.empty() && boot == own_boot_id()
                         ? Instant(std::chrono::nanoseconds(deadline_ns))
                         : after(now, milliseconds(std::max<std::int64_t>(left_ms, 0)));
  request.deadline = std::min(request.deadline, after(now, kLongest));
  if (object.contains("models")) {
    BOOST_OUTCOME_TRY(request.models, text_at(object, "models"));
  }
  return request;
}

std::string to_text(const WrittenEnd& end) {
  json::object text;
  if (end.error) {
    text["error"] = wire::to_json(wire::to_message(*end.error, 0));
  } else {
    text["result"] = wire::to_json(end.result);
  }
  text["accepted_unix_ms"] = end.accepted_unix_ms;
  text["finished_unix_ms"] = end.finished_unix_ms;
  text["input_bytes"] = end.input_bytes;
  return json::serialize(text);
}

Outcome<WrittenEnd> written_end(std::string_view text) {
  BOOST_OUTCOME_TRY(const json::object object, object_of(text));
  WrittenEnd end;
  end.accepted_unix_ms = number_or_none(object, "accepted_unix_ms");
  end.finished_unix_ms = number_or_none(object, "finished_unix_ms");
  end.input_bytes = static_cast<std::uint64_t>(number_or_none(object, "input_bytes"));
  if (object.contains("error")) {
    BOOST_OUTCOME_TRY(const auto error, text_at(object, "error"));
    BOOST_OUTCOME_TRY(const auto message, wire::parse<wire::ErrorMessage>(error));
    end.error = wire::to_error(message);
    return end;
  }
  BOOST_OUTCOME_TRY(const auto result, text_at(object, "result"));
  BOOST_OUTCOME_TRY(end.result, wire::parse<wire::ResultMessage>(result));
  return end;
}

}  // namespace gearbox::session
