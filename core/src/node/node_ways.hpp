// node_ways.hpp: questions for the way to another node, on which a group of this host has ranks, or on whose groups
// this host's scheduler decides: to central with the next report, and back. Central answers them in the order in which
// they were sent.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "gearbox/base/outcome.hpp"
#include "gearbox/wire/messages.hpp"

namespace gearbox::node {

/// Where to, and what for: one of the two.
struct WantedWay {
  std::string node;
  std::string ranks{};  // of this group
  bool gears = false;   // to decide on its groups
};

/// One strand.
class NodeWays {
 public:
  using Answer = Outcome<wire::Located>;
  struct Question {
    explicit Question(const boost::asio::any_io_executor& executor) : told(executor) {}
    std::string text;
    boost::asio::steady_timer told;  // cancelled when the answer is there
    std::optional<Answer> answer;
  };
  static constexpr std::size_t kMost = 64;

  /// Errors: overloaded: there are kMost questions already.
  Outcome<std::shared_ptr<Question>> ask(const boost::asio::any_io_executor& executor, const WantedWay& wanted);
  /// The next one that was not sent; it counts as sent from here on. Nobody who waits for it: it is left out.
  std::optional<std::string> to_send();
  /// Central's answer to the oldest one that was sent.
  void told(const std::string& text);
  /// What was sent has no answer, and will not get one.
  void not_told(const Error& why);

 private:
  std::deque<std::weak_ptr<Question>> waiting_;
  std::deque<std::weak_ptr<Question>> sent_;
};

}  // namespace gearbox::node
