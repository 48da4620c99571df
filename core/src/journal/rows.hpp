// rows.hpp: the journal's table and the statements on it. One thread at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <vector>

#include "journal/journal.hpp"
#include "journal/slots.hpp"
#include "sqlite/sqlite.hpp"

namespace gearbox::journal {

/// Where a payload lies: in its row, or in a slot.
struct Placed {
  std::uint64_t bytes = 0;
  std::string digest;  // XXH3-128, hex
  Slot slot = 0;       // 0: in the row
  Bytes in_row;
};

class Rows {
 public:
  /// Opens or makes the database and checks its pages. Errors: corrupt_data; io_error; no_space; unsupported_version.
  static Outcome<Rows> open(const std::filesystem::path& file);

  Outcome<void> begin() { return database_.run("BEGIN IMMEDIATE"); }
  Outcome<void> commit() { return database_.run("COMMIT"); }
  void rollback();

  /// False: it is there already.
  Outcome<bool> accept(const RequestKey& key, const std::string& head, const Placed& input);
  /// False: it is settled, or not there.
  Outcome<bool> settle(const RequestKey& key, bool ok, const std::string& head, const Placed& result);
  struct Gone {
    std::vector<Slot> slots;
    std::uint64_t bytes = 0;
    bool was_there = false;
  };
  Outcome<Gone> forget(const RequestKey& key);

  Outcome<std::vector<Kept>> all();
  Outcome<std::set<Slot>> slots();
  /// Errors: not_found.
  Outcome<Placed> input(const RequestKey& key);
  Outcome<Placed> result(const RequestKey& key);

 private:
  Outcome<Placed> placed(sqlite::Statement& statement, const RequestKey& key);
  sqlite::Database database_;
  sqlite::Statement accept_, settle_, find_, forget_, input_, result_;
};

}  // namespace gearbox::journal
