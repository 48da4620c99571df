// What another host's scheduler asks and orders here: whatever it says, only four questions pass, member by member.
#include <boost/json/serialize.hpp>

#include <set>
#include <string>

#include "fuzz.hpp"
#include "gearbox/base/text.hpp"
#include "node/gear_questions.hpp"

namespace gearbox::fuzz {
namespace {

/// Members that a question may have when it is passed on.
const std::set<std::string>& members_for(const node::GearQuestion& question) {
  static const std::set<std::string> snapshot{"command", "after"};
  static const std::set<std::string> executor{"command", "after", "term", "group", "gear", "origin", "decision"};
  static const std::set<std::string> price{"op", "gear"};
  if (question.to == node::GearQuestion::To::observer) return snapshot;
  return question.to == node::GearQuestion::To::executor ? executor : price;
}

void check(const node::GearQuestion& question) {
  for (const auto& member : question.passed)
    require(members_for(question).contains(std::string(member.key())), "nothing but known members is passed on");
  const boost::json::value* const origin = question.passed.if_contains("origin");
  require(origin == nullptr || *origin == "scheduler", "an order is a scheduler's");
  const boost::json::value* const command = question.passed.if_contains("command");
  require(command == nullptr || *command == "snapshot" || *command == "groups" || *command == "shift",
          "only these are passed on");
  if (question.to == node::GearQuestion::To::group)
    require(check_name("group", question.group).has_value(), "a group's name is no path");
}

}  // namespace
}  // namespace gearbox::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gearbox;
  const auto question = node::read_gear_question(fuzz::Input(data, size).text(), "another-node");
  if (question) fuzz::check(question.value());
  return 0;
}
