// sink.hpp: a Sink brings what became of requests to another system: a database, a web server, a message queue.
//
// The node writes an event for each request that was accepted and is over into a bounded queue on disk, and a thread of
// its own for each configured sink gives them to the plugin in batches, oldest first. Requests never wait for a sink.
//
// At least once: an event may come again, after an error, after a kill of the node, or because its delivery was not
// noted in time. `key` is the same each time and unique among events: a receiver drops what it has already.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "gearbox/base/clock.hpp"
#include "gearbox/base/outcome.hpp"
#include "gearbox/plugin/descriptor.hpp"

namespace gearbox::plugin {

inline constexpr std::uint32_t kSinkApi = 1;  // raise on any change to this file

/// One request that is over. Everything in it is valid during the call only; texts are UTF-8.
struct EventView {
  std::string_view key;      // "DEVICE/REQUEST/STATE": the event's name for ever
  std::string_view state;    // "done" or "failed"
  std::string_view node;     // the node's name
  std::string_view device;   // its public key, 64 hexadecimal digits
  std::string_view request;  // 32 hexadecimal digits
  std::string_view user, task;
  std::uint32_t tenant = 0;
  std::int64_t accepted_unix_ms = 0;  // wall clock of the node's host: for people, not for order
  std::int64_t finished_unix_ms = 0;
  std::string_view error;          // "code: detail" of a failed one; else empty
  std::uint64_t input_bytes = 0;   // of its inputs, decoded
  std::uint64_t output_bytes = 0;  // of its result, or of what came before it failed
  /// The result as a JSON object: "tensors" (name, dtype, shape, bytes; "values" of small ones), "bytes", "timing".
  std::string_view result_json;
  /// The folder of the node's store of results, where the whole result lies under (device, request) while that keeps
  /// it; empty when the node keeps none.
  std::string_view stored_in;
  /// All of the above as one JSON object on one line.
  std::string_view json;
};

/// What became of a batch.
enum class Fate : std::uint32_t {
  done = 1,   // all of it is where it belongs, durably
  later = 2,  // nothing, some or all of it is: give it again, all of it, after a pause
  never = 3   // it would fail each time. Of several events the host finds out which, by giving them singly; a single
              // one goes into the dead-letter file
};

struct Verdict {
  Fate fate = Fate::done;
  std::string reason;     // of later and never: one line for people
  milliseconds pause{0};  // of later: the receiver asked for so long a pause; 0: the host chooses, growing
};

/// Where the sink works. Valid during the call only.
struct SinkPlace {
  std::string_view name;    // of the [[node.sinks]] table
  std::string_view node;    // the node's name
  std::string_view folder;  // absolute; exists, belongs to this sink alone, and stays over restarts and swaps
};

/// Threads: made on any thread; then open() and deliver() come from one thread that is the sink's own, one at a time,
/// and may block. make() must neither block nor touch anything outside (it also runs when a plugin is checked).
/// State of its own may be lost at any time: a swap, other options or a restart give a new object.
class Sink {
 public:
  virtual ~Sink() = default;
  /// Called once, before the first deliver(). Errors: it is called again after a pause, like later.
  virtual Outcome<void> open(const SinkPlace& place) = 0;
  /// Brings `events`, oldest first, to where they belong. It must return before `deadline`, which is some seconds away:
  /// a node that stops waits for it. An empty batch is done at once, even before open().
  virtual Verdict deliver(std::span<const EventView> events, Instant deadline) = 0;
};

template <>
struct KindTraits<Kind::sink> {
  using Class = Sink;
  static constexpr std::uint32_t kApi = kSinkApi;
};

}  // namespace gearbox::plugin
