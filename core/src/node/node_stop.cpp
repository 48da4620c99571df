// node_stop.cpp: how a node ends: says so first, takes nothing new, lets what runs end within a bound.
#include <spdlog/spdlog.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/json/serialize.hpp>

#include <string>
#include <utility>

#include "gearbox/base/text.hpp"
#include "node/node.hpp"
#include "serving/control_client.hpp"

namespace gearbox::node {

namespace asio = boost::asio;
using session::DeviceSession;

namespace {
/// For the supervisor to hear what was not finished.
constexpr milliseconds kTellLimit{1'000};
constexpr milliseconds kLongestDrain{std::chrono::hours(24)};
}  // namespace

Outcome<boost::json::object> Node::drain_asked(const boost::json::object& request) {
  milliseconds within(10000);
  if (const auto* const wanted = request.if_contains("within_ms")) {
    boost::system::error_code failure;
    within = milliseconds(wanted->to_number<std::int64_t>(failure));
    if (failure || within.count() < 0 || within > kLongestDrain) {
      return Error{Errc::bad_input, "drain: within_ms is a number of milliseconds, a day at most"};
    }
  }
  drain(within);
  return boost::json::object{{"within_ms", within.count()}, {"open", requests_->open()}};
}

void Node::stop() {
  if (!stopping_) drain(milliseconds(10000));
}

void Node::drain(milliseconds within) {
  if (ending_) return;
  if (!std::exchange(stopping_, true)) {
    spdlog::info("node: stopping, {} requests open", requests_->open());
    requests_->drain([this] { end_workers(); });
    central_->hurry();  // so that no device is sent here any more
    device_loop_->stop();
  }
  if (within.count() == 0) return hurry();
  drain_limit_.expires_after(within);
  drain_limit_.async_wait([this](const boost::system::error_code& failure) {
    if (!failure) hurry();
  });
}

void Node::hurry() {
  stopping_ = true;
  const Error reason{Errc::shutting_down, "node " + config_->node.name + " was stopped"};
  unfinished_ += requests_->open();
  requests_->end_all(reason);
  end_workers();
}

void Node::end_workers() {
  if (std::exchange(ending_, true)) return;
  drain_limit_.cancel();
  if (unfinished_ > 0) spdlog::warn("event=not_drained failed={}", unfinished_);
  pool_->stop([this] {
    central_->stop();
    device_loop_->stop();
    local_loop_->stop();
    for (DeviceSession* session : sessions_) session->close();
    // After the sessions have seen their end: their last answers are on the way.
    asio::co_spawn(*io_, tell_rest(this), asio::detached);
  });
}

/// The last thing that the node does: whoever asked for the stop is told what it could not finish.
asio::awaitable<void> Node::tell_rest(Node* node) {
  if (node->unfinished_ > 0) {
    const boost::json::object said{{"command", "unfinished"}, {"failed", node->unfinished_}, {"kept", 0}};
    std::string text = boost::json::serialize(said);
    const Outcome<std::string> heard = co_await serving::ask_control(
        node->io_->get_executor(), node->state_.supervisor_socket(), std::move(text), kTellLimit);
    if (!heard) spdlog::warn("event=not_told to=supervisor reason=\"{}\"", escaped(describe(heard.error())));
  }
  asio::post(*node->io_, [node] { node->io_->stop(); });
}

}  // namespace gearbox::node
