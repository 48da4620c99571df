#include "central/registry.hpp"

#include <algorithm>
#include <utility>

namespace gearbox::central {

NodeSession Registry::connected(const PublicKey& key, const std::string& name) {
  NodeState& node = nodes_[key];
  if (node.id == plugin::CandidateId{}) node.id = plugin::CandidateId{++last_id_};
  node.key = key;
  node.name = name;
  node.session = NodeSession{++last_session_};
  node.connected = true;
  return node.session;
}

bool Registry::reported(NodeSession session, wire::NodeReport report, Instant now) {
  NodeState* node = find(session);
  if (node == nullptr) return false;
  node->report = std::move(report);
  node->reported = true;
  node->last_report = now;
  node->offered = 0;
  return true;
}

void Registry::disconnected(NodeSession session) {
  if (NodeState* node = find(session); node != nullptr) node->connected = false;
}

void Registry::forget(const PublicKey& key) {
  nodes_.erase(key);
}

void Registry::offered(plugin::CandidateId id) {
  for (auto& [key, node] : nodes_) {
    if (node.id == id) ++node.offered;
  }
}

bool Registry::alive(const NodeState& node, Instant now) const {
  return node.connected && node.reported && now - node.last_report < silent_;
}

NodeState* Registry::find(NodeSession session) {
  const auto found =
      std::find_if(nodes_.begin(), nodes_.end(), [&](auto& entry) { return entry.second.session == session; });
  return found == nodes_.end() ? nullptr : &found->second;
}

}  // namespace gearbox::central
