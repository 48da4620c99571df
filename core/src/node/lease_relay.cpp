#include "node/lease_relay.hpp"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <utility>

#include "gearbox/base/text.hpp"
#include "link/json_reader.hpp"

namespace gearbox::node {

namespace json = boost::json;

namespace {

constexpr milliseconds kStale{3'000};  // whoever asked does not wait for so long

Outcome<json::object> read_told(const std::string& text) {
  boost::system::error_code bad;
  json::value value = json::parse(text, bad);
  if (bad || !value.is_object()) return Error{Errc::bad_frame, "central's answer is no JSON object"};
  json::object object = std::move(value.get_object());
  if (!object.contains("code")) return object;
  std::uint16_t code = 0;
  std::string detail;
  link::ObjectReader reader(object);
  reader.read("code", code);
  reader.read("detail", detail, 1024);
  BOOST_OUTCOME_TRY(reader.result());
  return Error{static_cast<Errc>(code), escaped(detail)};
}

}  // namespace

Outcome<json::object> LeaseRelay::ask(const json::object& request, Instant now) {
  std::uint64_t number = 0;
  link::ObjectReader reader(request);
  reader.read("number", number);
  BOOST_OUTCOME_TRY(reader.result());
  if (number == 0) return Error{Errc::bad_input, "lease: \"number\" is missing"};
  if (number == number_) {
    if (!answer_) return json::object{{"pending", true}};
    if (now - answered_ > kStale) return Error{Errc::timeout, "the answer was not fetched in time"};
    return *answer_;
  }
  number_ = number;
  json::object question = request;
  question.erase("number");
  question.erase("command");
  question_ = json::serialize(question);
  sent_ = false;
  asked_ = now;
  answer_.reset();
  return json::object{{"pending", true}};
}

std::optional<std::string> LeaseRelay::to_send(Instant now) {
  if (question_.empty()) return std::nullopt;
  std::string question = std::exchange(question_, std::string());
  if (now - asked_ > kStale) return std::nullopt;
  sent_ = true;
  return question;
}

void LeaseRelay::told(const std::string& text, Instant now) {
  if (!std::exchange(sent_, false)) return;  // another question has taken its place
  answer_ = read_told(text);
  answered_ = now;
}

void LeaseRelay::not_told(const Error& why) {
  if (!std::exchange(sent_, false)) return;
  answer_ = why;
  answered_ = asked_;
}

}  // namespace gearbox::node
