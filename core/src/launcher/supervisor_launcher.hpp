// supervisor_launcher.hpp: a node's way to have its workers started: the supervisor's socket, dialled again for as long
// as it takes.
#pragma once

#include <boost/asio/io_context.hpp>

#include <filesystem>
#include <functional>
#include <memory>

#include "worker_pool/worker_pool.hpp"

namespace gearbox::launcher {

/// While the supervisor is away, launches wait (with growing pauses) and workers that run go on; a worker is then
/// stopped directly, through the pidfd taken at its start. An order whose answer was lost is asked again under the same
/// number, which the supervisor, or the next one, answers with the process that it already made. One strand: that of
/// `io`.
class SupervisorLauncher final : public worker_pool::Launcher {
 public:
  static constexpr std::size_t kMaxWaiting = 1024;  // launches that wait; further ones are answered overloaded

  SupervisorLauncher(boost::asio::io_context& io, std::filesystem::path supervisor_socket);
  /// Launches that were not answered are dropped without a call.
  ~SupervisorLauncher() override;

  void launch(Order order, std::function<void(Outcome<int>)> started) override;
  void stop(int pid, milliseconds grace) override;
  void cancel_all() override;
  void list(milliseconds within, std::function<void(Outcome<std::vector<Running>>)> listed) override;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace gearbox::launcher
