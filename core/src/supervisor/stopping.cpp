#include "supervisor/stopping.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

#include <algorithm>
#include <utility>

#include "serving/control_client.hpp"
#include "supervisor/orders.hpp"

namespace gearbox::supervisor {

namespace asio = boost::asio;
namespace json = boost::json;

namespace {

constexpr milliseconds kTellLimit{2'000};    // a node that does not answer gets the signal all the same
constexpr milliseconds kAfterDrain{20'000};  // for the node to end its workers and itself
constexpr milliseconds kHurryGrace{3'000};
constexpr milliseconds kLook{250};

Outcome<json::object> object_of(const Outcome<std::string>& text) {
  if (!text) return text.error();
  boost::system::error_code bad;
  json::value value = json::parse(text.value(), bad);
  if (bad || !value.is_object()) return Error{Errc::bad_frame, "no JSON object"};
  return std::move(value.get_object());
}

std::optional<std::uint64_t> number(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  boost::system::error_code bad;
  const auto out = value != nullptr && value->is_number() ? value->to_number<std::uint64_t>(bad) : 0;
  if (value == nullptr || !value->is_number() || bad) return std::nullopt;
  return out;
}

}  // namespace

Stopping::Stopping(asio::io_context& io, const SupervisorSetup& setup, Children& children)
    : io_(io), setup_(setup), children_(children), look_(io), kill_(io), within_(setup.node_drain) {}

void Stopping::begin(std::optional<milliseconds> within) {
  const bool first = !std::exchange(begun_, true);
  within_ = within.value_or(within_);
  until_ = after(Clock::now(), within_);
  show();
  // They decide and shift nothing any more; a shift that goes on is the engine's.
  for (const char* role : {"scheduler", "executor", "observer"}) {
    if (const int pid = children_.pid_of(role); pid != 0) children_.stop(pid, grace_of(role));
  }
  const int node = children_.pid_of("node");
  if (node == 0) {
    if (first) report_.node_lost = true;  // between two processes: nobody knows what the journal holds
    return go_on();
  }
  asio::co_spawn(io_, tell_node(this, within), asio::detached);
  if (first) asio::co_spawn(io_, watch(this), asio::detached);
}

/// The bound goes over its socket; the signal, which comes after that, says the same to a node that does not answer.
asio::awaitable<void> Stopping::tell_node(Stopping* self, std::optional<milliseconds> within) {
  ++self->telling_;
  json::object said{{"command", "drain"}};
  if (within) said["within_ms"] = within->count();
  std::string text = json::serialize(said);
  const Outcome<std::string> answer = co_await serving::ask_control(
      self->io_.get_executor(), self->setup_.state.node_socket(), std::move(text), kTellLimit);
  --self->telling_;
  const Outcome<json::object> facts = object_of(answer);
  if (facts) {
    self->open_ = number(facts.value(), "open");
    // What its configuration says by now may differ from what it said when we were started.
    if (const auto bound = number(facts.value(), "within_ms"); bound && !within) {
      self->within_ = milliseconds(*bound);
      self->until_ = after(Clock::now(), self->within_);
    }
    self->show();
  }
  // Told again with another bound: the time after which it is killed moves, too.
  for (const ChildView& child : self->children_.list()) {
    if (child.role == "node") self->children_.stop(child.pid, self->grace_of("node"));
  }
  self->go_on();
}

asio::awaitable<void> Stopping::watch(Stopping* self) {
  while (self->children_.pid_of("node") != 0) {
    std::string question = R"({"command":"status"})";
    const Outcome<std::string> answer = co_await serving::ask_control(
        self->io_.get_executor(), self->setup_.state.node_socket(), std::move(question), kTellLimit);
    const Outcome<json::object> status = object_of(answer);
    if (status) {
      const json::value* counters = status.value().if_contains("counters");
      if (counters != nullptr && counters->is_object()) {
        const auto open = number(counters->get_object(), "open");
        if (open && open != std::exchange(self->open_, open)) self->show();
      }
    }
    if (self->children_.pid_of("node") == 0) break;
    self->look_.expires_after(kLook);
    boost::system::error_code cancelled;
    co_await self->look_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
  }
  self->open_.reset();
}

milliseconds Stopping::left() const {
  return std::max(std::chrono::ceil<milliseconds>(until_ - Clock::now()), milliseconds{0});
}

void Stopping::show() {
  std::string line = "stopping";
  if (open_ && *open_ > 0) {
    line += ": " + std::to_string(*open_) + (*open_ == 1 ? " request is" : " requests are") + " open, " +
            std::to_string(std::chrono::ceil<seconds>(left()).count()) + " s left for them";
  }
  if (progress_) progress_(line, left() + kAfterDrain + setup_.worker_grace + setup_.central_grace);
}

milliseconds Stopping::grace_of(std::string_view role) const {
  if (role == "node") return left() + kAfterDrain;
  return is_central(role) ? setup_.central_grace : setup_.worker_grace;
}

void Stopping::go_on() {
  if (!begun_ || done_said_) return;
  const std::vector<ChildView> children = children_.list();
  const auto any = [&](auto&& chosen) {
    bool found = false;
    for (const ChildView& child : children) {
      if (!chosen(child)) continue;
      found = true;
      if (!child.stopping) children_.stop(child.pid, grace_of(child.role));
    }
    return found;
  };
  const bool node_runs = std::any_of(children.begin(), children.end(), [](const auto& c) { return c.role == "node"; });
  if (node_runs && telling_ > 0) return;
  if (any([](const ChildView& child) { return child.role == "node"; })) return;
  if (any([](const ChildView& child) { return !is_central(child.role); })) return;
  if (any([](const ChildView&) { return true; })) return;
  done_said_ = true;
  look_.cancel();
  kill_.cancel();
  done_();
}

void Stopping::hurry() {
  if (std::exchange(report_.hurried, true)) {
    say_("everything is killed");
    children_.kill_all();
    return;
  }
  say_("hurrying: what runs ends now; once more kills");
  begin(milliseconds{0});
  kill_.expires_after(kHurryGrace);
  kill_.async_wait([this](const boost::system::error_code& cancelled) {
    if (cancelled || done_said_) return;
    say_("it takes too long: everything is killed");
    children_.kill_all();
  });
}

void Stopping::child_ended(const Ended& ended) {
  if (ended.killed) report_.killed.push_back(ended.role);
  if (ended.role == "node" && !node_told_ && !(ended.asked && ended.exit_code == 0)) report_.node_lost = true;
  go_on();
}

void Stopping::unfinished(std::uint64_t failed, std::uint64_t kept) {
  node_told_ = true;
  report_.failed += failed;
  report_.kept += kept;
  if (failed + kept == 0) return;
  say_("the node ended with " + std::to_string(failed) + " requests failed and " + std::to_string(kept) +
       " kept in its journal for the next one");
}

json::object Stopping::facts() const {
  json::object out{{"within_ms", within_.count()}, {"left_ms", left().count()}, {"hurried", report_.hurried}};
  if (open_) out["open"] = *open_;
  return out;
}

}  // namespace gearbox::supervisor
