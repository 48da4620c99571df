#include "session/quarantine_file.hpp"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>

#include "gearbox/base/text.hpp"

namespace gearbox::session {

namespace fs = std::filesystem;
namespace json = boost::json;

namespace {

constexpr std::size_t kMostBytes = 4 << 20;

json::object object_of(const Quarantined& held) {
  json::array ends;
  for (const std::string& end : held.deadly.ends) ends.push_back(json::value(escaped(end, 4096)));
  return json::object{{"device", to_text(held.key.device)},
                      {"request", to_text(held.key.id)},
                      {"user", held.user},
                      {"task", held.task},
                      {"step", held.deadly.step},
                      {"model", held.deadly.model},
                      {"version", held.deadly.version},
                      {"ends", std::move(ends)},
                      {"reason", escaped(held.reason, 4096)},
                      {"input_bytes", held.input_bytes},
                      {"since_unix_ms", held.since_unix_ms}};
}

/// Throws what Boost.JSON throws for members that are not there or of another type.
Quarantined quarantined_of(const json::object& from) {
  const auto text = [&](const char* key) { return std::string(from.at(key).as_string()); };
  Quarantined held;
  if (!from_hex(text("device"), held.key.device.bytes) || !from_hex(text("request"), held.key.id.bytes)) {
    throw std::invalid_argument("a key is no key");
  }
  held.user = text("user");
  held.task = text("task");
  held.deadly.step = text("step");
  held.deadly.model = text("model");
  held.deadly.version = text("version");
  for (const json::value& end : from.at("ends").as_array()) held.deadly.ends.emplace_back(end.as_string());
  held.reason = text("reason");
  held.input_bytes = from.at("input_bytes").to_number<std::uint64_t>();
  held.since_unix_ms = from.at("since_unix_ms").to_number<std::int64_t>();
  return held;
}

Outcome<std::deque<Quarantined>> parse(const std::string& text) {
  try {
    std::deque<Quarantined> all;
    const json::value whole = json::parse(text);
    for (const json::value& each : whole.as_object().at("requests").as_array()) {
      all.push_back(quarantined_of(each.as_object()));
      if (all.size() > Quarantine::kMost) throw std::length_error("it holds too many");
    }
    return all;
  } catch (const std::exception& wrong) {
    return Error{Errc::corrupt_data, wrong.what()};
  }
}

Outcome<void> failed(const fs::path& file, int why) {
  return Error{why == ENOSPC ? Errc::no_space : Errc::io_error, file.string() + ": " + std::strerror(why)};
}

}  // namespace

std::deque<Quarantined> read_quarantine(const fs::path& file) {
  std::error_code failure;
  if (!fs::exists(file, failure)) return {};
  std::string text;
  if (fs::file_size(file, failure) <= kMostBytes) {
    std::ifstream in(file, std::ios::binary);
    text.assign(std::istreambuf_iterator<char>(in), {});
  }
  Outcome<std::deque<Quarantined>> all = parse(text);
  if (all) return std::move(all).value();
  const fs::path aside = file.string() + ".damaged";
  fs::rename(file, aside, failure);
  spdlog::warn("event=quarantine_damaged reason=\"{}\" set_aside={}", escaped(all.error().detail), aside.string());
  return {};
}

Outcome<void> write_quarantine(const fs::path& file, const std::deque<Quarantined>& held) {
  json::array all;
  for (const Quarantined& each : held) all.push_back(object_of(each));
  const std::string text = json::serialize(json::object{{"requests", std::move(all)}});
  const fs::path beside = file.string() + ".new";
  const int out = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (out < 0) return failed(beside, errno);
  errno = EIO;  // of a write that is cut short
  const bool written =
      ::write(out, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && ::fdatasync(out) == 0;
  const int why = errno;
  ::close(out);
  if (!written) return failed(beside, why);
  if (::rename(beside.c_str(), file.c_str()) != 0) return failed(file, errno);
  return done();
}

}  // namespace gearbox::session
