#include "executor/ledger.hpp"

#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "executor/ledger_text.hpp"
#include "executor/whole_file.hpp"
#include "gear_facts/places.hpp"
#include "gearbox/base/text.hpp"
#include "gearbox/toml/document.hpp"

namespace gearbox::executor {

namespace json = boost::json;
namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMostBytes = 16 << 20;
constexpr std::int64_t kHourMs = 3'600'000;

fs::path record_file(const fs::path& folder) {
  return folder / "executor.json";
}
fs::path history_file(const fs::path& folder) {
  return folder / "history.json";
}

/// Nothing: there is no such file. Errors: io_error; corrupt_data.
Outcome<std::optional<json::object>> read_object(const fs::path& file) {
  std::error_code unknown;
  if (!fs::exists(file, unknown)) return std::optional<json::object>();
  BOOST_OUTCOME_TRY(const std::string text, toml::read_file(file, kMostBytes));
  boost::system::error_code bad;
  json::value value = json::parse(text, bad);
  if (bad || !value.is_object()) return Error{Errc::corrupt_data, "it is no JSON object"};
  return std::optional<json::object>(std::move(value.get_object()));
}

/// It begins anew without what it held; whoever looks finds the old one beside it.
Outcome<void> set_aside(const fs::path& file, const std::string& why) {
  fs::path aside = file;
  aside += ".damaged";
  std::error_code failure;
  fs::rename(file, aside, failure);
  if (failure) return Error{Errc::io_error, escaped(file.string()) + ": " + failure.message()};
  spdlog::error("event=record_set_aside role=executor file={} reason=\"{}\"", escaped(aside.string()), escaped(why));
  return done();
}

std::uint64_t number_in(const json::object& object, std::string_view member) {
  const json::value* value = object.if_contains(json::string_view(member.data(), member.size()));
  boost::system::error_code bad;
  const auto number = value != nullptr && value->is_number() ? value->to_number<std::uint64_t>(bad) : 0;
  return bad ? 0 : number;
}

Outcome<std::map<std::string, Kept>> groups_in(const json::object& object) {
  std::map<std::string, Kept> groups;
  const json::value* all = object.if_contains("groups");
  if (all == nullptr || !all->is_object()) return Error{Errc::corrupt_data, "it has no groups"};
  for (const auto& [name, value] : all->get_object()) {
    const std::string group(name.data(), name.size());
    if (!is_name(group) || !value.is_object()) return Error{Errc::corrupt_data, "what it calls a group is none"};
    BOOST_OUTCOME_TRY(Kept kept, read_kept(value.get_object()));
    groups.emplace(group, std::move(kept));
  }
  return groups;
}

}  // namespace

std::int64_t since_ms(const Moment& then, const Moment& now) {
  const bool same = !then.boot.empty() && then.boot == now.boot;
  return std::max<std::int64_t>(0, same ? now.boot_ms - then.boot_ms : now.unix_ms - then.unix_ms);
}

Outcome<Ledger> Ledger::open(const fs::path& folder) {
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return Error{Errc::io_error, escaped(folder.string()) + ": " + std::generic_category().message(errno)};
  Ledger ledger(folder);
  BOOST_OUTCOME_TRY(ledger.read());
  return ledger;
}

Outcome<void> Ledger::read() {
  const Outcome<std::optional<json::object>> record = read_object(record_file(folder_));
  if (record && record.value()) {
    Outcome<std::map<std::string, Kept>> groups = groups_in(*record.value());
    if (groups) {
      groups_ = std::move(groups).value();
      term_ = number_in(*record.value(), "term");
      number_ = number_in(*record.value(), "number");
    } else {
      BOOST_OUTCOME_TRY(set_aside(record_file(folder_), groups.error().detail));
    }
  } else if (!record) {
    if (record.error().code != Errc::corrupt_data) return record.error();
    BOOST_OUTCOME_TRY(set_aside(record_file(folder_), record.error().detail));
  }
  const Outcome<std::optional<json::object>> history = read_object(history_file(folder_));
  if (!history) {
    if (history.error().code != Errc::corrupt_data) return history.error();
    return set_aside(history_file(folder_), history.error().detail);
  }
  if (!history.value()) return done();
  const json::value* shifts = history.value()->if_contains("shifts");
  if (shifts == nullptr || !shifts->is_array()) return set_aside(history_file(folder_), "it has no shifts");
  for (const json::value& each : shifts->get_array()) {
    Outcome<Entry> entry = each.is_object() ? read_entry(each.get_object()) : Error{Errc::corrupt_data, "no object"};
    if (!entry) return set_aside(history_file(folder_), entry.error().detail);
    number_ = std::max(number_, entry.value().order.number);
    history_.push_back(std::move(entry).value());
  }
  while (history_.size() > kHistory) history_.pop_front();
  return done();
}

