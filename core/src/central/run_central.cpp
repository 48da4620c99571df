#include "central/run_central.hpp"

#include <spdlog/spdlog.h>
#include <boost/asio/io_context.hpp>

#include <cstdlib>
#include <optional>
#include <utility>

#include "central/accounts.hpp"
#include "central/accounts_place.hpp"
#include "central/central.hpp"
#include "central/central_lock.hpp"
#include "central/database_lock.hpp"
#include "central/database_standby.hpp"
#include "central/leases.hpp"
#include "central/standby.hpp"
#include "config/central_files.hpp"
#include "config/facts.hpp"
#include "gearbox/base/ids.hpp"
#include "gearbox/base/text.hpp"
#include "live/follower.hpp"
#include "plugin_host/plugin_host.hpp"
#include "plugin_host/plugins_json.hpp"
#include "serving/control.hpp"
#include "serving/exit_codes.hpp"
#include "serving/stop_signals.hpp"

namespace gearbox::central {

namespace {

/// The plugin objects that central works with.
struct Instances {
  std::shared_ptr<plugin::Transport> transport;
  std::shared_ptr<plugin::Balancer> balancer;
  explain::ChooserPtr chooser;  // which build the balancer is of
  std::string balancer_name;
  std::uint64_t transport_edition = 0, balancer_edition = 0;
};

plugin_host::Needs needs_of(const config::Config& config) {
  return {{"balancer", config.central.balancer, "central.balancer"},
          {"transport", config.central.listen, "central.listen"}};
}

/// Objects of the same edition are taken from `last`. Errors: bad_plugin.
Outcome<std::shared_ptr<const Instances>> make_instances(const config::Config& config, const plugin_host::Table& table,
                                                         const Instances* last) {
  auto made = std::make_shared<Instances>();
  const std::string& wanted = config.central.balancer;
  made->balancer_name = table.balancer_or_stand_in(wanted);
  if (made->balancer_name != wanted && (last == nullptr || last->balancer_name != made->balancer_name)) {
    spdlog::warn("central.balancer '{}' is barred: '{}' stands in for it", wanted, made->balancer_name);
  }
  made->balancer_edition = table.edition("balancer", made->balancer_name);
  made->transport_edition = table.transport_edition(config.central.listen);
  if (last != nullptr && last->balancer_name == made->balancer_name &&
      last->balancer_edition == made->balancer_edition) {
    made->balancer = last->balancer;
    made->chooser = last->chooser;
  } else {
    auto balancer = table.balancer(made->balancer_name);
    if (!balancer) return Error{balancer.error().code, "central.balancer: " + balancer.error().detail};
    made->balancer = std::move(balancer).value();
    const plugin_host::PluginInfo* const build = table.info("balancer", made->balancer_name);
    made->chooser = std::make_shared<const explain::Chooser>(
        explain::Chooser{made->balancer_name, build->version, build->checksum});
  }
  if (last != nullptr && last->transport_edition == made->transport_edition) {
    made->transport = last->transport;
  } else {
    auto transport = table.transport_for(config.central.listen);
    if (!transport) return Error{transport.error().code, "central.listen: " + transport.error().detail};
    made->transport = std::move(transport).value();
  }
  return std::shared_ptr<const Instances>(std::move(made));
}

/// One running central, opened in order; closed in the reverse.
class Process {
 public:
  Outcome<void> open(const config::StateDir& state, const AccountsPlace& accounts,
                     const std::filesystem::path& config_folder, std::string_view called) {
    BOOST_OUTCOME_TRY(config_, config::load(config_folder));
    if (accounts_place(state, config_->central).database != accounts.database) {
      return Error{Errc::bad_config, "central.database was changed while this central stood by: start it again"};
    }
    plugin_host::HostPaths paths;
    paths.shipped = plugin_host::shipped_plugins();
    paths.dropped = config_->plugins.folder;
    paths.copies = state.plugin_copies();
    paths.checker = plugin_host::own_executable();
    paths.calling = state.calling_record(called);
    paths.state = state.root;
    BOOST_OUTCOME_TRY(plugins_, plugin_host::PluginHost::open(paths, config_->plugins, needs_of(*config_)));
    BOOST_OUTCOME_TRY(const auto instances, make_instances(*config_, *plugins_->table(), nullptr));

    Central::Setup setup;
    setup.io = &io_;
    setup.state = state;
    setup.accounts = accounts;
    setup.config = config_;
    setup.transport = instances->transport;
    setup.balancer = instances->balancer;
    setup.chooser = instances->chooser;
    BOOST_OUTCOME_TRY(server_, Central::start(std::move(setup)));
    server_->keep_leases([this](const boost::json::object& request) { return lease(request); });
    leases_at_ = accounts;
    leases_at_.on_loop = true;
    open_leases();
    BOOST_OUTCOME_TRY(follow(instances));
    serving::ControlHandler handler = [this](std::string_view command, const boost::json::object& request) {
      return control(command, request);
    };
    BOOST_OUTCOME_TRY(controls_,
                      serving::ControlServer::start(io_.get_executor(), state.central_socket(), std::move(handler)));
    return done();
  }

