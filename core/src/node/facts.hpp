// facts.hpp: what the node says of itself: to central once a second, to the command line when asked.
#pragma once

#include <boost/json/object.hpp>

#include <string>
#include <vector>

#include "config/config.hpp"
#include "dispatch/dispatcher.hpp"
#include "gearbox/wire/messages.hpp"
#include "journal/journal.hpp"
#include "plugin_host/plugin_host.hpp"
#include "session/requests.hpp"
#include "sinks/outbox.hpp"
#include "store/store.hpp"
#include "worker_pool/worker_pool.hpp"

namespace gearbox::node {

/// The parts of a running node that its facts are drawn from. Strand only.
struct FactSources {
  const config::Config* config = nullptr;
  const worker_pool::WorkerPool* pool = nullptr;
  const dispatch::Dispatcher* dispatcher = nullptr;
  const session::Requests* requests = nullptr;
  const store::ResultStore* store = nullptr;  // null: nothing is kept
  const journal::Journal* journal = nullptr;  // null: acknowledged does not mean durable
  const sinks::Outbox* sinks = nullptr;       // null: none is configured
  const plugin_host::PluginHost* plugins = nullptr;
  std::string url;           // where it really listens
  std::string channel_key;   // hex
  std::string identity_key;  // hex
  std::size_t sessions = 0;
  bool central_connected = false;
  std::string central_error;
  Instant started{};
};

wire::NodeReport report_of(const FactSources& from);
boost::json::object status_of(const FactSources& from);

}  // namespace gearbox::node
