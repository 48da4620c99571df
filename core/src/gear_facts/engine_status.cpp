#include "gear_facts/engine_status.hpp"

#include "gear_facts/pages.hpp"
#include "gearbox/base/text.hpp"
#include "link/json_reader.hpp"

namespace gearbox::gear_facts {

namespace json = boost::json;
using link::ObjectReader;

namespace {

constexpr std::size_t kMostRanks = 64;
constexpr std::size_t kMaxWord = 64;
constexpr std::size_t kMaxWhy = 300;

/// "shift": null and "gear": null are the engine's way to say none.
bool is_null(const json::object& object, std::string_view member) {
  const json::value* value = object.if_contains(json::string_view(member.data(), member.size()));
  return value != nullptr && value->is_null();
}

void read_load(ObjectReader& reader, EngineLoad& load) {
  reader.read("arrived", load.arrived);
  reader.read("finished", load.finished);
  reader.read("prompt_tokens", load.prompt_tokens);
  reader.read("output_tokens", load.output_tokens);
}

/// Medians of the last minute: null when there was nothing to take them of.
void read_medians(const json::object& from, ObjectReader& reader, EngineLoad& load) {
  double wait = -1;
  if (!is_null(from, "oldest_wait_ms")) reader.read("oldest_wait_ms", wait);
  if (!is_null(from, "first_token_ms")) reader.read("first_token_ms", load.first_token_ms);
  if (!is_null(from, "per_token_ms")) reader.read("per_token_ms", load.per_token_ms);
  constexpr double kLongest = 1e12;
  if (wait > kLongest) reader.fail("oldest_wait_ms", "is longer than thirty years");
  if (wait >= 0 && wait <= kLongest) load.oldest_wait_ms = static_cast<std::int64_t>(wait);
}

void read_shape(ObjectReader& reader, gears::ModelShape& shape) {
  reader.read("layers", shape.layers);
  reader.read("width", shape.width);
  reader.read("heads", shape.heads);
  reader.read("kv_heads", shape.kv_heads);
  reader.read("head_width", shape.head_width);
  reader.read("parameters", shape.parameters);
  reader.read("bytes_per_number", shape.bytes_per_number);
  const bool whole = shape.width > 0 && shape.heads > 0 && shape.kv_heads > 0 && shape.head_width > 0 &&
                     shape.parameters > 0 && shape.bytes_per_number > 0;
  if (shape.layers > 0 && !whole) reader.fail("layers", "is told, and something beside it is 0");
}

}  // namespace

Outcome<EngineStatus> read_status(const json::object& object) {
  EngineStatus status;
  const EngineWord word = word_of(object);
  status.ok = word.ok;
  status.why = word.why;
  if (!status.ok) return status;
  ObjectReader reader(object);
  reader.read("phase", status.phase, kMaxWord);
  reader.read("model", status.model, kMaxWord);
  if (!is_null(object, "shift")) reader.read("shift", status.shift, kMaxWord);
  if (!is_null(object, "collective")) reader.read("collective", status.collective, kMaxWord);
  if (!is_null(object, "gear")) reader.read("gear", status.gear);
  if (status.gear > 6) reader.fail("gear", "must be 1 to 6");
  reader.read("pid", status.pid);
  reader.read("epoch", status.epoch);
  reader.read("term", status.term);
  reader.read_list("ranks", status.ranks, kMostRanks, [](ObjectReader& each, EngineRank& rank) {
    each.read("rank", rank.rank);
    each.read("pid", rank.pid);
    each.read("used_units", rank.used_units);
    each.read("units", rank.units);
  });
  reader.read("running", status.running);
  reader.read("waiting", status.waiting);
  reader.read("tokens", status.tokens);
  reader.read("steps", status.steps);
  reader.read("evicted", status.evicted);
  reader.read("shifts", status.shifts);
  // The engine computes in FP32 unless it says otherwise.
  status.shape.bytes_per_number = 4;
  if (!is_null(object, "shape")) reader.read_object("shape", status.shape, read_shape);
  if (const json::value* load = object.if_contains("load"); load != nullptr && load->is_object()) {
    status.has_load = true;
    reader.read_object("load", status.load, read_load);
    ObjectReader medians(load->get_object());
    read_medians(load->get_object(), medians, status.load);
    BOOST_OUTCOME_TRY(medians.result());
  }
  BOOST_OUTCOME_TRY(reader.result());
  status.phase = escaped(status.phase, kMaxWord);
  status.shift = escaped(status.shift, kMaxWord);
  status.collective = escaped(status.collective, kMaxWord);
  if (!is_name(status.model)) status.model.clear();
  return status;
}

EngineWord word_of(const json::object& answer) {
  EngineWord word;
  const json::value* ok = answer.if_contains("ok");
  word.ok = ok != nullptr && ok->is_bool() && ok->get_bool();
  if (!word.ok) word.why = escaped(text_of(answer, "why"), kMaxWhy);
  if (!word.ok && word.why.empty()) word.why = "the engine gave no reason";
  return word;
}

}  // namespace gearbox::gear_facts
