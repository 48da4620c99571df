// book.hpp: the traces of the last requests, bounded in number and in bytes. One strand.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <string_view>

#include "explain/trace.hpp"
#include "gearbox/base/outcome.hpp"

namespace gearbox::explain {

class Book {
 public:
  /// Of ended requests; the oldest are forgotten first. Open ones are bounded by their number.
  static constexpr std::size_t kMaxBytes = 8 << 20;

  /// `limit`: how many requests are remembered; 0: none.
  explicit Book(std::size_t limit) : limit_(limit) {}
  /// From now on.
  void limit(std::size_t limit);

  /// A new request; null when nothing is remembered. The oldest is forgotten when there are too many.
  TracePtr begin(const RequestKey& key);
  /// One that is not remembered: for whoever wants to know of it at its end.
  static TracePtr unkept(const RequestKey& key);
  /// It is over, and grows no more.
  void end(Trace& trace);
  /// The digest as one shared text, however many requests are announced under it.
  std::shared_ptr<const std::string> digest(const std::string& digest);

  /// By its id, or the first digits of it; of several with the same id the latest. Errors: bad_input (not 4 to 32
  /// hexadecimal digits, more than one id begins so), not_found.
  Outcome<TracePtr> find(std::string_view request) const;

  std::size_t size() const { return traces_.size(); }
  std::size_t bytes() const { return bytes_; }

 private:
  void trim();

  std::size_t limit_;
  std::deque<TracePtr> traces_;  // oldest first
  std::size_t bytes_ = 0;
  std::shared_ptr<const std::string> digest_;
};

}  // namespace gearbox::explain
