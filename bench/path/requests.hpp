// requests.hpp: small requests, and many connections.
#pragma once

#include <vector>

#include "client.hpp"

namespace gearbox::bench {

/// One small inline request and its whole answer; then its acknowledgement. Errors: what went wrong.
Outcome<void> small_request(Client& client);

/// CPU of the node for each of `count` small requests, from a sleeping node to a sleeping node: frame in, ring,
/// worker's answer, frame out, acknowledgement in.
std::vector<double> small_request_cpu_us(const NodeProcess& node, Client& client, int count);

struct Held {
  std::size_t connections = 0;  // still answering at the end
  double each_kb = 0;           // growth of the node's resident memory for each
  int requests = 0;             // that went on meanwhile
};
/// Logs `connections` in from 127.0.0.x, runs requests on some of them, and pings all.
Outcome<Held> hold(const NodeProcess& node, std::size_t connections);

}  // namespace gearbox::bench
