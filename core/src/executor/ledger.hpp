// ledger.hpp: what the executor must not forget: the highest term it has obeyed, and of each group its last shift, the
// one under way, and what people have said of it.
//
// Two files of its folder, each written whole (beside, synced, renamed, the folder synced): executor.json before
// anything is done that depends on it, history.json after each shift.
#pragma once

#include <boost/json/object.hpp>

#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gear_facts/facts.hpp"
#include "gearbox/base/outcome.hpp"

namespace gearbox::executor {

/// The time as the ledger keeps it. Passed in.
struct Moment {
  std::string boot;          // which boot of this host
  std::int64_t boot_ms = 0;  // within it
  std::int64_t unix_ms = 0;  // for people, and across boots
};

/// A shift that was ordered of the engine, or is about to be.
struct Pending {
  std::uint64_t number = 0;
  std::uint8_t from = 0, to = 0;
  std::uint64_t term = 0;
  std::uint64_t epoch = 0;  // of the engine before it
  std::string origin, decision;
  std::int64_t began_unix_ms = 0;
};

/// Of one group.
struct Kept {
  std::uint8_t came_from = 0;
  std::string origin;
  std::optional<Moment> shifted;
  std::deque<Moment> of_hour;  // shifts of the last hour
  double pause_ms = -1;
  bool held = false;
  std::vector<std::int64_t> allowed;  // empty: all
  std::optional<Pending> pending;
};

/// A shift that is over.
struct Entry {
  Pending order;
  std::string group;
  std::int64_t ended_unix_ms = 0;
  bool ok = false;
  bool recovered = false;      // its executor died meanwhile: what became of it was asked of the engine afterwards
  std::string why;             // of a no
  boost::json::object report;  // the engine's
};

/// Threads: one at a time.
class Ledger {
 public:
  static constexpr std::size_t kHistory = 256;

  /// A file that is damaged is set aside under another name, and said. Errors: io_error.
  static Outcome<Ledger> open(const std::filesystem::path& folder);

  std::uint64_t term() const { return term_; }
  /// Durable when it returns. Errors: io_error, no_space; then nothing has changed.
  Outcome<void> see(std::uint64_t term);
  std::uint64_t next_number() const { return number_ + 1; }

  /// Null: nothing is kept of it.
  const Kept* find(const std::string& group) const;
  const std::map<std::string, Kept>& groups() const { return groups_; }
  /// Durable when it returns. Errors: io_error, no_space; then nothing has changed.
  Outcome<void> keep(const std::string& group, Kept kept);

  /// The shift is over: kept of the group, and in the history. What cannot be written is an error, but known all the
  /// same, and written with the next. Errors: io_error, no_space.
  Outcome<void> over(Entry entry, const Moment& now);
  const std::deque<Entry>& history() const { return history_; }  // oldest first

  /// What the others are told.
  gear_facts::GroupRecord record(const std::string& group, const Moment& now) const;

 private:
  explicit Ledger(std::filesystem::path folder) : folder_(std::move(folder)) {}
  Outcome<void> read();
  Outcome<void> save() const;
  Outcome<void> save_history() const;
  void make_room();

  std::filesystem::path folder_;
  std::uint64_t term_ = 0;
  std::uint64_t number_ = 0;  // of the last shift
  std::map<std::string, Kept> groups_;
  std::deque<Entry> history_;
};

/// Time that has passed, on the boot's clock; across boots by the wall clock, never below zero.
std::int64_t since_ms(const Moment& then, const Moment& now);

}  // namespace gearbox::executor
