// gate.hpp: holds a call in its worker until a test lets it go, and tells the test that it is there: a named pipe
// beside the worker's model. A worker at the gate has it open for reading; it goes on when the writing end is closed.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

namespace gearbox::test_support {

/// The habit "pace" of echo_worker, as the first byte of a call's input.
inline constexpr unsigned char kHeld = 255;      // at the gate before it is answered
inline constexpr unsigned char kAnswered = 254;  // at the gate when its answer has been published

class Gate {
 public:
  /// `folder`: the model's. One call at a time.
  explicit Gate(const std::filesystem::path& folder) : pipe_(folder / "gate") {
    std::filesystem::create_directories(folder);
    ::mkfifo(pipe_.c_str(), 0600);  // what comes of a failure is that nobody ever gets there
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate() { open(); }

  /// Is a worker there? From then on it is held.
  bool is_reached() {
    if (writer_ < 0) writer_ = ::open(pipe_.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);  // fails while nobody reads
    return writer_ >= 0;
  }
  void open() {
    if (writer_ >= 0) ::close(writer_);
    writer_ = -1;
  }

 private:
  std::filesystem::path pipe_;
  int writer_ = -1;
};

}  // namespace gearbox::test_support
