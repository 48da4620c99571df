#include "gear_facts/facts.hpp"

#include <boost/json/array.hpp>

#include <cmath>

#include "gearbox/base/text.hpp"
#include "link/json_reader.hpp"

namespace gearbox::gear_facts {

namespace json = boost::json;
using link::ObjectReader;

namespace {

constexpr std::size_t kMaxRanks = 64;
constexpr std::size_t kMaxWindows = 32;
constexpr std::size_t kMaxModels = 4096;
constexpr std::size_t kMaxGpus = 64;
constexpr std::size_t kMaxLinks = 64;
constexpr std::size_t kMaxWord = 256;
constexpr std::size_t kMaxLine = 512;

json::object load_json(const plugin::LoadView& load) {
  return {{"requests_per_s", load.requests_per_s},
          {"prompt_tokens", load.prompt_tokens},
          {"output_tokens", load.output_tokens}};
}

void read_load(ObjectReader& reader, plugin::LoadView& load) {
  reader.read("requests_per_s", load.requests_per_s);
  reader.read("prompt_tokens", load.prompt_tokens);
  reader.read("output_tokens", load.output_tokens);
  if (load.requests_per_s < 0 || load.prompt_tokens < 0 || load.output_tokens < 0)
    reader.fail("requests_per_s", "or the tokens are below zero");
}

void read_rank(ObjectReader& reader, RankFacts& rank) {
  reader.read("rank", rank.rank);
  reader.read("pid", rank.pid);
  reader.read("used_units", rank.used_units);
  reader.read("units", rank.units);
  reader.read("busy", rank.busy);
  reader.read("memory_bytes", rank.memory_bytes);
}

void read_shape(ObjectReader& reader, gears::ModelShape& shape) {
  reader.read("layers", shape.layers);
  reader.read("width", shape.width);
  reader.read("heads", shape.heads);
  reader.read("kv_heads", shape.kv_heads);
  reader.read("head_width", shape.head_width);
  reader.read("parameters", shape.parameters);
  reader.read("bytes_per_number", shape.bytes_per_number);
}

void read_name(ObjectReader& reader, std::string_view member, std::string& into) {
  reader.read(member, into, kMaxNameBytes);
  if (!is_name(into)) reader.fail(member, "is no name");
}

void read_gear(ObjectReader& reader, std::string_view member, std::uint8_t& into, unsigned lowest) {
  reader.read(member, into);
  if (into < lowest || into > 6) reader.fail(member, lowest == 0 ? "must be 0 to 6" : "must be 1 to 6");
}

}  // namespace

json::object to_json(const GroupFacts& group) {
  json::array ranks;
  for (const RankFacts& rank : group.processes) {
    ranks.push_back(json::object{{"rank", rank.rank},
                                 {"pid", rank.pid},
                                 {"used_units", rank.used_units},
                                 {"units", rank.units},
                                 {"busy", rank.busy},
                                 {"memory_bytes", rank.memory_bytes}});
  }
  json::object out{{"name", group.name},
                   {"model", group.model},
                   {"pool", group.pool},
                   {"stale", group.stale},
                   {"problem", group.problem},
                   {"age_ms", group.age_ms},
                   {"phase", group.phase},
                   {"shift", group.shift},
                   {"gear", group.gear},
                   {"plan", group.plan},
                   {"collective", group.collective},
                   {"epoch", group.epoch},
                   {"term", group.term},
                   {"ranks", group.ranks},
                   {"processes", std::move(ranks)},
                   {"running", group.running},
                   {"waiting", group.waiting},
                   {"tokens", group.tokens},
                   {"steps", group.steps},
                   {"evicted", group.evicted},
                   {"shifts", group.shifts},
                   {"cached_tokens", group.cached_tokens},
                   {"samples", group.samples},
                   {"busy_mean", group.busy_mean},
                   {"busy_peak", group.busy_peak},
                   {"burstiness", group.burstiness},
                   {"memory_pressure", group.memory_pressure},
                   {"memory_bytes", group.memory_bytes},
                   {"link_health", group.link_health},
                   {"link_slowdown", group.link_slowdown}};
  if (group.shape.layers > 0) {
    out["shape"] = json::object{{"layers", group.shape.layers},
                                {"width", group.shape.width},
                                {"heads", group.shape.heads},
                                {"kv_heads", group.shape.kv_heads},
                                {"head_width", group.shape.head_width},
                                {"parameters", group.shape.parameters},
                                {"bytes_per_number", group.shape.bytes_per_number}};
  }
  if (group.has_load) {
    json::array recent;
    for (const plugin::LoadView& window : group.recent) recent.push_back(load_json(window));
    out["load"] = json::object{{"fast", load_json(group.fast)},
                               {"slow", load_json(group.slow)},
                               {"recent", std::move(recent)},
                               {"oldest_wait_ms", group.oldest_wait_ms},
                               {"first_token_ms", group.first_token_ms},
                               {"per_token_ms", group.per_token_ms}};
  }
  return out;
}

Outcome<GroupFacts> read_group(const json::object& object) {
  GroupFacts group;
  ObjectReader reader(object);
  read_name(reader, "name", group.name);
  reader.read("model", group.model, kMaxWord);
  reader.read("pool", group.pool, kMaxWord);
  reader.read("stale", group.stale);
  reader.read("problem", group.problem, kMaxLine);
  reader.read("age_ms", group.age_ms);
  reader.read("phase", group.phase, kMaxWord);
  reader.read("shift", group.shift, kMaxWord);
  read_gear(reader, "gear", group.gear, 0);
  reader.read("plan", group.plan, kMaxWord);
  reader.read("collective", group.collective, kMaxWord);
  reader.read("epoch", group.epoch);
  reader.read("term", group.term);
  reader.read("ranks", group.ranks);
  reader.read_list("processes", group.processes, kMaxRanks, read_rank);
  reader.read("running", group.running);
  reader.read("waiting", group.waiting);
  reader.read("tokens", group.tokens);
  reader.read("steps", group.steps);
  reader.read("evicted", group.evicted);
  reader.read("shifts", group.shifts);
  reader.read("cached_tokens", group.cached_tokens);
  reader.read("samples", group.samples);
  reader.read("busy_mean", group.busy_mean);
  reader.read("busy_peak", group.busy_peak);
  reader.read("burstiness", group.burstiness);
  reader.read("memory_pressure", group.memory_pressure);
  reader.read("memory_bytes", group.memory_bytes);
  reader.read("link_health", group.link_health);
  reader.read("link_slowdown", group.link_slowdown);
  reader.read_object("shape", group.shape, read_shape);
  group.has_load = object.contains("load");
  reader.read_object("load", group, [](ObjectReader& load, GroupFacts& into) {
    load.read_object("fast", into.fast, read_load);
    load.read_object("slow", into.slow, read_load);
    load.read_list("recent", into.recent, kMaxWindows, read_load);
    load.read("oldest_wait_ms", into.oldest_wait_ms);
    load.read("first_token_ms", into.first_token_ms);
    load.read("per_token_ms", into.per_token_ms);
  });
  BOOST_OUTCOME_TRY(reader.result());
  return group;
}

json::object to_json(const GroupRecord& record) {
  return {{"name", record.name},
          {"came_from", record.came_from},
          {"origin", record.origin},
          {"since_shift_ms", record.since_shift_ms},
          {"shifts_of_hour", record.shifts_of_hour},
          {"shifting", record.shifting},
          {"held", record.held},
          {"allowed", json::array(record.allowed.begin(), record.allowed.end())},
          {"pause_ms", record.pause_ms}};
}

Outcome<GroupRecord> read_record(const json::object& object) {
  GroupRecord record;
  ObjectReader reader(object);
  read_name(reader, "name", record.name);
  read_gear(reader, "came_from", record.came_from, 0);
  reader.read("origin", record.origin, kMaxWord);
  reader.read("since_shift_ms", record.since_shift_ms);
  reader.read("shifts_of_hour", record.shifts_of_hour);
  reader.read("shifting", record.shifting);
  reader.read("held", record.held);
  reader.read("allowed", record.allowed, 6);
  reader.read("pause_ms", record.pause_ms);
  BOOST_OUTCOME_TRY(reader.result());
  return record;
}

json::object to_json(const ShiftOrder& order) {
  return {{"group", order.group},
          {"gear", order.gear},
          {"term", order.term},
          {"origin", order.origin},
          {"decision", order.decision}};
}

Outcome<ShiftOrder> read_order(const json::object& object) {
  ShiftOrder order;
  ObjectReader reader(object);
  read_name(reader, "group", order.group);
  read_gear(reader, "gear", order.gear, 1);
  reader.read("term", order.term);
  reader.read("origin", order.origin, kMaxWord);
  reader.read("decision", order.decision, 1024);
  if (order.origin != "scheduler" && order.origin != "person" && order.origin != "node")
    reader.fail("origin", "must be scheduler, person or node");
  BOOST_OUTCOME_TRY(reader.result());
  return order;
}

json::object head_of(const Snapshot& snapshot) {
  json::array queues;
  for (const ModelQueue& queue : snapshot.queues) {
    queues.push_back(json::object{{"model", queue.model}, {"queued", queue.queued}, {"running", queue.running}});
  }
  json::array gpus;
  for (const GpuFacts& gpu : snapshot.gpus) {
    gpus.push_back(json::object{{"index", gpu.index},
                                {"busy", gpu.busy},
                                {"memory_used_bytes", gpu.memory_used_bytes},
                                {"memory_total_bytes", gpu.memory_total_bytes}});
  }
  json::array links;
  for (const LinkFacts& link : snapshot.links) {
    links.push_back(json::object{{"peer", link.peer},
                                 {"failed", link.failed},
                                 {"latency_us", link.latency_us},
                                 {"bytes_per_s", link.bytes_per_s},
                                 {"usual_bytes_per_s", link.usual_bytes_per_s},
                                 {"age_ms", link.age_ms},
                                 {"bandwidth_age_ms", link.bandwidth_age_ms}});
  }
  return {{"sequence", snapshot.sequence},
          {"observer", snapshot.observer},
          {"age_ms", snapshot.age_ms},
          {"node_answers", snapshot.node_answers},
          {"queues", std::move(queues)},
          {"gpus", std::move(gpus)},
          {"link_probed", snapshot.link_probed},
          {"link_failed", snapshot.link_failed},
          {"link_share", snapshot.link_share},
          {"link_samples", snapshot.link_samples},
          {"links", std::move(links)}};
}

Outcome<Snapshot> read_head(const json::object& object) {
  Snapshot snapshot;
  ObjectReader reader(object);
  reader.read("sequence", snapshot.sequence);
  reader.read("observer", snapshot.observer, kMaxWord);
  reader.read("age_ms", snapshot.age_ms);
  reader.read("node_answers", snapshot.node_answers);
  reader.read_list("queues", snapshot.queues, kMaxModels, [](ObjectReader& each, ModelQueue& queue) {
    each.read("model", queue.model, kMaxWord);
    each.read("queued", queue.queued);
    each.read("running", queue.running);
  });
  reader.read_list("gpus", snapshot.gpus, kMaxGpus, [](ObjectReader& each, GpuFacts& gpu) {
    each.read("index", gpu.index);
    each.read("busy", gpu.busy);
    each.read("memory_used_bytes", gpu.memory_used_bytes);
    each.read("memory_total_bytes", gpu.memory_total_bytes);
  });
  reader.read("link_probed", snapshot.link_probed);
  reader.read("link_failed", snapshot.link_failed);
  reader.read("link_share", snapshot.link_share);
  reader.read("link_samples", snapshot.link_samples);
  reader.read_list("links", snapshot.links, kMaxLinks, [](ObjectReader& each, LinkFacts& link) {
    each.read("peer", link.peer, kMaxLine);
    each.read("failed", link.failed);
    each.read("latency_us", link.latency_us);
    each.read("bytes_per_s", link.bytes_per_s);
    each.read("usual_bytes_per_s", link.usual_bytes_per_s);
    each.read("age_ms", link.age_ms);
    each.read("bandwidth_age_ms", link.bandwidth_age_ms);
  });
  BOOST_OUTCOME_TRY(reader.result());
  return snapshot;
}

}  // namespace gearbox::gear_facts
