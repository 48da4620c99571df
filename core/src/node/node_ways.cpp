#include "node/node_ways.hpp"

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include <utility>

namespace gearbox::node {

namespace {

NodeWays::Answer read_told(const std::string& text) {
  BOOST_OUTCOME_TRY(const auto refusal, wire::parse<wire::ErrorMessage>(text));
  if (refusal.code != 0) return wire::to_error(refusal);
  return wire::parse<wire::Located>(text);
}

void answer(const std::weak_ptr<NodeWays::Question>& asked, NodeWays::Answer told) {
  const auto question = asked.lock();
  if (!question) return;  // nobody waits for it any more
  question->answer = std::move(told);
  question->told.cancel();
}

}  // namespace

Outcome<std::shared_ptr<NodeWays::Question>> NodeWays::ask(const boost::asio::any_io_executor& executor,
                                                           const WantedWay& wanted) {
  if (waiting_.size() >= kMost) return Error{Errc::overloaded, "too many streams to other nodes are being opened"};
  auto question = std::make_shared<Question>(executor);
  boost::json::object asked{{"node", wanted.node}};
  if (wanted.gears) {
    asked["gears"] = true;
  } else {
    asked["group"] = wanted.ranks;
  }
  question->text = boost::json::serialize(asked);
  waiting_.push_back(question);
  return question;
}

std::optional<std::string> NodeWays::to_send() {
  while (!waiting_.empty()) {
    const std::weak_ptr<Question> next = std::move(waiting_.front());
    waiting_.pop_front();
    if (const auto question = next.lock()) {
      sent_.push_back(next);
      return question->text;
    }
  }
  return std::nullopt;
}

void NodeWays::told(const std::string& text) {
  if (sent_.empty()) return;
  const std::weak_ptr<Question> oldest = std::move(sent_.front());
  sent_.pop_front();
  answer(oldest, read_told(text));
}

void NodeWays::not_told(const Error& why) {
  for (const std::weak_ptr<Question>& asked : std::exchange(sent_, {})) answer(asked, why);
}

}  // namespace gearbox::node
