// journal.hpp: what a node has acknowledged and not yet seen delivered, on disk: the next process of the node finishes,
// or fails once, each request that this one accepted, and gives each result that its device has not acknowledged.
//
// SQLite in WAL mode with synchronous=FULL; inputs and results up to kRowBytes lie in the row (one sync), larger ones
// in a payload file that is synced before the row is committed. A request's first result stands: a later one of another
// attempt is told so and dropped. One thread of its own does all disk work; what is queued meanwhile is committed
// together (group commit). Bounded in bytes; a full or failing disk is said to whoever wanted to be accepted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gearbox/base/bytes.hpp"
#include "gearbox/base/clock.hpp"
#include "gearbox/base/ids.hpp"
#include "gearbox/base/outcome.hpp"

namespace gearbox::journal {

/// Payloads up to this many bytes lie in the row itself.
inline constexpr std::uint64_t kRowBytes = 64 * 1024;

enum class Level {
  batch,  // what is queued is committed together, with one sync
  always  // each with a sync of its own
};

struct Accepted {
  RequestKey key;
  std::string head;             // what it is begun again with: the caller's own text
  std::vector<ByteView> bytes;  // its inputs, one after the other
};

struct Settled {
  RequestKey key;
  bool ok = false;
  std::string head;             // the answer's description, or the error: the caller's own text
  std::vector<ByteView> bytes;  // of the answer
};

/// A request as the journal holds it.
struct Kept {
  RequestKey key;
  std::string head;            // as it was accepted
  std::uint32_t openings = 0;  // how often the journal was opened since, this time included, with it unsettled
  bool settled = false;
  bool ok = false;     // of settled
  std::string result;  // of settled: its head
  std::uint64_t input_bytes = 0, result_bytes = 0;
  milliseconds age{0};        // of settled: since then, in running time of the processes
  std::uint64_t counted = 0;  // bytes, as they count for the limit
};

/// With its bytes: the answer's when it is settled, else those of the inputs.
struct Found {
  Kept kept;
  Bytes bytes;
};

struct Counters {
  std::uint64_t accepted = 0, settled = 0, repeated = 0, forgotten = 0, failed = 0;
  std::uint64_t commits = 0;        // each of them one sync of the log
  std::uint64_t requests = 0;       // held now
  std::uint64_t bytes = 0;          // held now, in rows and files; each row counts for a little more than its payload
  std::string last_error;           // of the disk; empty when the last commit went well
  std::filesystem::path set_aside;  // a damaged journal was found at the start and moved there; empty: none was
};

class Journal {
 public:
  struct Setup {
    std::filesystem::path folder;
    Level level = Level::batch;
    std::uint64_t max_bytes = 1ULL << 30;
  };
  /// Opens or makes it (mode 0700). A damaged one is set aside as journal.db.damaged-N with its payload files left in
  /// place, and a new one begins: see Counters::set_aside. Errors: io_error, no_space.
  static Outcome<std::unique_ptr<Journal>> open(Setup setup);
  /// Commits what is queued; each `done` has been called then.
  ~Journal();

  /// What was found at the start, oldest first; of those that are settled without head and result, which fetch() gives.
  const std::vector<Kept>& kept() const;

  /// `done` is called once, on the journal's thread, when the request is durable or cannot be: no_space (the disk or
  /// max_bytes is full), io_error. The views must stay valid until then. Any thread.
  void accept(Accepted request, std::function<void(Outcome<void>)> done);
  /// The first result of a request stands, and its inputs are let go of. `done` hears true when this is it and is
  /// durable; false when another stands already, or the request is not known (any more). Errors: as above; then the
  /// request is as it was. Any thread.
  void settle(Settled result, std::function<void(Outcome<bool>)> done);
  /// Its device has the answer, or its time to come for it is over. A crash before it is durable brings the request
  /// back: delivery is at least once. A disk that does not take it is tried again. Any thread.
  void forget(const RequestKey& key);
  /// After what was asked before. `done` is called once, on the journal's thread. Errors: not_found; corrupt_data: the
  /// bytes are not those that were written; io_error. Any thread.
  void fetch(const RequestKey& key, std::function<void(Outcome<Found>)> done);

  /// This process ends in order: it does not count among those that ended while a request was open. Any thread; before
  /// the destructor.
  void ends_in_order();

  Counters counters() const;

 private:
  struct State;
  explicit Journal(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace gearbox::journal
