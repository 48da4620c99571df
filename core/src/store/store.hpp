// store.hpp: raw inputs and results of finished requests, kept on the node: an index in SQLite, the bytes in files.
//
// Keeping is best effort and never on a request's path: one thread of its own does all disk work behind a bounded
// queue (256 records, 64 MiB); when the queue is full or the disk is, the record is dropped, counted and said in the
// status (the answer to the device is not affected). There is no journal: an accepted request survives only while the
// node lives. After a restart its device sends it again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "gearbox/base/bytes.hpp"
#include "gearbox/base/ids.hpp"
#include "gearbox/base/outcome.hpp"
#include "gearbox/wire/messages.hpp"

namespace gearbox::store {

struct Item {
  RequestKey key;
  std::string user, task, node;
  std::uint32_t tenant = 0;
  bool ok = false;
  std::string error;  // "code: detail" when it failed
  std::vector<wire::TensorSpec> inputs;
  std::vector<ByteView> input_bytes;  // plain; one or more views, in order; empty: not kept
  std::vector<wire::TensorSpec> outputs;
  std::vector<ByteView> output_bytes;
  wire::Timing timing;
};

struct Counters {
  std::uint64_t kept = 0, dropped = 0, removed = 0;
  std::uint64_t bytes = 0;  // in files now
  std::string last_error;   // of the disk; empty when the last write went well
};

class ResultStore {
 public:
  /// Opens or makes the index. A damaged one is set aside as index.db.damaged-N (logged), and a new one begins. Files
  /// that no row names (a power cut leaves them) are removed in the background, once, unless a damaged index lies
  /// there. Errors: io_error, no_space.
  static Outcome<std::unique_ptr<ResultStore>> open(const std::filesystem::path& folder,
                                                    const config::StoreConfig& config);
  /// Finishes what is queued.
  ~ResultStore();

  /// Queues `item`. The views must stay valid until `written` is called, exactly once, on the store's thread (or at
  /// once on the caller's, when the queue is full). Any thread.
  void put(Item item, std::function<void()> written);
  Counters counters() const;
  /// Other limits from now on: keep_inputs for the next item, keep_hours and max_bytes within the second. `enabled` is
  /// not looked at. Any thread.
  void reconfigure(const config::StoreConfig& config);

 private:
  struct State;
  explicit ResultStore(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// A line of the index, for `broker results`.
struct Row {
  std::string request, device, user, task, error;
  std::int64_t finished_unix_ms = 0;
  bool ok = false;
  std::string inputs_json, outputs_json, timing_json;
  std::uint64_t input_bytes = 0, output_bytes = 0;
  std::filesystem::path input_file, output_file;  // empty: nothing kept
};

/// Reads the index while a node may be writing it. Newest first, at most `limit`; `task` empty = all.
/// Errors: not_found when there is no store yet; io_error.
Outcome<std::vector<Row>> list(const std::filesystem::path& folder, std::string_view task, std::size_t limit);
/// `request`: the id in full, or its first characters if they are unique (at least 4). Errors: not_found, bad_input
/// (ambiguous).
Outcome<Row> find(const std::filesystem::path& folder, std::string_view request);

}  // namespace gearbox::store
