#include "executor/ledger_text.hpp"

#include <boost/json/array.hpp>

#include "link/json_reader.hpp"

namespace gearbox::executor {

namespace json = boost::json;
using link::ObjectReader;

namespace {

constexpr std::size_t kMostOfHour = 4096;
constexpr std::size_t kMaxText = 2048;

json::object moment_json(const Moment& moment) {
  return {{"boot", moment.boot}, {"boot_ms", moment.boot_ms}, {"unix_ms", moment.unix_ms}};
}

void read_moment(ObjectReader& reader, Moment& moment) {
  reader.read("boot", moment.boot, kMaxText);
  reader.read("boot_ms", moment.boot_ms);
  reader.read("unix_ms", moment.unix_ms);
}

json::object pending_json(const Pending& pending) {
  return {{"number", pending.number},
          {"from", pending.from},
          {"to", pending.to},
          {"term", pending.term},
          {"epoch", pending.epoch},
          {"origin", pending.origin},
          {"decision", pending.decision},
          {"began_unix_ms", pending.began_unix_ms}};
}

void read_pending(ObjectReader& reader, Pending& pending) {
  reader.read("number", pending.number);
  reader.read("from", pending.from);
  reader.read("to", pending.to);
  reader.read("term", pending.term);
  reader.read("epoch", pending.epoch);
  reader.read("origin", pending.origin, kMaxText);
  reader.read("decision", pending.decision, kMaxText);
  reader.read("began_unix_ms", pending.began_unix_ms);
  if (pending.to < 1 || pending.to > 6 || pending.from > 6) reader.fail("to", "is no gear");
}

}  // namespace

json::object to_json(const Kept& kept) {
  json::array hour;
  for (const Moment& moment : kept.of_hour) hour.push_back(moment_json(moment));
  json::object out{{"came_from", kept.came_from}, {"origin", kept.origin},
                   {"of_hour", std::move(hour)},  {"pause_ms", kept.pause_ms},
                   {"held", kept.held},           {"allowed", json::array(kept.allowed.begin(), kept.allowed.end())}};
  if (kept.shifted) out["shifted"] = moment_json(*kept.shifted);
  if (kept.pending) out["pending"] = pending_json(*kept.pending);
  return out;
}

Outcome<Kept> read_kept(const json::object& object) {
  Kept kept;
  ObjectReader reader(object);
  reader.read("came_from", kept.came_from);
  reader.read("origin", kept.origin, kMaxText);
  std::vector<Moment> hour;
  reader.read_list("of_hour", hour, kMostOfHour, read_moment);
  kept.of_hour.assign(hour.begin(), hour.end());
  reader.read("pause_ms", kept.pause_ms);
  reader.read("held", kept.held);
  reader.read("allowed", kept.allowed, 6);
  if (object.contains("shifted")) reader.read_object("shifted", kept.shifted.emplace(), read_moment);
  if (object.contains("pending")) reader.read_object("pending", kept.pending.emplace(), read_pending);
  if (kept.came_from > 6) reader.fail("came_from", "is no gear");
  BOOST_OUTCOME_TRY(reader.result());
  return kept;
}

json::object to_json(const Entry& entry) {
  json::object out = pending_json(entry.order);
  out["key"] = std::to_string(entry.order.number);
  out["group"] = entry.group;
  out["ended_unix_ms"] = entry.ended_unix_ms;
  out["ok"] = entry.ok;
  out["recovered"] = entry.recovered;
  out["why"] = entry.why;
  out["report"] = entry.report;
  return out;
}

Outcome<Entry> read_entry(const json::object& object) {
  Entry entry;
  ObjectReader reader(object);
  read_pending(reader, entry.order);
  reader.read("group", entry.group, kMaxText);
  reader.read("ended_unix_ms", entry.ended_unix_ms);
  reader.read("ok", entry.ok);
  reader.read("recovered", entry.recovered);
  reader.read("why", entry.why, kMaxText);
  if (const json::value* report = object.if_contains("report"); report != nullptr && report->is_object())
    entry.report = report->get_object();
  BOOST_OUTCOME_TRY(reader.result());
  return entry;
}

}  // namespace gearbox::executor
