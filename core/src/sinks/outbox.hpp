// outbox.hpp: the way of events to their sinks: handed over by the node's strand, which never waits; written into a
// queue on disk by a thread of the outbox; given to each sink by a thread of that sink's own.
//
// Bounded: what is handed over and not yet written (kHandOverEvents, kHandOverBytes: beyond that an event is dropped
// and counted, which takes a disk that stands still), and per sink what waits for it (max_events, max_bytes: beyond
// that an event goes into the sink's dead-letter file).
//
// An event is safe from when it is written, some milliseconds after it was put. With a journal nothing is lost in
// between: the journal keeps the end of a request until forget() has been through here, behind the event; and what it
// holds at a start without an event of its own here is put once more.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gearbox/base/ids.hpp"
#include "gearbox/base/outcome.hpp"
#include "sinks/event.hpp"
#include "sinks/setup.hpp"

namespace gearbox::sinks {

inline constexpr std::size_t kHandOverEvents = 4096;
inline constexpr std::uint64_t kHandOverBytes = 64ULL << 20;

struct SinkFacts {
  std::string name, plugin;
  std::uint64_t queued = 0, queued_bytes = 0;  // on disk
  std::uint64_t dead_letters = 0;              // of this process
  LaneCounters lane;
};

struct Facts {
  std::vector<SinkFacts> sinks;
  std::uint64_t handed_over = 0;  // events that are not written yet
  std::uint64_t dropped = 0;      // events that could not be handed over, or neither queued nor made a dead letter
  std::string last_error;         // of the disk; empty when the last commit went well
  /// Events of sinks that are not configured any more, which could not be made dead letters at the start: by name.
  std::map<std::string, std::uint64_t> stranded;
  std::filesystem::path set_aside;  // a damaged queue was found at the start and moved there; empty: none was
};

class Outbox {
 public:
  struct Setup {
    std::filesystem::path queue_folder;  // for the queue
    std::filesystem::path sinks_folder;  // for one folder for each sink
    std::string node;
    std::string stored_in;  // for the events: the folder of the store; empty: there is none
    std::vector<SinkSetup> sinks;
    /// The journal lets go of a request; called from any thread. Without it no journal is there, and an event is
    /// forgotten when it is delivered.
    std::function<void(const RequestKey&)> let_go;
  };
  /// Opens or makes the queue, and begins to deliver what is in it. A damaged one is set aside; events for sinks that
  /// are not configured any more become dead letters, or stay when their file cannot be written: see Facts::stranded.
  /// Errors: io_error, no_space.
  static Outcome<std::unique_ptr<Outbox>> open(Setup setup);
  /// Writes what was handed over; waits a short while for deliveries under way.
  ~Outbox();

  /// Does any sink want events of this task? Any thread.
  bool wants(std::string_view task) const;
  /// Never blocks. Any thread.
  void put(Event event);
  /// The request's end need not be known any more: setup.let_go is called when its event is safe; at once when none is
  /// on its way. Any thread.
  void forget(const RequestKey& key);
  /// Requests whose events were in the queue when it was opened, and that were not forgotten.
  const std::vector<RequestKey>& known() const;
  /// Other options, bounds and plugin builds from now on; sinks that are not there from the start are not looked at.
  void use(std::vector<SinkSetup> sinks);
  Facts facts() const;

 private:
  struct State;
  explicit Outbox(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace gearbox::sinks
