#include "coordination/etcd_members.hpp"

#include <boost/json/serialize.hpp>

#include <algorithm>
#include <fstream>

#include "coordination/etcd_text.hpp"
#include "coordination/http_post.hpp"
#include "gearbox/base/text.hpp"

namespace gearbox::coordination {

namespace json = boost::json;

namespace {

constexpr unsigned kOk = 200;
constexpr std::int64_t kUnauthenticated = 16;  // of gRPC's codes, which the gateway passes on
constexpr std::int64_t kDenied = 7;

/// Of an answer that is none: etcd says why in "message", or, as older ones, in "error".
Error refusal(unsigned status, const std::string& body) {
  std::string why = "HTTP " + std::to_string(status);
  std::int64_t code = 0;
  if (const auto object = parse_object(body)) {
    std::string said = text_in(object.value(), "message");
    if (said.empty()) said = text_in(object.value(), "error");
    if (!said.empty()) why = escaped(said, 200);
    if (const auto number = number_in(object.value(), "code")) code = number.value();
  }
  // Two that come as a wrong argument: rights were changed since the token was given, or it was given for nobody.
  const bool old_token = why.find("revision of auth store is old") != std::string::npos ||
                         why.find("user name is empty") != std::string::npos;
  const bool ours = old_token || code == kUnauthenticated || code == kDenied || status == 401 || status == 403;
  return Error{ours ? Errc::not_allowed : Errc::unreachable, why};
}

}  // namespace

Outcome<json::object> EtcdMembers::exchange(const sink::HttpUrl& member, std::string_view path, const std::string& text,
                                            Instant deadline) {
  BOOST_OUTCOME_TRY(const HttpReply reply, post(member, path, text, token_, deadline));
  if (reply.status != kOk) return refusal(reply.status, reply.body);
  return parse_object(reply.body);
}

Outcome<void> EtcdMembers::log_in(const sink::HttpUrl& member, Instant deadline) {
  std::ifstream file(login_.password_file);
  std::string password;
  if (!std::getline(file, password)) {
    return Error{Errc::not_allowed, "password_file " + escaped(login_.password_file) + " has no first line"};
  }
  token_.clear();
  const std::string text = json::serialize(json::object{{"name", login_.user}, {"password", password}});
  BOOST_OUTCOME_TRY(const json::object answer, exchange(member, "/v3/auth/authenticate", text, deadline));
  token_ = text_in(answer, "token");
  if (token_.empty()) return Error{Errc::not_allowed, "it gives no token"};
  return done();
}

/// A token that has run out, or is another member's, is replaced once.
Outcome<json::object> EtcdMembers::ask_one(const sink::HttpUrl& member, std::string_view path, const std::string& text,
                                           Instant deadline) {
  const bool logs_in = !login_.user.empty();
  const bool had_token = !token_.empty();
  if (logs_in && !had_token) {
    BOOST_OUTCOME_TRY(log_in(member, deadline));
  }
  Outcome<json::object> answer = exchange(member, path, text, deadline);
  if (answer || answer.error().code != Errc::not_allowed || !had_token) return answer;
  BOOST_OUTCOME_TRY(log_in(member, deadline));
  return exchange(member, path, text, deadline);
}

Outcome<json::object> EtcdMembers::ask(std::string_view path, const json::object& question, Instant deadline) {
  const std::string text = json::serialize(question);
  std::string said;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const Instant now = Clock::now();
    if (now >= deadline) {
      return said.empty() ? Error{Errc::timeout, "no time is left"} : Error{Errc::unreachable, std::move(said)};
    }
    const std::size_t at = (first_ + i) % members_.size();
    const sink::HttpUrl& member = members_[at];
    const auto share = (deadline - now) / static_cast<int>(members_.size() - i);
    Outcome<json::object> answer = ask_one(member, path, text, now + std::min<Clock::duration>(timeout_, share));
    if (answer) {
      first_ = at;
      return answer;
    }
    // Every member would say the same of who we are.
    if (answer.error().code == Errc::not_allowed) return answer;
    said += (said.empty() ? "" : "; ") + member.host + ":" + member.port + ": " + answer.error().detail;
  }
  return Error{Errc::unreachable, "no member of etcd answers: " + said};
}

}  // namespace gearbox::coordination
