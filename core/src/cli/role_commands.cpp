// The roles: `broker up` and the processes that it starts.
#include "cli/commands.hpp"

#include <cstdio>
#include <memory>

#include "central/accounts.hpp"
#include "central/run_central.hpp"
#include "executor/run_executor.hpp"
#include "node/run_node.hpp"
#include "observer/run_observer.hpp"
#include "scheduler/run_scheduler.hpp"
#include "serving/service_notify.hpp"
#include "supervisor/supervisor.hpp"

namespace gearbox::cli {

namespace {

/// What each role needs: the state folder and the configuration folder's full path.
struct Places {
  config::StateDir state;
  std::filesystem::path config_folder;
};

Outcome<Places> places(const CliContext& context) {
  BOOST_OUTCOME_TRY(config::StateDir state, open_state(context));
  std::error_code error;
  const std::filesystem::path given = context.config_dir.empty() ? default_config_dir() : context.config_dir;
  const std::filesystem::path folder = std::filesystem::absolute(given, error);
  if (error) return Error{Errc::bad_config, given.string() + ": " + error.message()};
  return Places{std::move(state), folder.lexically_normal()};
}

void run_up(CliContext& context, bool standby) {
  const Outcome<Places> where = places(context);
  if (!where) return fail(context, where.error());
  // Read here first, so that a mistake is told before anything starts.
  const Outcome<config::Snapshot> config = config::load(where.value().config_folder);
  if (!config) return fail(context, config.error());
  supervisor::SupervisorSetup setup;
  setup.state = where.value().state;
  setup.config_folder = where.value().config_folder;
  setup.central = config.value()->central.enabled;
  setup.node = config.value()->node.enabled;
  setup.node_drain = config.value()->node.drain;
  setup.gears = config.value()->gears.enabled;
  setup.standby = standby;
  if (standby) {
    const Outcome<void> fits = setup.central
                                   ? central::check_standby(*config.value())
                                   : Outcome<void>(Error{Errc::bad_config, "--standby: central is not enabled here"});
    if (!fits) return fail(context, fits.error());
  }
  setup.notify = serving::notify_settings_of_environment();
  if (!setup.central && !setup.node && !setup.gears) {
    return fail(context, Error{Errc::bad_config,
                               "neither central nor node nor gears is enabled in " + setup.config_folder.string()});
  }
  if (setup.central && setup.node) {
    // This host's own node needs no `broker nodes add`: it is known to the central beside it.
    const central::AccountsPlace place = central::accounts_place(setup.state, config.value()->central);
    const Outcome<void> known = central::register_local_node(setup.state, place, config.value()->node.name);
    // A shared database may be away: central registers it when it is back.
    if (!known && !(place.is_shared() && known.error().code == Errc::overloaded)) return fail(context, known.error());
  }
  context.exit_code = supervisor::run_supervisor(setup);
}

void run_bare_supervisor(CliContext& context) {
  const Outcome<Places> where = places(context);
  if (!where) return fail(context, where.error());
  supervisor::SupervisorSetup setup;
  setup.state = where.value().state;
  setup.config_folder = where.value().config_folder;
  setup.central = false;
  setup.node = false;
  setup.gears = false;
  setup.notify = serving::notify_settings_of_environment();
  context.exit_code = supervisor::run_supervisor(setup);
}

template <class Role>
void run_role(CliContext& context, Role role) {
  const Outcome<Places> where = places(context);
  if (!where) return fail(context, where.error());
  context.exit_code = role(where.value().state, where.value().config_folder);
}

}  // namespace

void add_role_commands(CLI::App& app, CliContext& context) {
  CLI::App* up = add_command(app, context, "up",
                             "start everything this host's configuration names, and keep it running", "", false);
  up->footer(
      "Example:\n  broker up --config configs\n"
      "SIGTERM, or Ctrl-C, ends everything in order: what runs has node.drain_ms to end. A second one hurries, a third "
      "one kills.\n"
      "Exit codes: 0 ended by a signal or `broker drain`, 1 the work failed, 2 wrong usage or configuration.");
  auto second = std::make_shared<bool>(false);
  up->add_flag("--standby", *second, "keep a second central that waits, and takes over when the first has ended");
  up->callback([&context, second] { run_up(context, *second); });
  CLI::App* alone =
      add_command(app, context, "central", "be central only: accounts, placement, tickets (for service managers)",
                  "broker central --config /etc/gearbox", false);
  auto standby = std::make_shared<central::StandbySettings>();
  alone->add_flag("--standby", standby->waits,
                  "wait while another central serves this state folder, and take over at the same address with the "
                  "same keys and accounts when that one has ended");
  alone->add_option("--called", standby->called, "the supervisor's name for this process")->group("");
  alone->callback([&context, standby] {
    run_role(context, [standby](const auto& state, const auto& folder) {
      return central::run_central(state, folder, *standby);
    });
  });
  add_command(app, context, "node", "be a node only; needs a supervisor for its workers (for service managers)",
              "broker node --config /etc/gearbox", false)
      ->callback([&context] {
        run_role(context, [](const auto& state, const auto& folder) { return node::run_node(state, folder); });
      });
  const auto add_gear_role = [&](const char* name, const char* summary, auto role) {
    add_command(app, context, name, summary, std::string("broker ") + name + " --config /etc/gearbox", false)
        ->callback([&context, role] { run_role(context, role); });
  };
  add_gear_role("observer", "be the observer only: what groups do, as numbered snapshots (for service managers)",
                observer::run_observer);
  add_gear_role("scheduler", "be the scheduler only: which group should change its gear (for service managers)",
                scheduler::run_scheduler);
  add_gear_role("executor", "be the executor only: has groups change their gear (for service managers)",
                executor::run_executor);
  add_command(app, context, "supervisor", "start workers for a node that a service manager runs",
              "broker supervisor --config /etc/gearbox", false)
      ->group("")
      ->callback([&context] { run_bare_supervisor(context); });
}

}  // namespace gearbox::cli
