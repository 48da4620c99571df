// portions.hpp: which events of a batch are given next: all of them while that goes well, ever fewer when it does not,
// until the one that is to blame is known.
//
// A receiver that breaks off, or answers "later", whenever one certain event is there would hold up all others. So a
// batch that was put off kTriesWhole times in a row is not given whole again: its first event is tried alone, and now
// and then another one instead. When that one gets through, the first is to blame, and has to stand aside. While
// nothing gets through (the receiver is away), nothing is changed in their order.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sinks/queue.hpp"

namespace gearbox::sinks {

/// Kept from batch to batch. One thread.
class Portions {
 public:
  static constexpr std::size_t kTriesWhole = 3;
  static constexpr std::size_t kProbeEvery = 3;  // of the tries after that, each third is another event's

  /// Places in the batch: rows from `first` on.
  struct Portion {
    std::size_t first = 0, count = 0;
  };

  /// A batch of at most `most` events; what is left of the one before is forgotten, and may be in this one.
  void begin(std::vector<Row> rows, std::size_t most);
  bool empty() const { return open_.empty(); }
  /// What to give now; not empty while the batch is not.
  Portion next() const;
  const Row& row(std::size_t place) const { return open_[place]; }

  /// The portion is over, delivered or (a single event) refused: it leaves the batch.
  std::vector<Row> take(Portion portion);
  /// The portion can never be taken as a whole: its events are given singly.
  void refused(Portion portion) { singly_ = portion.count; }
  /// It is to come again. `counts`: the receiver did not ask for a pause, so an event may be the reason.
  void put_off(Portion portion, bool counts);
  /// After take(): the event that is to blame, when that is known now; it leaves the batch.
  std::optional<Row> take_guilty();
  /// The batch has less than it may have, and all that was tried of it failed: one with newer events may do better.
  bool wants_more() const { return failures_ >= kTriesWhole && open_.size() < most_; }
  /// Another receiver, or other options: what was tried says nothing any more.
  void begin_anew();

 private:
  bool is_probe_next() const;
  std::deque<Row> open_;
  std::size_t most_ = 1, size_ = 1;  // of a batch; of the next portion
  std::size_t singly_ = 0;           // so many from the front on
  std::size_t failures_ = 0;         // in a row
  std::size_t probes_ = 0;
  std::optional<std::int64_t> suspect_;           // it was put off alone
  std::optional<std::int64_t> got_through_past_;  // the suspect that others went past
};

}  // namespace gearbox::sinks
