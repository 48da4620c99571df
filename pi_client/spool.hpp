// spool.hpp: a bounded folder of requests that wait to be sent. What was added is there after a kill or a power cut;
// what is cut or damaged is set aside. Several processes may add to, list and drop from one spool; one sends.
//
// An item is two files, SEQUENCE-REQUEST.bin and .json; it is there when the .json is. Both are written beside, synced
// and renamed, the .json last. Every change is made under the lock of the file `lock`, which also counts changes, so
// that a process knows whether what it knows of the folder still holds. `damaged/` has what was set aside.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "durable.hpp"
#include "gearbox/base/clock.hpp"
#include "spool_item.hpp"

namespace gearbox::client {

enum class SpoolPolicy {
  keep_all,     // a newcomer that does not fit is refused
  drop_oldest,  // the oldest make room
  newest_only   // live video: a newcomer replaces all that wait
};

struct SpoolLimits {
  SpoolPolicy policy = SpoolPolicy::keep_all;
  std::size_t max_items = 10'000;
  std::uint64_t max_bytes = 1ULL << 30;  // of both files of all items
  milliseconds lock_within{5'000};       // so long another process may hold the spool
};

/// An item as it is listed.
struct Spooled {
  std::uint64_t sequence = 0;  // order of adding
  std::uint64_t bytes = 0;     // of its files
  SpoolItem item;
};

/// Threads: any; calls wait for each other, also those of other processes, and for the disk. All may fail with
/// overloaded, too: another process has held the spool for too long.
class Spool {
 public:
  /// Opens or makes the folder (mode 0700). Errors: io_error, no_space.
  static Outcome<std::unique_ptr<Spool>> open(std::filesystem::path folder, SpoolLimits limits);

  struct Added {
    std::vector<Spooled> dropped;  // made room
  };
  /// Durable when it returns. `before_seen` (may be empty) is called while nobody else can see the item yet, when it is
  /// durable. Errors: no_space (it does not fit, or the disk is full); too_large (for an empty spool); io_error.
  /// Nothing is added then; the detail names those that have been dropped for a full disk all the same.
  Outcome<Added> add(SpoolItem item, ByteView bytes, const std::function<void()>& before_seen = {});

  /// All, oldest first. Errors: io_error.
  Outcome<std::vector<std::shared_ptr<const Spooled>>> list();
  /// Its bytes, ready to be sent. Errors: not_found; corrupt_data: it was damaged and is set aside; io_error.
  Outcome<Payload> load(const RequestId& id);
  /// False: it is not there. Errors: io_error.
  Outcome<bool> remove(const RequestId& id);

  /// What is being sent, or acknowledged by a node, does not make room for others. Known to this object only; what is
  /// in homes_file() does not make room in any process. Never waits for a disk or a process.
  void pin(const RequestId& id);
  void unpin(const RequestId& id);

  /// Taken by the one process that sends, until it ends. Errors: overloaded (another process has it), io_error.
  Outcome<Descriptor> lock_for_sending() const { return lock_file(folder_ / "sending.lock", milliseconds(0)); }

  /// How many items were damaged and set aside by this object.
  std::size_t set_aside() const;
  const std::filesystem::path& folder() const { return folder_; }
  /// Where the process that sends notes which node has what (homes.hpp).
  std::filesystem::path homes_file() const { return folder_ / "homes"; }
  /// Is there a spool?
  static bool is_there(const std::filesystem::path& folder);

 private:
  Spool(std::filesystem::path folder, SpoolLimits limits) : folder_(std::move(folder)), limits_(limits) {}
  Outcome<Descriptor> lock();            // and brings what is known up to date
  Outcome<void> count_change(int lock);  // before each change
  Outcome<void> look();
  void put_aside(const std::string& stem);
  Outcome<std::vector<std::shared_ptr<const Spooled>>> make_room(std::uint64_t bytes,
                                                                 const std::set<RequestId>& kept) const;
  std::vector<std::shared_ptr<const Spooled>> make_way(std::uint64_t bytes, const std::set<RequestId>& kept) const;
  Outcome<std::set<RequestId>> not_to_be_dropped() const;
  bool is_pinned(const RequestId& id) const;
  Outcome<void> write(const std::string& stem, const std::string& json, ByteView bytes,
                      const std::function<void()>& before_seen);
  void unlink_item(const Spooled& item);

  const std::filesystem::path folder_;
  const SpoolLimits limits_;
  mutable std::mutex mutex_;
  bool known_ = false;
  std::uint64_t changes_ = 0;                                    // as `lock` counted them when this was last up to date
  std::map<std::string, std::shared_ptr<const Spooled>> items_;  // by stem: in order of adding
  std::uint64_t next_ = 1;
  mutable std::mutex pins_mutex_;  // taken last, and for a moment only: who pins must not wait for the disk
  std::set<RequestId> pinned_;
  std::size_t set_aside_ = 0;
};

}  // namespace gearbox::client
