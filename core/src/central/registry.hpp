// registry.hpp: what central knows of the nodes at this moment. In memory only: reports come every second. One strand.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "gearbox/base/clock.hpp"
#include "gearbox/base/ids.hpp"
#include "gearbox/plugin/balancer.hpp"
#include "gearbox/wire/messages.hpp"

namespace gearbox::central {

/// One log-in of a node. A later log-in of the same node displaces the earlier one, whose connection may be half dead.
enum class NodeSession : std::uint64_t {};

struct NodeState {
  plugin::CandidateId id{};
  PublicKey key;
  std::string name;  // as registered, whatever the report says
  NodeSession session{};
  bool connected = false;
  bool reported = false;    // `report` and `last_report` hold something
  wire::NodeReport report;  // the last one; kept after a disconnect, so that its tasks stay known
  Instant last_report{};
  std::uint32_t offered = 0;  // devices sent there since that report: it cannot know of them yet
};

class Registry {
 public:
  explicit Registry(milliseconds silent) : silent_(silent) {}

  void silent_after(milliseconds silent) { silent_ = silent; }

  NodeSession connected(const PublicKey& key, const std::string& name);
  /// False when that session was displaced or forgotten: its connection is to be closed.
  bool reported(NodeSession session, wire::NodeReport report, Instant now);
  void disconnected(NodeSession session);
  void forget(const PublicKey& key);  // it was removed
  void offered(plugin::CandidateId id);

  /// Connected, and heard of within the limit; a draining node is alive, but not offered.
  bool alive(const NodeState& node, Instant now) const;
  const std::map<PublicKey, NodeState>& nodes() const { return nodes_; }

 private:
  NodeState* find(NodeSession session);
  milliseconds silent_;
  std::map<PublicKey, NodeState> nodes_;  // only registered nodes: as many as the operator added
  std::uint64_t last_session_ = 0;
  std::uint32_t last_id_ = 0;
};

}  // namespace gearbox::central
