#include "gear_facts/role_process.hpp"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "config/facts.hpp"
#include "gearbox/base/text.hpp"
#include "serving/control.hpp"
#include "serving/stop_signals.hpp"

namespace gearbox::gear_facts {

namespace json = boost::json;

namespace {

/// One running role, opened in order; closed in the reverse.
class Process {
 public:
  explicit Process(const RoleSetup& setup) : setup_(setup), started_(Clock::now()) {}
  ~Process() {
    controls_.reset();
    follower_.reset();
    role_.reset();
  }

  Outcome<void> run() {
    serving::HoldSignals opening;
    BOOST_OUTCOME_TRY(config_, config::load(setup_.config_folder));
    BOOST_OUTCOME_TRY(role_, setup_.make(io_, config_));
    serving::ControlHandler handler = [this](std::string_view command, const json::object& request) {
      return control(command, request);
    };
    BOOST_OUTCOME_TRY(controls_, serving::ControlServer::start(io_.get_executor(), setup_.socket, std::move(handler)));
    BOOST_OUTCOME_TRY(follow());
    const auto stop = [this] {
      spdlog::info("event=stopping role={}", setup_.name);
      role_->end([this] { io_.stop(); });
    };
    const serving::StopSignals signals(io_.get_executor(), stop, [this] { io_.stop(); });
    opening.release();
    role_->begin();
    spdlog::info("event=ready role={}", setup_.name);
    io_.run();
    spdlog::info("event=stopped role={}", setup_.name);
    return done();
  }

 private:
  Outcome<void> follow() {
    live::Follower::Setup setup;
    setup.role = setup_.name;
    setup.sections = {"gears", "plugins"};
    if (role_->plugins() == nullptr) setup.sections.pop_back();
    setup.strand = io_.get_executor();
    setup.config = config_;
    setup.plugins = role_->plugins();
    setup.needs = [this](const config::Config& config) { return role_->needs(config); };
    setup.prepare = [this](const live::Update& update) -> Outcome<std::function<void()>> {
      BOOST_OUTCOME_TRY(auto put_in_force, role_->prepare(update));
      return std::function<void()>([this, config = update.config, put_in_force = std::move(put_in_force)] {
        config_ = config;
        put_in_force();
      });
    };
    BOOST_OUTCOME_TRY(follower_, live::Follower::start(std::move(setup)));
    return done();
  }

  Outcome<json::object> control(std::string_view command, const json::object& request) {
    if (command == "status") {
      json::object status{{"role", setup_.name},
                          {"version", GEARBOX_VERSION},
                          {"pid", ::getpid()},
                          {"ready", true},
                          {"uptime_ms", elapsed(started_, Clock::now()).count() / 1000},
                          {"config_digest", config_->digest}};
      role_->add_status(status);
      return status;
    }
    if (command == "config") {
      json::object facts = config::config_facts(*config_, request);
      follower_->standing().add_to(facts);
      return facts;
    }
    Outcome<json::object> answer = role_->control(command, request);
    if (answer || answer.error().code != Errc::not_found || !answer.error().detail.empty()) return answer;
    return Error{Errc::not_found, setup_.name + " knows no command '" + escaped(command, kMaxNameBytes) +
                                      "': there are ping, status, config, " + std::string(role_->commands())};
  }

  const RoleSetup& setup_;
  Instant started_;
  boost::asio::io_context io_{1};
  config::Snapshot config_;
  std::unique_ptr<Role> role_;
  std::unique_ptr<serving::ControlServer> controls_;
  std::unique_ptr<live::Follower> follower_;
};

}  // namespace

int run_role(const RoleSetup& setup) {
  Process process(setup);
  const Outcome<void> served = process.run();
  if (served) return 0;
  // Faults of a configuration come one to a line; each stays one line.
  std::string_view rest = served.error().detail;
  do {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    spdlog::error("event=cannot_start role={} code={} reason=\"{}\"", setup.name, name_of(served.error().code),
                  escaped(rest.substr(0, end), 1024));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  } while (!rest.empty());
  // Want of memory or descriptors may pass by itself; everything else waits for somebody to act.
  return served.error().code == Errc::no_space ? 1 : 2;
}

}  // namespace gearbox::gear_facts