  ~Process() {
    controls_.reset();
    follower_.reset();
  }

  boost::asio::io_context& io() { return io_; }
  Central& server() { return *server_; }

 private:
  Outcome<void> follow(std::shared_ptr<const Instances> first) {
    live::Follower::Setup setup;
    setup.role = "central";
    setup.sections = {"central", "plugins", "task"};
    setup.strand = io_.get_executor();
    setup.config = config_;
    setup.plugins = plugins_.get();
    setup.needs = needs_of;
    const auto last = std::make_shared<std::shared_ptr<const Instances>>(std::move(first));  // of the follower's thread
    setup.prepare = [this, last](const live::Update& update) -> Outcome<std::function<void()>> {
      BOOST_OUTCOME_TRY(auto made, make_instances(*update.config, *update.plugins, last->get()));
      // The old ones go with the closure, on the follower's thread: closing a library takes a moment.
      auto old = std::exchange(*last, made);
      return std::function<void()>([this, update, made, old = std::move(old)] {
        config_ = update.config;
        server_->apply({update.config, made->transport, made->balancer, made->chooser});
      });
    };
    BOOST_OUTCOME_TRY(follower_, live::Follower::start(std::move(setup)));
    return done();
  }

  /// Devices and nodes do not need them: without them nobody leads the groups, and the next who asks has them opened.
  void open_leases() {
    Outcome<Leases> leases = Leases::open(leases_at_, Clock::now());
    if (leases) {
      leases_.emplace(std::move(leases).value());
      return;
    }
    std::string why = "the leases cannot be opened: " + describe(leases.error());
    if (why != no_leases_) spdlog::error("event=no_leases role=central reason=\"{}\"", escaped(why));
    no_leases_ = std::move(why);
  }

  Outcome<boost::json::object> lease(const boost::json::object& request) {
    if (!leases_) open_leases();
    if (!leases_) return Error{Errc::io_error, no_leases_};
    return lease_command(*leases_, request, Clock::now());
  }

  Outcome<boost::json::object> control(std::string_view command, const boost::json::object& request) {
    if (command == "status") {
      boost::json::object status = server_->status();
      status["plugins"] = plugin_host::plugins_json(plugins_->list());
      return status;
    }
    if (command == "config") {
      boost::json::object facts = config::config_facts(*config_, request);
      follower_->standing().add_to(facts);
      return facts;
    }
    if (command == "lease") return lease(request);
    if (command == "placement") {
      const boost::json::value* const number = request.if_contains("placement");
      boost::system::error_code failure;
      const auto wanted = number == nullptr ? 0 : number->to_number<std::uint64_t>(failure);
      if (failure) return Error{Errc::bad_input, "placement: a number is wanted, as `broker explain` shows it"};
      return server_->placement(wanted);
    }
    return Error{Errc::not_found, "central knows no command '" + escaped(command, kMaxNameBytes) +
                                      "': there are ping, status, config, lease and placement"};
  }

