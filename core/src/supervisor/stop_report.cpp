// How a stop went, told beyond the end of the supervisor: it cannot answer any more when the last one has ended.
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "supervisor/stopping.hpp"

namespace gearbox::supervisor {

namespace json = boost::json;

std::filesystem::path stop_report_file(const config::StateDir& state) {
  return state.root / "last_stop.json";
}

Outcome<void> write_stop_report(const std::filesystem::path& file, int pid, const StopReport& report) {
  const json::array killed(report.killed.begin(), report.killed.end());
  const json::object out{
      {"pid", pid},       {"in_order", report.in_order()}, {"failed", report.failed}, {"kept", report.kept},
      {"killed", killed}, {"hurried", report.hurried}};
  // Beside, and renamed: a reader never sees half of it.
  const std::filesystem::path beside = file.string() + ".new";
  {
    std::ofstream stream(beside, std::ios::trunc);
    stream << json::serialize(out) << '\n';
    stream.flush();
    if (!stream) return Error{Errc::io_error, beside.string() + ": cannot be written"};
  }
  std::error_code error;
  std::filesystem::rename(beside, file, error);
  if (error) return Error{Errc::io_error, file.string() + ": " + error.message()};
  return done();
}

Outcome<WrittenStop> read_stop_report(const std::filesystem::path& file) {
  std::ifstream stream(file);
  if (!stream) return Error{Errc::io_error, file.string() + ": cannot be read"};
  std::ostringstream text;
  text << stream.rdbuf();
  boost::system::error_code bad;
  const json::value value = json::parse(text.str(), bad);
  const Error corrupt{Errc::corrupt_data, file.string() + ": is no report of a stop"};
  if (bad || !value.is_object()) return corrupt;
  const json::object& object = value.get_object();
  const auto number = [&](std::string_view key, std::uint64_t& into) {
    const json::value* const found = object.if_contains(key);
    boost::system::error_code failure;
    if (found == nullptr || !found->is_number()) return false;
    into = found->to_number<std::uint64_t>(failure);
    return !failure;
  };
  WrittenStop out;
  std::uint64_t pid = 0;
  const json::value* const killed = object.if_contains("killed");
  const json::value* const hurried = object.if_contains("hurried");
  const bool whole = number("pid", pid) && pid <= INT32_MAX && number("failed", out.report.failed) &&
                     number("kept", out.report.kept) && killed != nullptr && killed->is_array() && hurried != nullptr &&
                     hurried->is_bool();
  if (!whole) return corrupt;
  out.pid = static_cast<int>(pid);
  out.report.hurried = hurried->get_bool();
  for (const json::value& role : killed->get_array()) {
    if (!role.is_string()) return corrupt;
    out.report.killed.emplace_back(role.get_string());
  }
  return out;
}

}  // namespace gearbox::supervisor
