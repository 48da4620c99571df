// attach_listener.hpp: the socket that workers dial. It checks who they are (same user, by the kernel's word), takes
// their first message, and hands both on. A peer that says nothing, or too much, is closed.
#pragma once

#include <boost/asio/io_context.hpp>

#include <filesystem>
#include <functional>
#include <memory>

#include "gearbox/base/outcome.hpp"
#include "gearbox/shm/attach.hpp"

namespace gearbox::worker_pool {

class AttachListener {
 public:
  /// `pid` is the peer's own, by the kernel's word.
  using Arrived = std::function<void(shm::Fd socket, int pid, shm::AttachBody first)>;
  /// Listens on `path` (mode 0600; a socket file left over there is replaced). Errors: io_error.
  static Outcome<std::unique_ptr<AttachListener>> create(boost::asio::io_context& io, const std::filesystem::path& path,
                                                         Arrived arrived);
  /// Stops listening and removes the socket file.
  ~AttachListener();

 private:
  struct State;
  explicit AttachListener(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace gearbox::worker_pool
