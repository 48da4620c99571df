#include "supervisor/process_record.hpp"

#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>

namespace gearbox::supervisor {

namespace json = boost::json;

namespace {

constexpr std::size_t kMaxRecordBytes = 64 * 1024;

std::string read_small(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::string text(kMaxRecordBytes, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  return text;
}

std::string text_member(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : std::string();
}

}  // namespace

Outcome<std::uint64_t> start_time_of(int pid) {
  const std::string text = read_small("/proc/" + std::to_string(pid) + "/stat");
  // "PID (NAME) STATE ...": the name may hold anything, so counting starts behind its last parenthesis.
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos || name_end + 2 >= text.size()) {
    return Error{Errc::not_found, "no process " + std::to_string(pid)};
  }
  if (text[name_end + 2] == 'Z' || text[name_end + 2] == 'X') {
    return Error{Errc::not_found, "process " + std::to_string(pid) + " has ended"};
  }
  std::size_t at = name_end + 2;
  for (int field = 3; field < 22 && at != std::string::npos; ++field) {
    at = text.find(' ', at);
    if (at != std::string::npos) ++at;
  }
  std::uint64_t ticks = 0;
  if (at == std::string::npos ||
      std::from_chars(text.data() + at, text.data() + text.size(), ticks).ec != std::errc()) {
    return Error{Errc::not_found, "process " + std::to_string(pid) + ": no start time"};
  }
  return ticks;
}

bool is_stopped(int pid) {
  const std::string text = read_small("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos || name_end + 2 >= text.size()) return false;
  return text[name_end + 2] == 'T' || text[name_end + 2] == 't';
}

std::string executable_of(int pid) {
  std::error_code error;
  std::string target = std::filesystem::read_symlink("/proc/" + std::to_string(pid) + "/exe", error).string();
  constexpr std::string_view kDeleted = " (deleted)";
  if (target.ends_with(kDeleted)) target.resize(target.size() - kDeleted.size());
  return target;
}

bool ends_soon(int pid) {
  constexpr int kWaitMs = 2000;
  constexpr int kSeenWithinMs = 200;  // a signal that was just sent may not have been looked at
  const int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (pidfd < 0) return errno == ESRCH;
  pollfd end{pidfd, POLLIN, 0};
  bool ended = ::poll(&end, 1, kSeenWithinMs) == 1;
  // What ends gives its program back first.
  if (!ended && executable_of(pid).empty()) ended = ::poll(&end, 1, kWaitMs) == 1;
  ::close(pidfd);
  return ended;
}

bool still_runs(const ProcessRecord& record) {
  if (record.pid <= 1 || record.boot_id != own_boot_id()) return false;
  const Outcome<std::uint64_t> started = start_time_of(record.pid);
  if (!started || started.value() != record.start_time) return false;
  struct stat owner {};
  if (::stat(("/proc/" + std::to_string(record.pid)).c_str(), &owner) != 0 || owner.st_uid != ::geteuid()) return false;
  return !record.exe.empty() && executable_of(record.pid) == record.exe;
}

Outcome<void> write_record(const std::filesystem::path& file, const ProcessRecord& record) {
  json::array argv;
  for (const std::string& word : record.argv) argv.emplace_back(word);
  const json::object object{{"role", record.role},       {"pid", record.pid},       {"start_time", record.start_time},
                            {"boot_id", record.boot_id}, {"argv", std::move(argv)}, {"exe", record.exe},
                            {"order", record.order},     {"cgroup", record.cgroup}};
  const std::filesystem::path beside = file.string() + ".new";
  {
    std::ofstream out(beside, std::ios::binary | std::ios::trunc);
    out << json::serialize(object) << '\n';
    out.flush();
    if (!out) return Error{Errc::io_error, beside.string() + ": cannot be written: " + std::strerror(errno)};
  }
  std::error_code error;
  std::filesystem::rename(beside, file, error);
  if (error) return Error{Errc::io_error, file.string() + ": " + error.message()};
  return done();
}

Outcome<ProcessRecord> read_record(const std::filesystem::path& file) {
  const std::string text = read_small(file);
  boost::system::error_code error;
  const json::value value = json::parse(text, error);
  if (error || !value.is_object()) return Error{Errc::corrupt_data, file.string() + ": not a process record"};
  const json::object& object = value.get_object();
  ProcessRecord record;
  record.role = text_member(object, "role");
  record.boot_id = text_member(object, "boot_id");
  record.exe = text_member(object, "exe");
  record.order = text_member(object, "order");
  record.cgroup = text_member(object, "cgroup");
  boost::system::error_code bad;
  if (const json::value* pid = object.if_contains("pid")) record.pid = pid->to_number<int>(bad);
  if (const json::value* ticks = object.if_contains("start_time"); ticks != nullptr && !bad) {
    record.start_time = ticks->to_number<std::uint64_t>(bad);
  }
  if (const json::value* argv = object.if_contains("argv"); argv != nullptr && argv->is_array()) {
    for (const json::value& word : argv->get_array()) {
      if (word.is_string()) record.argv.emplace_back(word.get_string());
    }
  }
  if (bad || record.role.empty() || record.pid <= 0) {
    return Error{Errc::corrupt_data, file.string() + ": not a process record"};
  }
  return record;
}

}  // namespace gearbox::supervisor
