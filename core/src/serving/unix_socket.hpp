// unix_socket.hpp: sockets of this host's own: central.sock, node.sock, supervisor.sock.
#pragma once

#include <filesystem>
#include <string>

#include "gearbox/base/outcome.hpp"
#include "gearbox/plugin/transport.hpp"

namespace gearbox::serving {

/// A listening stream socket, mode 0600. The name goes with the object, if it is still ours.
class UnixListener {
 public:
  /// Takes the place of a socket that a killed process left behind; never of one that somebody answers on.
  /// Errors: io_error ("another process serves PATH", PATH is no socket, not permitted).
  static Outcome<UnixListener> open(const std::filesystem::path& path);
  UnixListener(UnixListener&& other) noexcept;
  UnixListener& operator=(UnixListener&& other) noexcept;
  ~UnixListener();

  /// Non-blocking, close-on-exec. Given away (to an AcceptLoop) it is not closed by this object.
  int descriptor() const { return descriptor_; }
  int give_away();
  const std::filesystem::path& path() const { return path_; }

 private:
  UnixListener() = default;
  void end();
  std::filesystem::path path_;
  int descriptor_ = -1;
  unsigned long long device_ = 0, inode_ = 0;
};

/// For AcceptLoop: as plugin::Transport::accept. `peer` is "pid P uid U". Other users than ours and root are closed at
/// once: errors: closed. The connecting side is net::dial_unix.
Outcome<plugin::Connection> accept_unix(int listening);

}  // namespace gearbox::serving
