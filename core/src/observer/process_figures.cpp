#include "observer/process_figures.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <string>

namespace gearbox::observer {

std::optional<ProcessFigures> read_stat(std::string_view text, long ticks_per_second, long page_bytes) {
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string_view::npos || ticks_per_second <= 0) return std::nullopt;
  text.remove_prefix(name_end + 1);
  // Fields from the third on: state is 3, utime 14, stime 15, starttime 22, rss (pages) 24.
  constexpr std::size_t kFirst = 3;
  std::array<std::uint64_t, 25> fields{};
  std::size_t number = kFirst;
  while (number < fields.size()) {
    const std::size_t begin = text.find_first_not_of(' ');
    if (begin == std::string_view::npos) return std::nullopt;
    const std::size_t end = std::min(text.find_first_of(" \n", begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    // Some are negative and of no interest here.
    std::from_chars(word.data(), word.data() + word.size(), fields[number]);
    text.remove_prefix(end);
    ++number;
  }
  ProcessFigures figures;
  figures.started = fields[22];
  figures.cpu = std::chrono::nanoseconds((fields[14] + fields[15]) *
                                         (1'000'000'000ULL / static_cast<std::uint64_t>(ticks_per_second)));
  figures.resident_bytes = static_cast<std::int64_t>(fields[24]) * page_bytes;
  return figures;
}

std::optional<ProcessFigures> figures_of(std::int64_t pid) {
  if (pid <= 0) return std::nullopt;
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return std::nullopt;
  std::array<char, 1024> text;
  const ssize_t bytes = ::read(descriptor, text.data(), text.size());
  ::close(descriptor);
  if (bytes <= 0) return std::nullopt;
  static const long ticks = ::sysconf(_SC_CLK_TCK);
  static const long page = ::sysconf(_SC_PAGESIZE);
  return read_stat(std::string_view(text.data(), static_cast<std::size_t>(bytes)), ticks, page);
}

}  // namespace gearbox::observer
