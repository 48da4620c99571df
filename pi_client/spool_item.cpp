#include "spool_item.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <ctime>

#include "gearbox/base/boot.hpp"
#include "gearbox/base/text.hpp"
#include "gearbox/wire/frame.hpp"

namespace gearbox::client {

namespace json = boost::json;

namespace {

constexpr std::int64_t kFormat = 1;

std::string as_utf8(const std::string& text) {
  return is_utf8(text) ? text : escaped(text, 4096);
}

/// Reads members of one object; the first that is missing or of another type spoils the whole.
class Members {
 public:
  explicit Members(const json::object& object) : object_(object) {}
  bool good() const { return good_; }

  std::string text(std::string_view name) {
    const json::value* value = find(name);
    if (value == nullptr || !value->is_string()) return spoil<std::string>();
    return std::string(value->get_string());
  }
  std::int64_t number(std::string_view name, std::int64_t least, std::int64_t most) {
    const json::value* value = find(name);
    if (value == nullptr || !value->is_int64()) return spoil<std::int64_t>();
    const std::int64_t number = value->get_int64();
    return number < least || number > most ? spoil<std::int64_t>() : number;
  }
  const json::object* object(std::string_view name) {
    const json::value* value = find(name);
    if (value == nullptr || !value->is_object()) return spoil<const json::object*>();
    return &value->get_object();
  }
  const json::array* array(std::string_view name) {
    const json::value* value = find(name);
    if (value == nullptr || !value->is_array()) return spoil<const json::array*>();
    return &value->get_array();
  }
  bool has(std::string_view name) const { return object_.contains(name); }
  template <class T>
  T spoil() {
    good_ = false;
    return T{};
  }

