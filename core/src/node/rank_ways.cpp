#include "node/rank_ways.hpp"

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include <utility>

namespace gearbox::node {

namespace {

RankWays::Answer read_told(const std::string& text) {
  BOOST_OUTCOME_TRY(const auto refusal, wire::parse<wire::ErrorMessage>(text));
  if (refusal.code != 0) return wire::to_error(refusal);
  return wire::parse<wire::Located>(text);
}

void answer(const std::weak_ptr<RankWays::Question>& asked, RankWays::Answer told) {
  const auto question = asked.lock();
  if (!question) return;  // nobody waits for it any more
  question->answer = std::move(told);
  question->told.cancel();
}

}  // namespace

Outcome<std::shared_ptr<RankWays::Question>> RankWays::ask(const boost::asio::any_io_executor& executor,
                                                           std::string_view node, std::string_view group) {
  if (waiting_.size() >= kMost) return Error{Errc::overloaded, "too many streams to ranks are being opened"};
  auto question = std::make_shared<Question>(executor);
  question->text = boost::json::serialize(boost::json::object{{"node", node}, {"group", group}});
  waiting_.push_back(question);
  return question;
}

std::optional<std::string> RankWays::to_send() {
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

void RankWays::told(const std::string& text) {
  if (sent_.empty()) return;
  const std::weak_ptr<Question> oldest = std::move(sent_.front());
  sent_.pop_front();
  answer(oldest, read_told(text));
}

void RankWays::not_told(const Error& why) {
  for (const std::weak_ptr<Question>& asked : std::exchange(sent_, {})) answer(asked, why);
}

}  // namespace gearbox::node
