#include "progress.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace gearbox::client {

std::string progress_line(const Tally& tally, std::size_t columns) {
  constexpr std::size_t kBar = 24;
  const double share = tally.to_upload == 0
                           ? 0.0
                           : std::min(1.0, static_cast<double>(tally.uploaded) / static_cast<double>(tally.to_upload));
  const auto filled = static_cast<std::size_t>(share * static_cast<double>(kBar));
  char numbers[128];
  std::snprintf(numbers, sizeof numbers, "] %3.0f %%  %.1f of %.1f MB up, %zu of %zu done", share * 100.0,
                static_cast<double>(tally.uploaded) / 1e6, static_cast<double>(tally.to_upload) / 1e6, tally.finished,
                tally.requests);
  std::string line = "[" + std::string(filled, '#') + std::string(kBar - filled, '-') + numbers;
  if (tally.waiting > 0) line += ", waiting for " + std::to_string(tally.waiting);
  return line.substr(0, columns);
}

void ProgressBar::draw(const Tally& tally) {
  if (!shown_) return;
  winsize size{};
  const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  const std::string line = progress_line(tally, known ? size.ws_col - 1U : 79U);
  std::fprintf(stderr, "\r\033[K%s", line.c_str());
  std::fflush(stderr);
  drawn_ = true;
}

void ProgressBar::clear() {
  if (!drawn_) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
  drawn_ = false;
}

}  // namespace gearbox::client
