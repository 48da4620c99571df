#include "gearbox/base/stop_point.hpp"

#if defined(GEARBOX_STOP_POINTS) && GEARBOX_STOP_POINTS
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace gearbox {

void stop_point(std::string_view name) {
  static const std::string wanted = [] {
    const char* text = std::getenv("GEARBOX_STOP_AT");
    return std::string(text == nullptr ? "" : text);
  }();
  const bool known =
      std::any_of(kStopPoints.begin(), kStopPoints.end(), [&](const StopPoint& point) { return point.name == name; });
  if (!known) {
    std::fprintf(stderr, "stop point %.*s is not in kStopPoints\n", static_cast<int>(name.size()), name.data());
    std::abort();
  }
  if (wanted.empty()) return;
  const std::size_t colon = wanted.rfind(':');
  if (std::string_view(wanted).substr(0, colon) != name) return;
  const int at = colon == std::string::npos ? 1 : std::atoi(wanted.c_str() + colon + 1);
  static std::atomic<int> reached{0};
  if (++reached == at) std::raise(SIGSTOP);
}

}  // namespace gearbox
#endif
