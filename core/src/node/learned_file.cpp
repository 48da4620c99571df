#include "node/learned_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <ctime>
#include <string>
#include <string_view>
#include <system_error>

#include "gearbox/base/boot.hpp"
#include "gearbox/base/text.hpp"
#include "gearbox/toml/document.hpp"

namespace gearbox::node {

namespace {

// Then the boot, central's key, its clock, with blanks between; a line with the message.
constexpr std::string_view kFormat = "gearbox learned 2 ";
constexpr std::string_view kFormatWithoutKey = "gearbox learned 1 ";
constexpr std::size_t kMostBytes = 128 * 1024;

std::int64_t boot_clock_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

Error failed(const char* what, const std::filesystem::path& file, int number) {
  return Error{number == ENOSPC ? Errc::no_space : Errc::io_error,
               std::string(what) + " " + escaped(file.string()) + ": " + std::generic_category().message(number)};
}

}  // namespace

Outcome<void> save_learned(const std::filesystem::path& file, const CentralKey& central,
                           const wire::ReportOk& learned) {
  const std::string boot = own_boot_id();
  if (boot.empty()) return done();  // nobody could tell whether it still holds
  const std::string text = std::string(kFormat) + boot + " " + to_hex(central) + " " + std::to_string(boot_clock_ms()) +
                           "\n" + wire::to_json(learned);
  std::filesystem::path fresh = file;
  fresh += ".new";
  const int descriptor = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor < 0) return failed("cannot make", fresh, errno);
  // Not synced: after a power cut it is of another boot, and of no use.
  const ssize_t written = ::write(descriptor, text.data(), text.size());
  const int number = written < 0 ? errno : ENOSPC;
  ::close(descriptor);
  if (written != static_cast<ssize_t>(text.size())) return failed("cannot write", fresh, number);
  if (::rename(fresh.c_str(), file.c_str()) != 0) return failed("cannot rename to", file, errno);
  return done();
}

Outcome<wire::ReportOk> load_learned(const std::filesystem::path& file, const std::vector<CentralKey>& centrals) {
  BOOST_OUTCOME_TRY(const std::string text, toml::read_file(file, kMostBytes));
  if (text.starts_with(kFormatWithoutKey)) {
    return Error{Errc::not_found, "what was learned does not tell from which central"};
  }
  const Error damaged{Errc::corrupt_data, escaped(file.string()) + " is damaged"};
  const std::size_t line = text.find('\n');
  if (line == std::string::npos || !text.starts_with(kFormat)) return damaged;
  const std::string_view head = std::string_view(text).substr(0, line).substr(kFormat.size());
  const std::size_t after_boot = head.find(' ');
  const std::size_t after_key = head.rfind(' ');
  if (after_boot == std::string_view::npos || after_key == after_boot) return damaged;
  if (head.substr(0, after_boot) != own_boot_id()) {
    return Error{Errc::not_found, "what was learned is of another boot of this host"};
  }
  CentralKey central{};
  if (!from_hex(head.substr(after_boot + 1, after_key - after_boot - 1), central)) return damaged;
  if (std::find(centrals.begin(), centrals.end(), central) == centrals.end()) {
    return Error{Errc::wrong_server_key, "what was learned is of another central: it is not used"};
  }
  const std::string_view clock = head.substr(after_key + 1);
  std::int64_t then = 0;
  const auto [end, wrong] = std::from_chars(clock.data(), clock.data() + clock.size(), then);
  if (wrong != std::errc() || end != clock.data() + clock.size() || then > boot_clock_ms()) return damaged;
  auto learned = wire::parse<wire::ReportOk>(std::string_view(text).substr(line + 1));
  if (!learned) return damaged;
  learned.value().central_unix_ms += boot_clock_ms() - then;
  return learned;
}

}  // namespace gearbox::node