Outcome<void> Ledger::save() const {
  json::object groups;
  for (const auto& [name, kept] : groups_) groups[name] = to_json(kept);
  const json::object all{{"term", term_}, {"number", number_}, {"groups", std::move(groups)}};
  return write_durably(record_file(folder_), json::serialize(all));
}

Outcome<void> Ledger::save_history() const {
  json::array shifts;
  for (const Entry& entry : history_) shifts.push_back(to_json(entry));
  return write_durably(history_file(folder_), json::serialize(json::object{{"shifts", std::move(shifts)}}));
}

Outcome<void> Ledger::see(std::uint64_t term) {
  if (term <= term_) return done();
  const std::uint64_t before = std::exchange(term_, term);
  Outcome<void> saved = save();
  if (!saved) term_ = before;
  return saved;
}

const Kept* Ledger::find(const std::string& group) const {
  const auto found = groups_.find(group);
  return found == groups_.end() ? nullptr : &found->second;
}

/// Of more groups than a host may have, those that shifted longest ago are forgotten.
void Ledger::make_room() {
  while (groups_.size() > gear_facts::kMostGroups) {
    auto oldest = groups_.end();
    const auto age = [](const Kept& kept) { return kept.shifted ? kept.shifted->unix_ms : 0; };
    for (auto at = groups_.begin(); at != groups_.end(); ++at) {
      if (at->second.pending) continue;
      if (oldest == groups_.end() || age(at->second) < age(oldest->second)) oldest = at;
    }
    if (oldest == groups_.end()) return;
    groups_.erase(oldest);
  }
}

Outcome<void> Ledger::keep(const std::string& group, Kept kept) {
  std::map<std::string, Kept> before = groups_;
  const std::uint64_t last = number_;
  if (kept.pending) number_ = std::max(number_, kept.pending->number);
  groups_.insert_or_assign(group, std::move(kept));
  make_room();
  Outcome<void> saved = save();
  if (!saved) {
    groups_ = std::move(before);
    number_ = last;
  }
  return saved;
}

Outcome<void> Ledger::over(Entry entry, const Moment& now) {
  Kept& kept = groups_[entry.group];
  kept.pending.reset();
  number_ = std::max(number_, entry.order.number);
  if (entry.ok) {
    kept.came_from = entry.order.from;
    kept.origin = entry.order.origin;
    kept.shifted = now;
    kept.of_hour.push_back(now);
    if (const json::value* pause = entry.report.if_contains("pause_ms"); pause != nullptr && pause->is_number())
      kept.pause_ms = pause->to_number<double>();
  }
  while (!kept.of_hour.empty() && since_ms(kept.of_hour.front(), now) >= kHourMs) kept.of_hour.pop_front();
  // Once for each shift: an executor that died between the two files below finds its end a second time.
  std::erase_if(history_, [&](const Entry& other) { return other.order.number == entry.order.number; });
  history_.push_back(std::move(entry));
  while (history_.size() > kHistory) history_.pop_front();
  make_room();
  // The history first: a pending shift that is in it already is found again, one that is in neither would be lost.
  BOOST_OUTCOME_TRY(save_history());
  return save();
}

gear_facts::GroupRecord Ledger::record(const std::string& group, const Moment& now) const {
  gear_facts::GroupRecord record;
  record.name = group;
  const Kept* kept = find(group);
  if (kept == nullptr) return record;
  record.came_from = kept->came_from;
  record.origin = kept->origin;
  if (kept->shifted) record.since_shift_ms = since_ms(*kept->shifted, now);
  record.shifts_of_hour = static_cast<std::uint32_t>(std::count_if(
      kept->of_hour.begin(), kept->of_hour.end(), [&](const Moment& then) { return since_ms(then, now) < kHourMs; }));
  record.shifting = kept->pending.has_value();
  record.held = kept->held;
  record.allowed = kept->allowed;
  record.pause_ms = kept->pause_ms;
  return record;
}

}  // namespace gearbox::executor
