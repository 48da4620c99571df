// progress.hpp: one line on standard error while uploads run; nothing when that is no terminal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "gearbox/base/clock.hpp"

namespace gearbox::client {

/// What there is to show, over all requests of one run.
struct Tally {
  std::uint64_t to_upload = 0;  // of the requests begun so far
  std::uint64_t uploaded = 0;
  std::size_t requests = 0;
  std::size_t finished = 0;
  std::size_t waiting = 0;  // uploaded, no result yet
};

/// The line without control characters, at most `columns` wide.
std::string progress_line(const Tally& tally, std::size_t columns);

class ProgressBar {
 public:
  explicit ProgressBar(bool shown) : shown_(shown) {}
  void draw(const Tally& tally);
  /// Clears the line, for other output to take its place.
  void clear();
  bool shown() const { return shown_; }

 private:
  bool shown_;
  bool drawn_ = false;
};

}  // namespace gearbox::client
