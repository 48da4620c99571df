// client.hpp: a device that costs little while the node is measured: it blocks, and seals ahead of time.
#pragma once

#include <optional>
#include <string>

#include "gearbox/link/secure_channel.hpp"
#include "gearbox/wire/frame.hpp"
#include "node_process.hpp"

namespace gearbox::bench {

class Client {
 public:
  /// Connects from `address` (127.0.0.x), shakes hands and logs in. Errors: io_error and what the node says.
  static Outcome<Client> log_in(const NodeProcess& node, const std::string& address = "127.0.0.1");
  Client(Client&& other) noexcept;
  Client& operator=(Client&&) = delete;
  ~Client();

  /// The next frame's records, in the order in which they must be sent, added to `out`.
  void seal(wire::FrameHeader header, std::string_view json, ByteView payload, Bytes& out);
  /// Errors: io_error.
  Outcome<void> send(ByteView sealed);
  /// Waits up to 20 s. Errors: io_error, decrypt_failed; what an error frame says.
  Outcome<wire::Frame> receive();
  /// Frames of other types are let pass.
  Outcome<wire::Frame> receive(wire::FrameType type);

 private:
  explicit Client(int descriptor) : descriptor_(descriptor) {}
  Outcome<void> read(ByteSpan out);
  int descriptor_ = -1;
  std::optional<link::SecureChannel> channel_;
};

}  // namespace gearbox::bench
