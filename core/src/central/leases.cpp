#include "central/leases.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "central/accounts_database.hpp"
#include "central/accounts_file.hpp"
#include "gearbox/base/text.hpp"
#include "link/json_reader.hpp"
#include "sql/sqlite_connection.hpp"

namespace gearbox::central {

namespace json = boost::json;

namespace {

constexpr milliseconds kLongest{600'000};
constexpr milliseconds kShortest{200};

std::int64_t wall_ms() {
  return std::chrono::duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Outcome<std::unique_ptr<sql::Connection>> connect(const AccountsPlace& place) {
  if (place.is_shared()) return open_accounts_database(place);
  BOOST_OUTCOME_TRY(auto file, open_accounts_file(place.file, OnDamage::refuse));
  return sql::connection_to(std::move(file));
}

}  // namespace

Outcome<Leases> Leases::open(const AccountsPlace& place, Instant now) {
  BOOST_OUTCOME_TRY(auto database, connect(place));
  Leases leases(std::move(database));
  BOOST_OUTCOME_TRY(sql::Statement rows, leases.database_->prepare("SELECT name, holder, term, ttl_ms FROM leases"));
  BOOST_OUTCOME_TRY(bool more, rows.first());
  while (more) {
    const milliseconds ttl(std::clamp<std::int64_t>(rows.integer(3), 0, kLongest.count()));
    leases.held_[rows.text(0)] = Held{rows.text(1), static_cast<std::uint64_t>(rows.integer(2)), after(now, ttl)};
    BOOST_OUTCOME_TRY(more, rows.next());
  }
  return leases;
}

Outcome<void> Leases::write(const std::string& name, const Held& held, milliseconds ttl) {
  sql::Transaction transaction(*database_);
  BOOST_OUTCOME_TRY(transaction.begin());
  {
    BOOST_OUTCOME_TRY(
        sql::Statement statement,
        database_->prepare("INSERT INTO leases(name, holder, term, ttl_ms, expires) VALUES(?1, ?2, ?3, ?4, ?5) ON "
                           "CONFLICT(name) DO UPDATE SET holder = ?2, term = ?3, ttl_ms = ?4, expires = ?5"));
    BOOST_OUTCOME_TRY(statement.first(name, held.holder, static_cast<std::int64_t>(held.term),
                                      std::int64_t{ttl.count()}, std::int64_t{wall_ms() + ttl.count()}));
  }
  return transaction.commit();
}

Outcome<LeaseAnswer> Leases::ask(const std::string& name, const std::string& holder, milliseconds ttl,
                                 std::optional<std::uint64_t> term, Instant now, std::uint64_t above) {
  const auto found = held_.find(name);
  if (found == held_.end() && held_.size() >= kMost)
    return Error{Errc::overloaded, "there are " + std::to_string(kMost) + " leases already"};
  const Held before = found == held_.end() ? Held{} : found->second;
  const bool own = before.holder == holder;
  if (term && own && *term == before.term) {
    found->second.until = after(now, ttl);
    return LeaseAnswer{true, before.term, holder, ttl};
  }
  // With a term that is not the last one, it is an earlier life of the holder, which has been replaced.
  const bool replaced = term && own;
  if (now < before.until && (!own || replaced)) {
    return LeaseAnswer{false, before.term, before.holder, std::chrono::ceil<milliseconds>(before.until - now)};
  }
  constexpr auto kHighest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());  // of SQLite
  if (std::max(before.term, above) >= kHighest) return Error{Errc::bad_input, "there is no higher term"};
  Held next{holder, std::max(before.term, above) + 1, after(now, ttl)};
  BOOST_OUTCOME_TRY(write(name, next, ttl));
  held_[name] = next;
  return LeaseAnswer{true, next.term, holder, ttl};
}

void Leases::release(const std::string& name, const std::string& holder, std::uint64_t term, Instant now) {
  const auto found = held_.find(name);
  if (found != held_.end() && found->second.holder == holder && found->second.term == term) found->second.until = now;
}

Outcome<json::object> lease_command(Leases& leases, const json::object& request, Instant now) {
  std::string name = "scheduler";
  std::string holder;
  std::int64_t ttl = 0;
  std::uint64_t term = 0;
  std::uint64_t above = 0;
  bool release = false;
  link::ObjectReader reader(request);
  reader.read("name", name, kMaxNameBytes);
  reader.read("holder", holder, kMaxNameBytes);
  reader.read("ttl_ms", ttl);
  reader.read("term", term);
  reader.read("above", above);
  reader.read("release", release);
  BOOST_OUTCOME_TRY(reader.result());
  BOOST_OUTCOME_TRY(check_name("lease", name));
  BOOST_OUTCOME_TRY(check_name("holder", holder));
  // Each term that is given is one more: a number that no life of a cluster reaches is a mistake, or ill will.
  constexpr std::uint64_t kLikely = std::uint64_t{1} << 48;
  if (above > kLikely || term > kLikely) return Error{Errc::bad_input, "no term is as high as that"};
  if (release) {
    leases.release(name, holder, term, now);
    return json::object{{"granted", false}, {"term", term}, {"holder", ""}, {"left_ms", 0}};
  }
  if (ttl < kShortest.count() || ttl > kLongest.count())
    return Error{Errc::bad_input,
                 "ttl_ms must be " + std::to_string(kShortest.count()) + " to " + std::to_string(kLongest.count())};
  const std::optional<std::uint64_t> renewed = request.contains("term") ? std::optional(term) : std::nullopt;
  BOOST_OUTCOME_TRY(const LeaseAnswer answer, leases.ask(name, holder, milliseconds(ttl), renewed, now, above));
  return json::object{
      {"granted", answer.granted}, {"term", answer.term}, {"holder", answer.holder}, {"left_ms", answer.left.count()}};
}

}  // namespace gearbox::central
