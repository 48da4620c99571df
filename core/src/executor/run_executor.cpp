#include "executor/run_executor.hpp"

#include <memory>
#include <utility>

#include "executor/executor.hpp"
#include "gear_facts/places.hpp"
#include "gear_facts/role_process.hpp"

namespace gearbox::executor {

int run_executor(const config::StateDir& state, const std::filesystem::path& config_folder) {
  gear_facts::RoleSetup setup;
  setup.name = "executor";
  setup.state = state;
  setup.config_folder = config_folder;
  setup.socket = gear_facts::executor_socket(state);
  setup.make = [&state](boost::asio::io_context& io,
                        const config::Snapshot&) -> Outcome<std::unique_ptr<gear_facts::Role>> {
    BOOST_OUTCOME_TRY(Ledger ledger, Ledger::open(gear_facts::executor_folder(state)));
    return std::unique_ptr<gear_facts::Role>(std::make_unique<Executor>(io, state, std::move(ledger)));
  };
  return gear_facts::run_role(setup);
}

}  // namespace gearbox::executor
