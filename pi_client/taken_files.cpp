#include "taken_files.hpp"

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <optional>
#include <string_view>

#include "outbox.hpp"

namespace gearbox::client {

namespace json = boost::json;

namespace {

constexpr std::uint64_t kMaxBytes = 256ULL << 20;

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

Outcome<TakenFiles> TakenFiles::open(std::filesystem::path file,
                                     const std::function<bool(const SourceFile&)>& still_there) {
  TakenFiles taken(std::move(file));
  std::error_code failed;
  if (!std::filesystem::exists(taken.file_, failed)) return taken;
  BOOST_OUTCOME_TRY(const Bytes text, read_whole(taken.file_, kMaxBytes));
  std::string kept;
  std::string_view rest = text_of(text);
  while (!rest.empty()) {
    const std::size_t end = rest.find('\n');
    std::optional<SourceFile> source = source_from(rest.substr(0, end));
    if (source && still_there(*source)) {
      kept += line_of(*source) + "\n";
      taken.taken_[source->path] = std::move(*source);
    }
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  BOOST_OUTCOME_TRY(write_durably(taken.file_, view_of(kept)));
  BOOST_OUTCOME_TRY(sync_folder(taken.file_.parent_path()));
  return taken;
}

bool TakenFiles::has(const SourceFile& source) const {
  const auto found = taken_.find(source.path);
  return found != taken_.end() && found->second == source;
}

Outcome<void> TakenFiles::add(const SourceFile& source) {
  taken_[source.path] = source;
  return Outbox(file_).append(line_of(source));
}

}  // namespace gearbox::client