  boost::asio::io_context io_;
  config::Snapshot config_;
  std::unique_ptr<plugin_host::PluginHost> plugins_;
  std::unique_ptr<Central> server_;
  std::optional<Leases> leases_;
  AccountsPlace leases_at_;
  std::string no_leases_;  // why there are none
  std::unique_ptr<serving::ControlServer> controls_;
  std::unique_ptr<live::Follower> follower_;
};

/// True: this process is the one that serves the state folder. False: it was told to stop while it stood by.
Outcome<bool> take_lock(const config::StateDir& state, CentralLock& lock, bool waits,
                        std::optional<serving::HoldSignals>& opening) {
  BOOST_OUTCOME_TRY(const std::optional<int> holder, lock.take());
  if (!holder) return true;
  if (waits) return stand_by(state, lock, *holder, opening);
  return Error{Errc::not_allowed, "another central (pid " + std::to_string(*holder) + ") serves the state folder " +
                                      escaped(state.root.string()) +
                                      ": stop it first, or start this one with --standby"};
}

/// What another central may be doing by now is not to be disturbed: this process ends where it stands. Its successor
/// stands by.
[[noreturn]] void end_without_lead(const std::string& reason) {
  spdlog::error("event=lead_lost role=central reason=\"{}\"", escaped(reason, 500));
  spdlog::default_logger()->flush();
  std::_Exit(serving::kExitLeadLost);
}

/// A command line without a configuration misses it, and so does the next start that meets an empty database: no reason
/// not to serve.
void note(const config::StateDir& state, const AccountsPlace& place) {
  if (const Outcome<void> noted = note_accounts_place(state, place); !noted) {
    spdlog::warn("event=accounts_place_not_noted reason=\"{}\"", escaped(describe(noted.error()), 500));
  }
}

/// Until it is this central's turn. True: `lock` is held and watched. False: told to stop.
Outcome<bool> take_turn(const config::StateDir& state, const config::Config& config, AccountsPlace& place,
                        DatabaseLock& lock, std::optional<serving::HoldSignals>& opening) {
  const bool own_node = config.central.enabled && config.node.enabled;
  bool registered = !own_node;
  const auto attempt = [&]() -> Outcome<bool> {
    Outcome<void> known = done();
    if (!registered) {
      // `broker up` does it too, when the database is there at its start.
      known = register_local_node(state, place, config.node.name);
      if (!known && known.error().code == Errc::overloaded) return known.error();
    }
    Outcome<bool> taken = lock.take();
    if (!taken) return taken;  // by the time that this is mended, the node may be registered, too
    registered = true;
    if (!known) spdlog::warn("event=own_node_not_registered reason=\"{}\"", escaped(describe(known.error()), 500));
    if (place.installation != lock.installation()) {
      place.installation = lock.installation();
      note(state, place);
    }
    return taken;
  };
  Outcome<bool> ours = attempt();
  if (!ours && ours.error().code != Errc::overloaded) return ours;
  if (!ours || !ours.value()) ours = stand_by_database(state, attempt, opening);
  if (ours && ours.value()) lock.watch(end_without_lead);
  return ours;
}

Outcome<void> serve(const config::StateDir& state, const std::filesystem::path& config_folder,
                    const StandbySettings& settings) {
  std::optional<serving::HoldSignals> opening(std::in_place);
  // A mistake in it is told at the start, not by a standby in the hour of need.
  BOOST_OUTCOME_TRY(const config::Snapshot first, config::load(config_folder));
  if (settings.waits) {
    BOOST_OUTCOME_TRY(check_standby(*first));
  }
  BOOST_OUTCOME_TRY(CentralLock lock, CentralLock::open(config::central_lock(state)));
  BOOST_OUTCOME_TRY(const bool ours, take_lock(state, lock, settings.waits, opening));
  if (!ours) return done();
  AccountsPlace accounts = accounts_place(state, first->central);
  note(state, accounts);
  std::optional<DatabaseLock> lead;
  if (accounts.is_shared()) {
    lead.emplace(accounts, state);
    BOOST_OUTCOME_TRY(const bool turn, take_turn(state, *first, accounts, *lead, opening));
    if (!turn) return done();
    accounts.term = lead->term();
    spdlog::info("event=leading role=central term={}", accounts.term);
  }
  Process process;
  BOOST_OUTCOME_TRY(process.open(state, accounts, config_folder, settings.called));
  const auto stop = [&] {
    spdlog::info("event=stopping role=central");
    process.server().stop([&process] { process.io().stop(); });
  };
  const serving::StopSignals signals(process.io().get_executor(), stop, [&process] { process.io().stop(); });
  opening->release();
  spdlog::info("event=ready role=central listen={} key={}", process.server().url(),
               to_hex(process.server().channel_key()));
  process.io().run();
  spdlog::info("event=stopped role=central");
  return done();
}

}  // namespace

Outcome<void> check_standby(const config::Config& config) {
  if (!config.central.listen.ends_with(":0")) return done();
  return Error{Errc::bad_config, "central.listen: '" + config.central.listen +
                                     "': a standby serves at the address of the one before it: give it a port, not 0"};
}

int run_central(const config::StateDir& state, const std::filesystem::path& config_folder,
                const StandbySettings& settings) {
  const Outcome<void> served = serve(state, config_folder, settings);
  if (served) return 0;
  // Faults of a configuration come one to a line; each stays one line.
  std::string_view rest = served.error().detail;
  do {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    spdlog::error("event=cannot_start role=central code={} reason=\"{}\"", name_of(served.error().code),
                  escaped(rest.substr(0, end), 1024));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  } while (!rest.empty());
  // Want of memory or descriptors, or of a database, may pass by itself; everything else waits for somebody to act.
  const Errc code = served.error().code;
  return code == Errc::no_space || code == Errc::overloaded || code == Errc::shutting_down ? 1 : 2;
}

}  // namespace gearbox::central
