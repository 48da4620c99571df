// spool_item.hpp: one request as it lies in the spool: its bytes as they travel, and a JSON text with its id and all
// that is announced, so that each submit of it, by whatever process, is the same one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gearbox/base/clock.hpp"
#include "gearbox/base/ids.hpp"
#include "gearbox/wire/messages.hpp"
#include "payload.hpp"

namespace gearbox::client {

/// Where an item came from, so that the same file is not taken twice. No inode: some file systems number anew at each
/// mount.
struct SourceFile {
  std::string path;
  std::uint64_t bytes = 0;
  std::int64_t mtime_ns = 0;  // the wall clock's; compared for equality only
  bool operator==(const SourceFile&) const = default;
};

/// A moment that outlives a process: boot time (sleep included) and which boot it is of.
struct BootTime {
  std::string boot;
  std::int64_t ms = 0;
};
BootTime boot_now();
/// From `then` to `now`; none when they are of different boots: nobody knows how long it was off.
std::optional<milliseconds> between(const BootTime& then, const BootTime& now);

/// Everything but the bytes.
struct SpoolItem {
  RequestId id;                                   // made once
  std::string name;                               // for people: the original file
  wire::Submit submit;                            // with the task
  std::vector<std::vector<std::uint32_t>> tiles;  // by input: lengths of its coded tiles; empty: stored
  std::uint8_t priority = 0;
  milliseconds deadline{0};  // for the node, from each arrival there; 0: none
  milliseconds max_age{0};   // from `spooled`; what is older is not sent any more; 0: none
  BootTime spooled;
  std::int64_t unix_ms = 0;  // the same by the wall clock, for people
  std::optional<SourceFile> source;
};

std::string to_json(const SpoolItem& item);
/// Errors: corrupt_data for what is no whole item.
Outcome<SpoolItem> spool_item_from(std::string_view json);

/// All bytes of an upload as they travel; sets item.tiles and item.submit from it.
Bytes take_payload(Payload payload, SpoolItem& item);
/// The other way. Errors: corrupt_data when the bytes are not those that were announced.
Outcome<Payload> payload_of(const SpoolItem& item, Bytes bytes);

}  // namespace gearbox::client
