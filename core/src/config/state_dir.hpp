// state_dir.hpp: where one installation keeps what it makes: keys, sockets, databases, files. Never inside configs/.
#pragma once

#include <filesystem>

#include "gearbox/base/outcome.hpp"

namespace gearbox::config {

/// Everything below one folder: --state DIR, else $GEARBOX_STATE, else /var/lib/gearbox for root and
/// $XDG_STATE_HOME/gearbox (~/.local/state/gearbox) for others.
struct StateDir {
  std::filesystem::path root;
  std::filesystem::path keys() const { return root / "keys"; }  // 0700
  std::filesystem::path central_channel_key() const { return keys() / "central.channel"; }
  std::filesystem::path central_signing_key() const { return keys() / "central.signing"; }
  std::filesystem::path node_channel_key() const { return keys() / "node.channel"; }
  std::filesystem::path node_signing_key() const { return keys() / "node.signing"; }
  std::filesystem::path run() const { return root / "run"; }                       // 0700; sockets and process records
  std::filesystem::path central_socket() const { return run() / "central.sock"; }  // control frames
  std::filesystem::path node_socket() const { return run() / "node.sock"; }        // control and local requests
  std::filesystem::path workers_socket() const { return run() / "workers.sock"; }  // SOCK_SEQPACKET, from worker_shim
  std::filesystem::path groups() const { return run() / "groups"; }  // NAME.sock: drivers of elastic groups, JSON lines
  std::filesystem::path supervisor_socket() const { return run() / "supervisor.sock"; }
  std::filesystem::path process_record(std::string_view role) const;  // run/ROLE.json
  std::filesystem::path calling_record(std::string_view role) const;  // run/ROLE.calling: which plugin it is calling
  std::filesystem::path log_file(std::string_view role) const;        // log/ROLE.log
  std::filesystem::path logs() const { return root / "log"; }
  std::filesystem::path central_db() const { return root / "central.db"; }
  std::filesystem::path quarantine() const { return root / "quarantine.json"; }  // requests that are not run again
  std::filesystem::path journal() const { return root / "journal"; }        // what was acknowledged: its own folder
  std::filesystem::path store() const { return root / "store"; }            // results: index.db and files
  std::filesystem::path outbox() const { return root / "outbox"; }          // events that wait for sinks
  std::filesystem::path sinks() const { return root / "sinks"; }            // one folder for each sink
  std::filesystem::path plugin_copies() const { return root / "plugins"; }  // private copies, named by checksum
  std::filesystem::path envs() const { return root / "envs"; }              // Python environments
};

/// Errors: io_error. Makes the folders, 0700, and refuses a root folder that others may write to.
Outcome<StateDir> open_state_dir(const std::filesystem::path& given);

}  // namespace gearbox::config
