#include "node/central_link.hpp"

#include <spdlog/spdlog.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <optional>
#include <random>
#include <utility>

#include "gearbox/base/text.hpp"
#include "gearbox/link/login.hpp"

namespace gearbox::node {

namespace asio = boost::asio;
using net::FrameStream;
using wire::FrameHeader;
using wire::FrameType;

namespace {

constexpr milliseconds kConnectLimit{5000};
constexpr milliseconds kAnswerLimit{3000};
constexpr milliseconds kReportEvery{1000};
constexpr milliseconds kShortestPause{200};
constexpr milliseconds kLongestPause{10'000};
constexpr milliseconds kRememberEvery{600'000};

using MaybeDialled = std::optional<Outcome<CentralLink::Dialled>>;  // co_spawn wants a result that can be empty

asio::awaitable<MaybeDialled> dial_now(std::function<Outcome<CentralLink::Dialled>(milliseconds, bool)> dial,
                                       bool another) {
  co_return dial(kConnectLimit, another);
}

/// Between half and all of `pause`: nodes that lost central together come back spread out.
milliseconds jittered(milliseconds pause) {
  thread_local std::minstd_rand random(std::random_device{}());
  return milliseconds(std::uniform_int_distribution<std::int64_t>(pause.count() / 2, pause.count())(random));
}

}  // namespace

CentralLink::CentralLink(Setup setup) : setup_(std::move(setup)), pause_(*setup_.io) {
  if (setup_.remember.empty()) return;
  const Outcome<wire::ReportOk> last = load_learned(setup_.remember, setup_.centrals);
  if (last) {
    take(last.value());
    spdlog::info("central: tickets are taken by what the last process of this node heard, until central answers");
  } else if (last.error().code != Errc::not_found) {
    spdlog::warn("central: {}", escaped(describe(last.error())));
  }
}

void CentralLink::hurry() {
  hurried_ = true;
  if (connected_) pause_.cancel();
}

void CentralLink::stop() {
  stopped_ = true;
  pause_.cancel();
  if (stream_) stream_->close();
}

void CentralLink::join() {
  dialler_.stop();
  dialler_.join();
}

asio::awaitable<void> CentralLink::run(std::shared_ptr<CentralLink> self) {
  milliseconds pause = kShortestPause;
  while (!self->stopped_) {
    const Instant begun = Clock::now();
    Outcome<void> visited = co_await visit(self);
    if (self->stopped_) break;
    self->connected_ = false;
    self->stream_.reset();
    const std::string reason = visited ? std::string("closed") : describe(visited.error());
    if (reason != self->last_error_) spdlog::warn("central: not connected reason=\"{}\"", escaped(reason));
    self->last_error_ = reason;
    if (Clock::now() - begun > kLongestPause) pause = kShortestPause;  // it had worked
    self->pause_.expires_after(jittered(pause));
    boost::system::error_code woken;
    co_await self->pause_.async_wait(asio::redirect_error(asio::use_awaitable, woken));
    pause = std::min(pause * 2, kLongestPause);
  }
}

asio::awaitable<Outcome<void>> CentralLink::visit(std::shared_ptr<CentralLink> self) {
  const bool another = std::exchange(self->useless_, true);
  MaybeDialled maybe =
      co_await asio::co_spawn(self->dialler_.get_executor(), dial_now(self->setup_.dial, another), asio::use_awaitable);
  if (!*maybe) co_return maybe->error();
  Dialled dialled = std::move(*maybe).value();
  Outcome<std::shared_ptr<FrameStream>> adopted =
      FrameStream::adopt(self->setup_.io->get_executor(), dialled.connection.descriptor, dialled.connection.peer);
  if (!adopted) co_return adopted.error();
  const std::shared_ptr<FrameStream> stream = adopted.value();
  self->stream_ = stream;
  if (self->stopped_) co_return Error{Errc::shutting_down, {}};
  Outcome<void> sealed = co_await FrameStream::connect_sealed(stream, dialled.key, kConnectLimit);
  if (!sealed) co_return sealed.error();

  wire::Hello hello;
  hello.role = "node";
  hello.agent = "broker " GEARBOX_VERSION;
  link::sign_hello(self->setup_.keys, stream->h(), hello);
  FrameHeader header;
  header.type = FrameType::hello;
  Outcome<void> sent =
      co_await FrameStream::write_frame(stream, header, wire::to_json(hello), ByteView(), kAnswerLimit);
  if (!sent) co_return sent.error();
  Outcome<wire::Frame> welcome = co_await FrameStream::read_frame(stream, kAnswerLimit);
  if (!welcome) co_return welcome.error();
  if (welcome.value().header.type != FrameType::hello_ok) {
    Outcome<wire::ErrorMessage> refusal = wire::parse<wire::ErrorMessage>(welcome.value().json);
    co_return refusal ? wire::to_error(refusal.value()) : refusal.error();
  }

  while (!self->stopped_) {
    self->hurried_ = false;
    Outcome<wire::Frame> answer = co_await report(self, stream);
    if (!answer) co_return answer.error();
    if (answer.value().header.type == FrameType::error) {
      Outcome<wire::ErrorMessage> refusal = wire::parse<wire::ErrorMessage>(answer.value().json);
      co_return refusal ? wire::to_error(refusal.value()) : refusal.error();
    }
    if (answer.value().header.type == FrameType::report_ok) {
      Outcome<wire::ReportOk> learned = wire::parse<wire::ReportOk>(answer.value().json);
      if (!learned) co_return learned.error();
      self->learn(learned.value(), dialled.key);
      if (!self->connected_) spdlog::info("central: connected url={}", dialled.url);
      self->connected_ = true;
      self->useless_ = false;
      self->last_error_.clear();
    }
    if (self->hurried_) continue;
    self->pause_.expires_after(kReportEvery);
    boost::system::error_code woken;  // cancelled by hurry() or stop(): either way the next look decides
    co_await self->pause_.async_wait(asio::redirect_error(asio::use_awaitable, woken));
  }
  stream->close();
  co_return done();
}

/// Questions go in front of a report, so that a central which does not know them answers the report all the same.
asio::awaitable<Outcome<void>> CentralLink::send_questions(std::shared_ptr<CentralLink> self,
                                                           std::shared_ptr<FrameStream> stream) {
  FrameHeader header;
  header.type = FrameType::lease_ask;
  for (std::optional<std::string> next = self->leases_.to_send(Clock::now());; next = self->ways_.to_send()) {
    if (next) {
      std::string text = std::move(*next);
      Outcome<void> sent = co_await FrameStream::write_frame(stream, header, std::move(text), ByteView(), kAnswerLimit);
      if (!sent) co_return sent.error();
    } else if (header.type == FrameType::ranks_ask) {
      break;
    }
    header.type = FrameType::ranks_ask;  // the lease was the first one, or there was none
  }
  co_return done();
}

void CentralLink::not_told(const Error& why) {
  leases_.not_told(why);
  ways_.not_told(why);
}

/// One report, what is asked along with it, and the answers.
asio::awaitable<Outcome<wire::Frame>> CentralLink::report(std::shared_ptr<CentralLink> self,
                                                          std::shared_ptr<FrameStream> stream) {
  Outcome<void> asked = co_await send_questions(self, stream);
  if (!asked) {
    self->not_told(asked.error());
    co_return asked.error();
  }
  FrameHeader header;
  header.type = FrameType::node_report;
  std::string report = wire::to_json(self->setup_.report());
  Outcome<void> reported =
      co_await FrameStream::write_frame(stream, header, std::move(report), ByteView(), kAnswerLimit);
  if (!reported) {
    self->not_told(reported.error());
    co_return reported.error();
  }
  for (;;) {
    Outcome<wire::Frame> answer = co_await FrameStream::read_frame(stream, kAnswerLimit);
    if (answer && answer.value().header.type == FrameType::lease_told) {
      self->leases_.told(answer.value().json, Clock::now());
      continue;
    }
    if (answer && answer.value().header.type == FrameType::ranks_told) {
      self->ways_.told(answer.value().json);
      continue;
    }
    const Error skipped{Errc::not_found, "this central does not know such questions: it is of an earlier version"};
    self->not_told(answer ? skipped : answer.error());
    co_return std::move(answer);
  }
}

Outcome<boost::json::object> CentralLink::lease(const boost::json::object& request) {
  if (!connected_) return Error{Errc::unreachable, "central: " + (last_error_.empty() ? "not yet" : last_error_)};
  BOOST_OUTCOME_TRY(boost::json::object answer, leases_.ask(request, Clock::now()));
  if (answer.contains("pending") && !leases_.waits()) hurry();
  return answer;
}

asio::awaitable<Outcome<wire::Located>> CentralLink::way(std::shared_ptr<CentralLink> self, WantedWay wanted) {
  if (!self->connected_) {
    co_return Error{Errc::unreachable, "central: " + (self->last_error_.empty() ? "not yet" : self->last_error_)};
  }
  Outcome<std::shared_ptr<NodeWays::Question>> asked = self->ways_.ask(self->setup_.io->get_executor(), wanted);
  if (!asked) co_return asked.error();
  const std::shared_ptr<NodeWays::Question> question = asked.value();
  self->hurry();
  question->told.expires_after(kAnswerLimit + kReportEvery);
  boost::system::error_code woken;
  co_await question->told.async_wait(asio::redirect_error(asio::use_awaitable, woken));
  if (question->answer) co_return *question->answer;
  co_return Error{Errc::timeout, "central has not told the way in time"};
}

void CentralLink::learn(const wire::ReportOk& answer, const CentralKey& central) {
  take(answer);
  if (!setup_.remember.empty()) remember(answer, central);
  setup_.learned();
}

void CentralLink::remember(const wire::ReportOk& answer, const CentralKey& central) {
  const Instant now = Clock::now();
  const bool same = answer.ticket_keys == remembered_.ticket_keys && answer.revoked == remembered_.revoked &&
                    central == remembered_of_;
  // Now and then also for the time: central's clock may have been put right.
  if (same && now < after(remembered_at_, kRememberEvery)) return;
  if (Outcome<void> saved = save_learned(setup_.remember, central, answer); !saved) {
    if (!std::exchange(remember_failed_, true)) {
      spdlog::warn("central: what was learned is not kept for the next process: {}", escaped(describe(saved.error())));
    }
    return;  // tried again with the next report
  }
  remember_failed_ = false;
  remembered_ = answer;
  remembered_of_ = central;
  remembered_at_ = now;
}

void CentralLink::take(const wire::ReportOk& answer) {
  central_unix_ms_ = answer.central_unix_ms;
  learned_ = Clock::now();
  ticket_keys_.clear();
  for (const auto& [id, hex] : answer.ticket_keys) {
    if (Outcome<PublicKey> key = public_key_from(hex)) {
      ticket_keys_.emplace(id, key.value());
    } else {
      spdlog::warn("central: a ticket key does not read key_id={} reason=\"{}\"", escaped(id), key.error().detail);
    }
  }
  revoked_.clear();
  for (const std::string& hex : answer.revoked) {
    if (Outcome<PublicKey> key = public_key_from(hex)) revoked_.insert(key.value());
  }
}

std::int64_t CentralLink::central_now_ms() const {
  return central_unix_ms_ + std::chrono::duration_cast<milliseconds>(Clock::now() - learned_).count();
}

Outcome<wire::Ticket> CentralLink::check(std::string_view ticket, const PublicKey& device) const {
  if (ticket_keys_.empty()) return Error{Errc::overloaded, "this node has just started and not heard from central yet"};
  link::TicketCheck against;
  against.keys = &ticket_keys_;
  against.node = to_text(setup_.keys.public_key);
  against.device = device;
  against.central_unix_ms = central_now_ms();
  BOOST_OUTCOME_TRY(auto checked, link::check_ticket(ticket, against));
  BOOST_OUTCOME_TRY(still_good(checked, device));
  return checked;
}

Outcome<void> CentralLink::still_good(const wire::Ticket& ticket, const PublicKey& device) const {
  if (is_revoked(device)) return Error{Errc::not_allowed, "this device's key was revoked"};
  if (central_now_ms() >= ticket.expires_unix_ms) return Error{Errc::expired_ticket, "ask central for a new one"};
  return done();
}

}  // namespace gearbox::node