 private:
  const json::value* find(std::string_view name) const { return object_.if_contains(name); }
  const json::object& object_;
  bool good_ = true;
};

constexpr std::int64_t kAny = INT64_MAX;

void read_tiles(Members& members, SpoolItem& item) {
  const json::array* inputs = members.array("tiles");
  if (inputs == nullptr) return;
  if (inputs->size() != item.submit.inputs.size()) return members.spoil<void>();
  for (std::size_t i = 0; i < inputs->size(); ++i) {
    if (!(*inputs)[i].is_array()) return members.spoil<void>();
    std::vector<std::uint32_t>& tiles = item.tiles.emplace_back();
    std::uint64_t sum = 0;
    for (const json::value& tile : (*inputs)[i].get_array()) {
      if (!tile.is_int64() || tile.get_int64() < 1 || tile.get_int64() > wire::kMaxPayloadBytes)
        return members.spoil<void>();
      tiles.push_back(static_cast<std::uint32_t>(tile.get_int64()));
      sum += tiles.back();
    }
    const bool coded = !item.submit.inputs[i].codecs.empty();
    if (coded != !tiles.empty() || (coded && sum != item.submit.inputs[i].wire_bytes)) return members.spoil<void>();
  }
}

}  // namespace

BootTime boot_now() {
  timespec time{};
  ::clock_gettime(CLOCK_BOOTTIME, &time);
  return BootTime{own_boot_id(), std::int64_t{time.tv_sec} * 1000 + time.tv_nsec / 1'000'000};
}

std::optional<milliseconds> between(const BootTime& then, const BootTime& now) {
  if (then.boot != now.boot || now.ms < then.ms) return std::nullopt;
  return milliseconds(now.ms - then.ms);
}

std::string to_json(const SpoolItem& item) {
  json::object out;
  out["format"] = kFormat;
  out["request"] = to_text(item.id);
  out["name"] = as_utf8(item.name);
  out["priority"] = item.priority;
  out["deadline_ms"] = item.deadline.count();
  out["max_age_ms"] = item.max_age.count();
  out["boot"] = item.spooled.boot;
  out["at_ms"] = item.spooled.ms;
  out["unix_ms"] = item.unix_ms;
  if (item.source) {
    out["source"] = json::object{{"path", as_utf8(item.source->path)},
                                 {"bytes", static_cast<std::int64_t>(item.source->bytes)},
                                 {"mtime_ns", item.source->mtime_ns}};
  }
  json::array inputs;
  for (const std::vector<std::uint32_t>& tiles : item.tiles)
    inputs.emplace_back(json::array(tiles.begin(), tiles.end()));
  out["tiles"] = std::move(inputs);
  // The announcement is read back with the reader of the wire, so that it is kept as text.
  out["submit"] = wire::to_json(item.submit);
  return json::serialize(out) + "\n";
}

Outcome<SpoolItem> spool_item_from(std::string_view text) {
  boost::system::error_code failed;
  const json::value value = json::parse(json::string_view(text.data(), text.size()), failed);
  if (failed || !value.is_object()) return Error{Errc::corrupt_data, "no JSON object: cut, or not an item"};
  Members members(value.get_object());
  SpoolItem item;
  if (members.number("format", 1, kFormat) != kFormat) return Error{Errc::corrupt_data, "of an unknown format"};
  const Outcome<RequestId> id = request_id_from(members.text("request"));
  item.name = members.text("name");
  item.priority = static_cast<std::uint8_t>(members.number("priority", 0, 255));
  item.deadline = milliseconds(members.number("deadline_ms", 0, kAny));
  item.max_age = milliseconds(members.number("max_age_ms", 0, kAny));
  item.spooled.boot = members.text("boot");
  item.spooled.ms = members.number("at_ms", 0, kAny);
  item.unix_ms = members.number("unix_ms", INT64_MIN, kAny);
  if (members.has("source")) {
    if (const json::object* found = members.object("source")) {
      Members source(*found);
      SourceFile file;
      file.path = source.text("path");
      file.bytes = static_cast<std::uint64_t>(source.number("bytes", 0, kAny));
      file.mtime_ns = source.number("mtime_ns", INT64_MIN, kAny);
      if (!source.good()) members.spoil<void>();
      item.source = std::move(file);
    }
  }
  if (!members.good() || !id) return Error{Errc::corrupt_data, "an item that lacks something"};
  item.id = id.value();
  Outcome<wire::Submit> submit = wire::parse<wire::Submit>(members.text("submit"));
  if (!submit) return Error{Errc::corrupt_data, "its announcement: " + submit.error().detail};
  item.submit = std::move(submit).value();
  std::uint64_t sum = 0;
  for (const wire::InputSpec& input : item.submit.inputs) sum += input.wire_bytes;
  if (sum != item.submit.wire_bytes) return Error{Errc::corrupt_data, "its announcement does not add up"};
  read_tiles(members, item);
  if (!members.good()) return Error{Errc::corrupt_data, "its tiles do not fit its inputs"};
  return item;
}

Bytes take_payload(Payload payload, SpoolItem& item) {
  item.submit = std::move(payload.submit);
  Bytes bytes;
  bytes.reserve(item.submit.wire_bytes);
  for (const wire::InputSpec& input : item.submit.inputs) {
    std::vector<std::uint32_t>& tiles = item.tiles.emplace_back();
    const std::uint64_t end = bytes.size() + input.wire_bytes;
    while (bytes.size() < end) {
      const ByteView chunk = payload.sender->next().bytes;  // of a coded input: one tile
      bytes.insert(bytes.end(), chunk.begin(), chunk.end());
      if (!input.codecs.empty()) tiles.push_back(static_cast<std::uint32_t>(chunk.size()));
    }
  }
  return bytes;
}

Outcome<Payload> payload_of(const SpoolItem& item, Bytes bytes) {
  if (bytes.size() != item.submit.wire_bytes) {
    return Error{Errc::corrupt_data, std::to_string(bytes.size()) + " bytes, " +
                                         std::to_string(item.submit.wire_bytes) + " were announced"};
  }
  Payload payload;
  payload.submit = item.submit;
  payload.stored = true;
  std::vector<link::UploadSender::Input> uploads;
  std::uint64_t at = 0;
  for (std::size_t i = 0; i < item.submit.inputs.size(); ++i) {
    const wire::InputSpec& input = item.submit.inputs[i];
    link::UploadSender::Input& upload = uploads.emplace_back();
    if (item.submit.inputs.size() == 1) {
      upload.wire = std::move(bytes);
    } else {
      const ByteView part = ByteView(bytes).subspan(at, input.wire_bytes);
      upload.wire.assign(part.begin(), part.end());
    }
    at += input.wire_bytes;
    upload.tile_bytes = item.tiles[i];
    payload.stored = payload.stored && input.codecs.empty();
  }
  payload.sender = std::make_shared<link::UploadSender>(std::move(uploads));
  if (payload.sender->digest() != item.submit.digest) {
    return Error{Errc::corrupt_data, "its bytes are not those that were spooled"};
  }
  return payload;
}

}  // namespace gearbox::client
