#include "node/gear_questions.hpp"

#include <boost/json/parse.hpp>

#include <utility>

#include "gear_facts/facts.hpp"
#include "gearbox/base/text.hpp"
#include "link/json_reader.hpp"

namespace gearbox::node {

namespace json = boost::json;

namespace {

constexpr std::size_t kMaxWord = 32;
constexpr std::size_t kMaxDepth = 4;
constexpr std::size_t kMaxDecision = 600;  // more than an executor keeps

Outcome<GearQuestion> read_snapshot(const json::object& asked) {
  GearQuestion question{.to = GearQuestion::To::observer, .group = {}, .passed = {{"command", "snapshot"}}};
  std::string after;
  link::ObjectReader reader(asked);
  reader.read("after", after, kMaxNameBytes);
  BOOST_OUTCOME_TRY(reader.result());
  if (!after.empty()) question.passed["after"] = after;
  return question;
}

Outcome<GearQuestion> read_groups(const json::object& asked) {
  GearQuestion question{.to = GearQuestion::To::executor, .group = {}, .passed = {{"command", "groups"}}};
  std::string after;
  std::uint64_t term = 0;
  link::ObjectReader reader(asked);
  reader.read("after", after, kMaxNameBytes);
  reader.read("term", term);
  BOOST_OUTCOME_TRY(reader.result());
  if (!after.empty()) question.passed["after"] = after;
  if (term != 0) question.passed["term"] = term;
  return question;
}

Outcome<GearQuestion> read_shift(const json::object& asked, const std::string& leader) {
  BOOST_OUTCOME_TRY(gear_facts::ShiftOrder order, gear_facts::read_order(asked));
  if (order.origin != "scheduler") return Error{Errc::not_allowed, "a scheduler orders in its own name only"};
  order.decision = leader + ": " + escaped(order.decision, kMaxDecision);
  GearQuestion question{.to = GearQuestion::To::executor, .group = {}, .passed = gear_facts::to_json(order)};
  question.passed["command"] = "shift";
  return question;
}

Outcome<GearQuestion> read_price(const json::object& asked) {
  GearQuestion question{.to = GearQuestion::To::group, .group = {}, .passed = {{"op", "price"}}};
  std::uint32_t gear = 0;
  link::ObjectReader reader(asked);
  reader.read("group", question.group, kMaxNameBytes);
  reader.read("gear", gear);
  if (gear < 1 || gear > 6) reader.fail("gear", "must be 1 to 6");
  BOOST_OUTCOME_TRY(reader.result());
  BOOST_OUTCOME_TRY(check_name("group", question.group));  // it names a socket's file
  question.passed["gear"] = gear;
  return question;
}

}  // namespace

Outcome<GearQuestion> read_gear_question(std::string_view text, const std::string& leader) {
  json::parse_options options;
  options.max_depth = kMaxDepth;
  boost::system::error_code bad;
  const json::value value = json::parse(json::string_view(text.data(), text.size()), bad, {}, options);
  if (bad || !value.is_object()) return Error{Errc::bad_frame, "gears_data: no JSON object"};
  const json::object& asked = value.get_object();
  std::string to, word;
  link::ObjectReader reader(asked);
  reader.read("to", to, kMaxWord);
  reader.read(to == "group" ? "op" : "command", word, kMaxWord);
  BOOST_OUTCOME_TRY(reader.result());
  if (to == "observer" && word == "snapshot") return read_snapshot(asked);
  if (to == "executor" && word == "groups") return read_groups(asked);
  if (to == "executor" && word == "shift") return read_shift(asked, leader);
  if (to == "group" && word == "price") return read_price(asked);
  return Error{Errc::not_allowed,
               "'" + escaped(word, kMaxWord) + "' of '" + escaped(to, kMaxWord) + "' is nothing for another host"};
}

}  // namespace gearbox::node
