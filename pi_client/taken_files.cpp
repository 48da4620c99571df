#include "taken_files.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string_view>
#include <vector>

#include "outbox.hpp"

namespace gearbox::client {

namespace json = boost::json;

namespace {

constexpr std::size_t kMaxLine = 64 << 10;  // a path has 4 KiB, and each byte may be escaped twice

std::string line_of(const SourceFile& source) {
  return json::serialize(json::object{
      {"path", source.path}, {"bytes", static_cast<std::int64_t>(source.bytes)}, {"mtime_ns", source.mtime_ns}});
}

std::optional<SourceFile> source_from(std::string_view line) {
  boost::system::error_code failed;
  const json::value value = json::parse(json::string_view(line.data(), line.size()), failed);
  if (failed || !value.is_object()) return std::nullopt;
  const json::object& object = value.get_object();
  const json::value* path = object.if_contains("path");
  const json::value* bytes = object.if_contains("bytes");
  const json::value* time = object.if_contains("mtime_ns");
  if (path == nullptr || bytes == nullptr || time == nullptr) return std::nullopt;
  if (!path->is_string() || !bytes->is_int64() || !time->is_int64()) return std::nullopt;
  return SourceFile{std::string(path->get_string()), static_cast<std::uint64_t>(bytes->get_int64()), time->get_int64()};
}

}  // namespace

Outcome<TakenFiles> TakenFiles::open(std::filesystem::path file, Look look, TakenBounds bounds) {
  TakenFiles taken(std::move(file), std::move(look), bounds);
  std::error_code failed;
  if (!std::filesystem::exists(taken.file_, failed)) return taken;
  BOOST_OUTCOME_TRY(taken.read());
  BOOST_OUTCOME_TRY(taken.write_anew());
  return taken;
}

/// Line by line: the file may have been left to grow by an earlier version.
Outcome<void> TakenFiles::read() {
  const Descriptor file(::open(file_.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return file_error(file_, errno);
  std::string piece(64 << 10, '\0');
  std::string line;
  for (;;) {
    const ssize_t got = ::read(file.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return file_error(file_, errno);
    if (got == 0) return done();  // a last line without its end was cut
    std::string_view rest(piece.data(), static_cast<std::size_t>(got));
    while (!rest.empty()) {
      const std::size_t end = rest.find('\n');
      if (line.size() <= kMaxLine) line += rest.substr(0, end);  // more is no line of ours, and is skipped
      if (end == std::string_view::npos) break;
      if (std::optional<SourceFile> source = source_from(line)) {
        const std::string path = source->path;
        taken_[path] = Taken{std::move(*source), next_line_++};
      }
      line.clear();
      rest.remove_prefix(end + 1);
    }
  }
}

Outcome<void> TakenFiles::write_anew() {
  std::vector<std::uint64_t> missing;
  std::vector<const Taken*> kept;
  for (auto each = taken_.begin(); each != taken_.end();) {
    const FileNow now = look_(each->second.source);
    if (now == FileNow::missing) missing.push_back(each->second.line);
    each = now == FileNow::other ? taken_.erase(each) : std::next(each);
  }
  if (missing.size() > bounds_.missing) {
    std::sort(missing.begin(), missing.end());
    missing.resize(missing.size() - bounds_.missing);  // the oldest
    std::erase_if(taken_, [&](const auto& known) {
      return std::binary_search(missing.begin(), missing.end(), known.second.line);
    });
  }
  for (const auto& [path, taken] : taken_) kept.push_back(&taken);
  std::sort(kept.begin(), kept.end(), [](const Taken* one, const Taken* two) { return one->line < two->line; });
  std::string text;
  for (const Taken* each : kept) text += line_of(each->source) + "\n";
  BOOST_OUTCOME_TRY(write_durably(file_, view_of(text)));
  lines_ = lived_ = kept.size();
  return sync_folder(file_.parent_path());
}

bool TakenFiles::has(const SourceFile& source) const {
  const auto found = taken_.find(source.path);
  return found != taken_.end() && found->second.source == source;
}

Outcome<void> TakenFiles::add(const SourceFile& source) {
  taken_[source.path] = Taken{source, next_line_++};
  BOOST_OUTCOME_TRY(Outbox(file_).append(line_of(source)));
  if (++lines_ < std::max(bounds_.rewrite, 2 * lived_)) return done();
  lived_ = lines_;  // if it cannot be written anew now, not with each line again: nothing is lost with the long one
  const Outcome<void> written = write_anew();
  if (!written && written.error().code != Errc::no_space) return written;
  return done();
}

}  // namespace gearbox::client
