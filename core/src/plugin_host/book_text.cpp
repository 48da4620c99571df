#include "plugin_host/book_text.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "gearbox/base/text.hpp"

namespace gearbox::plugin_host {

namespace json = boost::json;

namespace {

constexpr int kBookVersion = 1;
constexpr std::size_t kMaxVersionBytes = 64;
constexpr std::size_t kMaxReasonBytes = 512;

bool is_checksum(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

template <class Entry>
bool is_one(const Entry& entry) {
  return is_name(entry.kind) && is_name(entry.name) && is_checksum(entry.checksum);
}

template <class Entry>
json::object to_object(const Entry& entry) {
  return json::object{{"kind", entry.kind},
                      {"name", entry.name},
                      {"version", escaped(entry.version, kMaxVersionBytes)},
                      {"checksum", entry.checksum},
                      {"since_unix_ms", entry.since_unix_ms}};
}

std::string text_member(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : std::string();
}

template <class Entry>
void fill(Entry& entry, const json::object& object) {
  entry.kind = text_member(object, "kind");
  entry.name = text_member(object, "name");
  entry.version = escaped(text_member(object, "version"), kMaxVersionBytes);
  entry.checksum = text_member(object, "checksum");
  boost::system::error_code error;
  if (const json::value* since = object.if_contains("since_unix_ms")) {
    const auto number = since->to_number<std::int64_t>(error);
    if (!error) entry.since_unix_ms = number;
  }
}

}  // namespace

bool makes_sense(const Build& build) {
  return is_one(build);
}

bool makes_sense(const Bar& bar) {
  return is_one(bar);
}

bool makes_sense(const Ruling& ruling) {
  return is_one(ruling) && is_checksum(ruling.pair);
}

std::string text_of_book(const BuildBook& book) {
  json::array builds;
  for (const Build& build : book.builds) builds.push_back(to_object(build));
  json::array bars;
  for (const Bar& bar : book.bars) {
    json::object one = to_object(bar);
    one["reason"] = escaped(bar.reason, kMaxReasonBytes);
    bars.push_back(std::move(one));
  }
  json::array rulings;
  for (const Ruling& ruling : book.rulings) {
    json::object one = to_object(ruling);
    one["pair"] = ruling.pair;
    one["passes"] = ruling.passes;
    one["reason"] = escaped(ruling.reason, kMaxReasonBytes);
    rulings.push_back(std::move(one));
  }
  const json::object all{{"gearbox_book", kBookVersion},
                         {"builds", std::move(builds)},
                         {"bars", std::move(bars)},
                         {"gate", std::move(rulings)}};
  return json::serialize(all) + "\n";
}

std::optional<BuildBook> book_of_text(std::string_view text) {
  boost::system::error_code error;
  const json::value parsed = json::parse(json::string_view(text.data(), text.size()), error);
  const json::object* object = error ? nullptr : parsed.if_object();
  const json::value* version = object == nullptr ? nullptr : object->if_contains("gearbox_book");
  if (version == nullptr || !version->is_int64() || version->get_int64() != kBookVersion) return std::nullopt;
  BuildBook book;
  const auto each = [&](std::string_view key, auto&& take) {
    const json::value* list = object->if_contains(key);
    if (list == nullptr || !list->is_array()) return;
    for (const json::value& value : list->get_array()) {
      if (value.is_object()) take(value.get_object());
    }
  };
  each("builds", [&](const json::object& one) {
    Build build;
    fill(build, one);
    if (makes_sense(build) && book.builds.size() < kMostBuilds) book.builds.push_back(std::move(build));
  });
  each("bars", [&](const json::object& one) {
    Bar bar;
    fill(bar, one);
    bar.reason = escaped(text_member(one, "reason"), kMaxReasonBytes);
    if (makes_sense(bar) && book.bars.size() < kMostBars) book.bars.push_back(std::move(bar));
  });
  each("gate", [&](const json::object& one) {
    Ruling ruling;
    fill(ruling, one);
    ruling.pair = text_member(one, "pair");
    const json::value* passes = one.if_contains("passes");
    ruling.passes = passes != nullptr && passes->is_bool() && passes->get_bool();
    ruling.reason = escaped(text_member(one, "reason"), kMaxReasonBytes);
    if (makes_sense(ruling) && book.rulings.size() < kMostRulings) book.rulings.push_back(std::move(ruling));
  });
  return book;
}

}  // namespace gearbox::plugin_host
