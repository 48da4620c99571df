#include "capture.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "camera.hpp"
#include "watch_folder.hpp"

namespace gearbox::client {

StopBell::StopBell() : bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (bell_.get() < 0) std::abort();  // no descriptor left at the start of a process
}

void StopBell::stop() {
  const std::uint64_t one = 1;
  // It only fails when the bell rings already.
  [[maybe_unused]] const ssize_t rung = ::write(bell_.get(), &one, sizeof one);
}

bool StopBell::stopped() const {
  pollfd asked{bell_.get(), POLLIN, 0};
  return ::poll(&asked, 1, 0) == 1;
}

bool StopBell::wait(Instant until, int also) const {
  for (;;) {
    pollfd asked[2] = {{bell_.get(), POLLIN, 0}, {also, POLLIN, 0}};
    const auto left =
        std::chrono::duration_cast<milliseconds>(elapsed(Clock::now(), until) + microseconds(999)).count();
    const int ready = ::poll(asked, 2, static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000)));
    if (asked[0].revents != 0 && ready > 0) return false;
    if (ready > 0 || Clock::now() >= until) return true;
  }
}

Outcome<std::unique_ptr<Capture>> make_capture(const SpoolOptions& options, Spool* spool, CaptureEnds ends) {
  if (!options.watch.folder.empty()) return WatchFolder::create(options.watch, spool, std::move(ends));
  const std::string& device = options.camera.device;
  if (device.empty()) return std::unique_ptr<Capture>();
  constexpr std::string_view kFile = "file:";
  const bool from_files = device.rfind(kFile, 0) == 0;
  auto source = from_files ? make_file_source(device.substr(kFile.size()))
                           : make_v4l2_source(device, options.camera.width, options.camera.height);
  CameraPace pace;
  pace.every = options.camera.every;
  return make_camera(std::move(source), pace, std::move(ends));
}

}  // namespace gearbox::client
