#include "node/run_node.hpp"

#include <spdlog/spdlog.h>

#include <memory>
#include <utility>

#include "config/config.hpp"
#include "gearbox/base/text.hpp"
#include "launcher/supervisor_launcher.hpp"
#include "node/node.hpp"
#include "serving/accept_loop.hpp"
#include "serving/stop_signals.hpp"

namespace gearbox::node {

int run_node(const config::StateDir& state, const std::filesystem::path& config_folder) {
  serving::HoldSignals opening;
  Outcome<config::Snapshot> config = config::load(config_folder);
  if (!config) {
    spdlog::error("node: {}", describe(config.error()));
    return 2;
  }
  const std::uint64_t descriptors = serving::raise_descriptor_limit();
  const std::uint64_t wanted = std::uint64_t{config.value()->node.limits.max_connections} + 256;
  if (descriptors < wanted) {
    spdlog::warn("node: {} descriptors are allowed, {} are wanted for max_connections = {}; beyond that newcomers wait",
                 descriptors, wanted, config.value()->node.limits.max_connections);
  }
  auto io = std::make_unique<boost::asio::io_context>(1);
  auto launcher = std::make_shared<launcher::SupervisorLauncher>(*io, state.supervisor_socket());
  // Given away: the node lives longer than its first configuration, and who holds that holds what it asked for.
  Outcome<std::unique_ptr<Node>> node =
      Node::create(state, std::move(config).value(), std::move(launcher), std::move(io));
  if (!node) {
    spdlog::error("node: {}", escaped(describe(node.error()), 1000));
    return node.error().code == Errc::no_space ? 1 : 2;
  }
  Node& running = *node.value();
  const serving::StopSignals signals(
      running.io().get_executor(), [&running] { running.stop(); }, [&running] { running.hurry(); });
  opening.release();
  running.run();
  spdlog::info("node: stopped");
  return running.left_unsaid() ? 1 : 0;
}

}  // namespace gearbox::node
