// node_process.hpp: a node of the product's own rooms in a process of its own, with one thread, so that its CPU time
// and its memory are the node's alone: accept loop, DeviceSession, Requests, Ingest, pipeline, dispatcher, worker pool
// and a C++ echo worker. Left out: central (tickets are checked as a node does, the key is known), plugins from files
// (their object code is linked in), the store (it writes on a thread of its own).
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "gearbox/link/keys.hpp"

namespace gearbox::bench {

class NodeProcess {
 public:
  struct Setup {
    std::uint64_t max_upload_bytes = 64ULL << 20;
    std::uint32_t max_connections = 32;
  };
  /// Forks; returns when the worker is ready and devices may come. To be called before any thread is made.
  /// Errors: io_error.
  static Outcome<std::unique_ptr<NodeProcess>> start(const Setup& setup);
  /// Ends node and worker and removes their folder.
  ~NodeProcess();

  std::uint16_t port() const;
  const std::array<std::byte, 32>& server_key() const { return server_key_; }
  /// What central would give that device.
  std::string ticket_for(const PublicKey& device) const;

  /// CPU time of the node's one thread so far.
  double cpu_us() const;
  /// The same, once it no longer grows: the node sleeps.
  double settled_cpu_us() const;
  /// What the node itself read on that clock when the balancer was asked for a worker the last time: the request was
  /// verified and accepted just before.
  double handed_over_us() const;
  std::uint64_t hand_overs() const;
  /// Resident memory, all of it.
  double resident_kb() const;

 private:
  struct Shared;
  NodeProcess() = default;
  [[noreturn]] void serve(const Setup& setup, int ready) const;

  std::string folder_;
  Shared* shared_ = nullptr;
  pid_t pid_ = -1;
  std::array<std::byte, 32> server_key_{};
  link::ChannelKeys channel_keys_;
  link::SigningKeys central_;
  std::string identity_;
};

inline constexpr const char* kCentralKeyId = "bench";

}  // namespace gearbox::bench
