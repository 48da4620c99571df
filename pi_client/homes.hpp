// homes.hpp: which nodes have acknowledged which requests of a spool, so that the next process asks there first. A hint
// on disk, not synced: what is lost by a power cut costs a second run at most, never a second answer.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "durable.hpp"
#include "gearbox/base/ids.hpp"

namespace gearbox::client {

using NodesByRequest = std::map<RequestId, std::vector<std::string>>;

/// Blocking; one thread at a time.
class Homes {
 public:
  explicit Homes(std::filesystem::path file) : file_(std::move(file)) {}

  /// What the file says of `wanted`; lines that are no such lines are passed over. Errors: io_error.
  Outcome<NodesByRequest> load(const std::set<RequestId>& wanted) const;
  /// One more line; when the file has grown far past what `live` needs, it is written anew with that alone. `live`
  /// holds the new one already. Errors: no_space, io_error.
  Outcome<void> note(const RequestId& id, const std::string& node, const NodesByRequest& live);
  /// The node does not have it any more. Errors: no_space, io_error.
  Outcome<void> note_lost(const RequestId& id, const std::string& node);

 private:
  std::filesystem::path file_;
};

}  // namespace gearbox::client
