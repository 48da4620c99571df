#include "central/status.hpp"

#include <unistd.h>
#include <boost/json/array.hpp>

namespace gearbox::central {

namespace json = boost::json;

namespace {

constexpr std::size_t kDetailedNodes =
    32;  // with more, their models and tasks are left out: one frame holds the answer

json::array models_of(const wire::NodeReport& report) {
  json::array models;
  for (const wire::ModelReport& model : report.models) {
    models.push_back(json::object{{"name", model.name},
                                  {"version", model.version},
                                  {"workers", model.workers},
                                  {"queued", model.queued},
                                  {"running", model.running},
                                  {"step_p95_us", model.step_p95_us}});
  }
  return models;
}

json::array tasks_of(const wire::NodeReport& report) {
  json::array tasks;
  for (const wire::TaskReport& task : report.tasks) {
    json::array models(task.models.begin(), task.models.end());
    tasks.push_back(json::object{{"name", task.name}, {"ready", task.ready}, {"models", std::move(models)}});
  }
  return tasks;
}

const char* state_of(const ServerState& state, const NodeState& node, Instant now) {
  if (!node.connected) return "disconnected";
  if (!node.reported) return "connected";
  if (!state.registry.alive(node, now)) return "silent";
  return node.report.draining ? "draining" : "alive";
}

json::object node_facts(const ServerState& state, const NodeState& node, bool detailed, Instant now) {
  json::object facts{{"name", node.name}, {"key", to_text(node.key)}, {"state", state_of(state, node, now)}};
  if (!node.reported) return facts;
  facts["age_ms"] = elapsed(node.last_report, now).count() / 1000;
  facts["queued"] = node.report.queued;
  facts["running"] = node.report.running;
  facts["sessions"] = node.report.sessions;
  facts["addresses"] = json::array(node.report.addresses.begin(), node.report.addresses.end());
  facts["config_digest"] = node.report.config_digest;
  if (detailed) {
    facts["models"] = models_of(node.report);
    facts["tasks"] = tasks_of(node.report);
  }
  return facts;
}

}  // namespace

json::object status_of(const ServerState& state, const serving::AcceptLoop::Counters& accepting, Instant now) {
  json::object facts{{"role", "central"},
                     {"version", GEARBOX_VERSION},
                     {"pid", ::getpid()},
                     {"ready", !state.stopping},
                     {"stopping", state.stopping},
                     {"uptime_ms", elapsed(state.started, now).count() / 1000},
                     {"listen", state.url},
                     {"channel_key", to_hex(state.channel.public_key)},
                     {"config_digest", state.config_digest},
                     {"balancer", state.config.balancer},
                     {"connections", state.open.size()}};
  json::array nodes;
  const bool detailed = state.registry.nodes().size() <= kDetailedNodes;
  for (const auto& [key, node] : state.registry.nodes()) nodes.push_back(node_facts(state, node, detailed, now));
  facts["nodes"] = std::move(nodes);
  const Counters& counted = state.counters;
  facts["counters"] = json::object{{"accepted", accepting.accepted},
                                   {"refused", accepting.refused},
                                   {"accept_pauses", accepting.pauses},
                                   {"handshakes_failed", counted.handshakes_failed},
                                   {"logins", counted.logins},
                                   {"logins_failed", counted.logins_failed},
                                   {"enrols", counted.enrols},
                                   {"enrols_failed", counted.enrols_failed},
                                   {"rate_limited", counted.rate_limited},
                                   {"overloaded", counted.overloaded},
                                   {"node_logins", counted.node_logins},
                                   {"node_reports", counted.node_reports},
                                   {"located", counted.located},
                                   {"not_located", counted.not_located},
                                   {"balancer_faults", state.placement.balancer_faults()}};
  return facts;
}

}  // namespace gearbox::central
