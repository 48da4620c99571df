// rows.hpp: the journal's table and the statements on it. One thread at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "journal/journal.hpp"
#include "journal/payloads.hpp"
#include "sqlite/sqlite.hpp"

namespace gearbox::journal {

/// Where a payload lies: in its row, or in a file.
struct Placed {
  std::uint64_t bytes = 0;
  std::string digest;       // XXH3-128, hex
  PayloadFile payload = 0;  // 0: in the row
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
  /// What a change let go of.
  struct Gone {
    bool changed = false;  // false: nothing was done
    std::vector<PayloadFile> payloads;
    std::uint64_t bytes = 0;  // as they count
  };
  /// Lets go of the inputs. Nothing is done when it is settled already, or not there.
  Outcome<Gone> settle(const RequestKey& key, bool ok, const std::string& head, const Placed& result,
                       std::int64_t now_ms);
  Outcome<Gone> forget(const RequestKey& key);

  /// How long processes with this journal have run, as far as they noted it.
  Outcome<std::int64_t> running_ms();
  Outcome<void> note_running(std::int64_t now_ms);
  /// Notes with each unsettled request that the journal was opened once more.
  Outcome<void> count_opening();
  Outcome<void> take_opening_back();
  Outcome<std::vector<Kept>> all();
  Outcome<std::set<PayloadFile>> payloads();
  /// Of a settled one its result, else its inputs. Errors: not_found.
  Outcome<std::pair<Kept, Placed>> find(const RequestKey& key);

 private:
  sqlite::Database database_;
  sqlite::Statement accept_, settle_, counted_, forget_, find_;
};

/// What a row counts for beside its payload.
inline std::uint64_t count_of_row(std::size_t head_bytes) {
  return 256 + head_bytes;
}

}  // namespace gearbox::journal
