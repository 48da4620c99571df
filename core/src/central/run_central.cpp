#include "central/run_central.hpp"

#include <spdlog/spdlog.h>
#include <boost/asio/io_context.hpp>

#include "central/central.hpp"
#include "gearbox/base/ids.hpp"
#include "gearbox/base/text.hpp"
#include "plugin_host/plugin_host.hpp"
#include "serving/control.hpp"
#include "serving/stop_signals.hpp"

namespace gearbox::central {

namespace {

Outcome<boost::json::object> control(const Central& server, std::string_view command) {
  if (command == "status") return server.status();
  return Error{Errc::not_found,
               "central knows no command '" + escaped(command, kMaxNameBytes) + "': there are ping and status"};
}

Outcome<void> serve(const config::StateDir& state, const std::filesystem::path& config_folder) {
  serving::HoldSignals opening;
  BOOST_OUTCOME_TRY(const config::Snapshot snapshot, config::load(config_folder));
  boost::asio::io_context io;
  const config::Config& config = *snapshot;
  plugin_host::HostPaths paths;
  paths.shipped = plugin_host::shipped_plugins();
  paths.dropped = config.plugins.folder;
  paths.copies = state.plugin_copies();
  paths.checker = plugin_host::own_executable();
  BOOST_OUTCOME_TRY(const auto plugins, plugin_host::PluginHost::open(paths, config.plugins));

  Central::Setup server_setup;
  server_setup.io = &io;
  server_setup.state = state;
  server_setup.config = snapshot;
  BOOST_OUTCOME_TRY(server_setup.transport, plugins->transport_for(config.central.listen));
  BOOST_OUTCOME_TRY(server_setup.balancer, plugins->balancer(config.central.balancer));
  BOOST_OUTCOME_TRY(const auto server, Central::start(std::move(server_setup)));

  serving::ControlHandler handler = [&server](std::string_view command, const boost::json::object&) {
    return control(*server, command);
  };
  BOOST_OUTCOME_TRY(auto controls,
                    serving::ControlServer::start(io.get_executor(), state.central_socket(), std::move(handler)));
  const auto stop = [&] {
    spdlog::info("event=stopping role=central");
    server->stop([&io] { io.stop(); });
  };
  const serving::StopSignals signals(io.get_executor(), stop, [&io] { io.stop(); });
  opening.release();
  spdlog::info("event=ready role=central listen={} key={}", server->url(), to_hex(server->channel_key()));
  io.run();
  controls.reset();
  spdlog::info("event=stopped role=central");
  return done();
}

}  // namespace

int run_central(const config::StateDir& state, const std::filesystem::path& config_folder) {
  const Outcome<void> served = serve(state, config_folder);
  if (served) return 0;
  // Faults of a configuration come one to a line; each stays one line.
  std::string_view rest = served.error().detail;
  do {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    spdlog::error("event=cannot_start role=central code={} reason=\"{}\"", name_of(served.error().code),
                  escaped(rest.substr(0, end), 1024));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  } while (!rest.empty());
  // Want of memory or descriptors may pass by itself; everything else waits for somebody to act.
  return served.error().code == Errc::no_space ? 1 : 2;
}

}  // namespace gearbox::central
