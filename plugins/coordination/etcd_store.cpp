#include "coordination/etcd_store.hpp"

#include <boost/json/array.hpp>

#include <algorithm>
#include <limits>

#include "gearbox/base/text.hpp"

namespace gearbox::coordination {

namespace json = boost::json;
using plugin::LeaseAnswer;
using plugin::LeaseWish;

namespace {

/// A quarter longer than ours, in whole seconds, which is what etcd counts in.
seconds etcd_ttl(milliseconds ttl) {
  return std::chrono::ceil<seconds>(ttl + ttl / 4);
}

json::object range_of(const std::string& key) {
  return {{"key", base64(key)}};
}

json::object unchanged(const std::string& key, std::int64_t mod_revision) {
  return {{"key", base64(key)},
          {"target", "MOD"},
          {"result", "EQUAL"},
          {"mod_revision", std::to_string(mod_revision)}};  // 0: there is no such key
}

/// Is it of this holder, and of a life that this one may go on with or replace?
bool is_own(const HolderText& holder, const LeaseWish& wish) {
  return holder.holder == wish.holder && holder.home == wish.home;
}

LeaseAnswer granted(const LeaseWish& wish, std::uint64_t term) {
  return LeaseAnswer{true, term, std::string(wish.holder), wish.ttl};
}

}  // namespace

std::string EtcdStore::key(std::string_view name, std::string_view last) const {
  return prefix_ + std::string(name) + "/" + std::string(last);
}

Outcome<EtcdStore::Seen> EtcdStore::read(std::string_view name, Instant deadline) {
  const std::string holder_key = key(name, "holder");
  const std::string term_key = key(name, "term");
  json::array both;
  both.push_back(json::object{{"request_range", range_of(holder_key)}});
  both.push_back(json::object{{"request_range", range_of(term_key)}});
  BOOST_OUTCOME_TRY(const json::object answer,
                    members_.ask("/v3/kv/txn", json::object{{"success", std::move(both)}}, deadline));
  Seen seen;
  const json::value* responses = answer.if_contains("responses");
  if (responses == nullptr || !responses->is_array()) return Error{Errc::bad_frame, "etcd's answer has no responses"};
  for (const json::value& each : responses->get_array()) {
    const json::object* range = each.is_object() ? object_in(each.get_object(), "response_range") : nullptr;
    if (range == nullptr) return Error{Errc::bad_frame, "etcd's answer has no range"};
    BOOST_OUTCOME_TRY(std::vector<KeyValue> keys, keys_in(*range));
    for (KeyValue& found : keys) (found.key == holder_key ? seen.holder_key : seen.term_key) = std::move(found);
  }
  seen.holder = read_holder(seen.holder_key.value);
  if (!seen.holder && seen.holder_key.mod_revision != 0) {
    return Error{Errc::not_allowed, "etcd's key " + escaped(holder_key) + " holds what is not ours"};
  }
  if (seen.term_key.mod_revision != 0) {
    const auto last = read_holder(seen.term_key.value);
    if (!last) return Error{Errc::not_allowed, "etcd's key " + escaped(term_key) + " holds what is not ours"};
    seen.term = last->term;
  }
  if (seen.holder) seen.term = std::max(seen.term, seen.holder->term);
  return seen;
}

/// Who has it, for one who does not get it.
Outcome<LeaseAnswer> EtcdStore::told(const Seen& seen, Instant deadline) {
  LeaseAnswer answer;
  answer.term = seen.term;
  if (!seen.holder) return answer;
  answer.holder = seen.holder->holder;
  answer.term = seen.holder->term;
  const auto left =
      members_.ask("/v3/lease/timetolive", json::object{{"ID", std::to_string(seen.holder_key.lease)}}, deadline);
  // For people only: who holds it is known without.
  const auto ttl = left ? number_in(left.value(), "TTL") : Outcome<std::int64_t>(0);
  if (ttl && ttl.value() > 0) answer.left = seconds(ttl.value());
  return answer;
}

/// False: etcd knows that lease no more, or it is too short for ours.
Outcome<bool> EtcdStore::keep_alive(std::int64_t lease, milliseconds ttl, Instant deadline) {
  BOOST_OUTCOME_TRY(const json::object answer,
                    members_.ask("/v3/lease/keepalive", json::object{{"ID", std::to_string(lease)}}, deadline));
  const json::object* result = object_in(answer, "result");
  if (result == nullptr) return Error{Errc::bad_frame, "etcd's answer to a keepalive has no result"};
  BOOST_OUTCOME_TRY(const std::int64_t left, number_in(*result, "TTL"));
  return seconds(left) >= etcd_ttl(ttl);
}

void EtcdStore::revoke(std::int64_t lease, Instant deadline) {
  // One that cannot be told ends by itself.
  static_cast<void>(members_.ask("/v3/lease/revoke", json::object{{"ID", std::to_string(lease)}}, deadline));
}

Outcome<LeaseAnswer> EtcdStore::ask(const LeaseWish& wish, Instant deadline) {
  BOOST_OUTCOME_TRY(Seen seen, read(wish.name, deadline));
  if (wish.term != 0 && seen.holder && is_own(*seen.holder, wish) && seen.holder->term == wish.term) {
    BOOST_OUTCOME_TRY(const bool alive, keep_alive(seen.holder_key.lease, wish.ttl, deadline));
    // Looked at once more: what was revoked, removed or taken between the two is not ours.
    const Seen before = seen;
    BOOST_OUTCOME_TRY(seen, read(wish.name, deadline));
    if (alive && seen.holder_key.mod_revision == before.holder_key.mod_revision) return granted(wish, wish.term);
  }
  const bool own = seen.holder && is_own(*seen.holder, wish);
  // With another term than the last one it is an earlier life, which has been replaced.
  const bool replaced = own && wish.term != 0 && seen.holder->term > wish.term;
  if (seen.holder && (!own || replaced)) return told(seen, deadline);
  return acquire(wish, seen, deadline);
}

Outcome<LeaseAnswer> EtcdStore::acquire(const LeaseWish& wish, const Seen& seen, Instant deadline) {
  const std::uint64_t last = std::max({seen.term, wish.term, wish.above});
  constexpr auto kHighest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (last >= kHighest) return Error{Errc::bad_input, "there is no higher term"};
  const HolderText next{std::string(wish.holder), std::string(wish.home), last + 1};
  const json::object wanted{{"TTL", std::to_string(etcd_ttl(wish.ttl).count())}};
  BOOST_OUTCOME_TRY(const json::object lease_answer, members_.ask("/v3/lease/grant", wanted, deadline));
  BOOST_OUTCOME_TRY(const std::int64_t lease, number_in(lease_answer, "ID"));
  if (lease == 0) return Error{Errc::bad_frame, "etcd's lease has no ID"};

  const std::string holder_key = key(wish.name, "holder");
  const std::string term_key = key(wish.name, "term");
  json::array compare;
  compare.push_back(unchanged(holder_key, seen.holder_key.mod_revision));
  compare.push_back(unchanged(term_key, seen.term_key.mod_revision));
  const std::string value = base64(to_text(next));
  json::array puts;
  puts.push_back(json::object{
      {"request_put", json::object{{"key", base64(holder_key)}, {"value", value}, {"lease", std::to_string(lease)}}}});
  puts.push_back(json::object{{"request_put", json::object{{"key", base64(term_key)}, {"value", value}}}});
  json::object transaction{{"compare", std::move(compare)}, {"success", std::move(puts)}};
  const auto written = members_.ask("/v3/kv/txn", transaction, deadline);
  const json::value* succeeded = written ? written.value().if_contains("succeeded") : nullptr;
  bool ours = succeeded != nullptr && succeeded->is_bool() && succeeded->get_bool();
  if (!ours) {
    // A member that fell silent may have written it, and the next one then found it changed.
    const Outcome<Seen> now = read(wish.name, deadline);
    if (!now) return now.error();
    ours = now.value().holder && now.value().holder_key.lease == lease;
    if (!ours) {
      revoke(lease, deadline);
      if (!written) return written.error();
      return told(now.value(), deadline);
    }
  }
  if (seen.holder_key.lease != 0) revoke(seen.holder_key.lease, deadline);  // of the life that was replaced
  return granted(wish, next.term);
}

Outcome<void> EtcdStore::release(const LeaseWish& wish, Instant deadline) {
  BOOST_OUTCOME_TRY(const Seen seen, read(wish.name, deadline));
  if (!seen.holder || !is_own(*seen.holder, wish) || seen.holder->term != wish.term) return done();
  // The key goes with it.
  const json::object lease{{"ID", std::to_string(seen.holder_key.lease)}};
  BOOST_OUTCOME_TRY(members_.ask("/v3/lease/revoke", lease, deadline));
  return done();
}

Outcome<LeaseAnswer> EtcdStore::look(std::string_view name, Instant deadline) {
  BOOST_OUTCOME_TRY(const Seen seen, read(name, deadline));
  return told(seen, deadline);
}

}  // namespace gearbox::coordination
