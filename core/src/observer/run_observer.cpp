#include "observer/run_observer.hpp"

#include <memory>

#include "gear_facts/places.hpp"
#include "gear_facts/role_process.hpp"
#include "observer/observer.hpp"
#include "observer/tcp_prober.hpp"

namespace gearbox::observer {

int run_observer(const config::StateDir& state, const std::filesystem::path& config_folder) {
  gear_facts::RoleSetup setup;
  setup.name = "observer";
  setup.state = state;
  setup.config_folder = config_folder;
  setup.socket = gear_facts::observer_socket(state);
  setup.make = [&state](boost::asio::io_context& io,
                        const config::Snapshot& config) -> Outcome<std::unique_ptr<gear_facts::Role>> {
    const config::LinksConfig& links = config->gears.links;
    auto prober = std::make_shared<TcpProber>(io.get_executor(), links);
    return std::unique_ptr<gear_facts::Role>(
        std::make_unique<Observer>(io, state, config->gears.interval, std::move(prober), nullptr, links));
  };
  return gear_facts::run_role(setup);
}

}  // namespace gearbox::observer
