#include "supervisor/roles.hpp"

#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <system_error>
#include <utility>

#include "config/central_files.hpp"
#include "serving/control_client.hpp"
#include "serving/local_socket.hpp"
#include "supervisor/orders.hpp"
#include "supervisor/readiness.hpp"

namespace gearbox::supervisor {

namespace asio = boost::asio;

namespace {

constexpr milliseconds kStatusWait{2000};
constexpr milliseconds kPollWhileStarting{200};
constexpr milliseconds kPollWhenReady{1000};
constexpr milliseconds kHangLook{1000};
constexpr int kExitRefused = 2;

}  // namespace

Roles::Roles(asio::io_context& io, const SupervisorSetup& setup, std::string executable, Children& children)
    : io_(io),
      setup_(setup),
      executable_(std::move(executable)),
      children_(children),
      charges_(setup.state),
      tick_(io) {
  add("central", setup_.state.central_socket(), setup_.central);
  add("standby", config::standby_socket(setup_.state), setup_.standby);
  add("node", setup_.state.node_socket(), setup_.node);
  for (const char* name : {"observer", "executor", "scheduler"}) {
    add(name, setup_.state.run() / (std::string(name) + ".sock"), setup_.gears);
  }
}

Roles::~Roles() = default;

void Roles::add(std::string name, std::filesystem::path socket, bool wanted) {
  Role role;
  role.name = std::move(name);
  role.socket = std::move(socket);
  role.wanted = wanted;
  role.restart = std::make_unique<asio::steady_timer>(io_);
  role.poll = std::make_unique<asio::steady_timer>(io_);
  roles_.push_back(std::move(role));
}

const Roles::Role* Roles::find(std::string_view name) const {
  const auto found = std::find_if(roles_.begin(), roles_.end(), [&](const Role& role) { return role.name == name; });
  return found == roles_.end() ? nullptr : &*found;
}

Roles::Role* Roles::find(std::string_view name) {
  return const_cast<Role*>(std::as_const(*this).find(name));  // *this is not const: neither is what it holds
}

bool Roles::wants(std::string_view role) const {
  const Role* found = find(role);
  return found != nullptr && found->wanted;
}

unsigned Roles::restarts(std::string_view role) const {
  const Role* found = find(role);
  return found == nullptr ? 0U : found->restarts;
}

bool Roles::all_answered() const {
  return std::all_of(roles_.begin(), roles_.end(), [](const Role& role) { return !role.wanted || role.answered; });
}

std::string Roles::summary() const {
  std::string line;
  for (const Role& role : roles_) {
    if (!role.wanted) continue;
    line += (line.empty() ? "" : "; ") + (role.shown.empty() ? role.name + " starts" : role.shown);
  }
  return line;
}

void Roles::begin() {
  for (Role& role : roles_) {
    if (!stopping_) begin(role);
  }
  if (!stopping_) tick();
}

void Roles::begin(Role& role) {
  if (!role.wanted) return;
  const int adopted = children_.pid_of(role.name);
  // Whoever serves the role's socket must be the process of a record; another one was started by other hands. Not only
  // of its own: of central and its standby either may serve.
  if (const Outcome<int> socket = serving::connect_local(role.socket)) {
    const Outcome<serving::PeerIdentity> peer = serving::peer_of(socket.value());
    ::close(socket.value());
    if (peer && !children_.knows(peer.value().pid) && !ends_soon(peer.value().pid)) {
      role.wanted = false;
      give_up_(role.socket.string() + " is served by process " + std::to_string(peer.value().pid) +
               ", which no record of a supervisor names: stop it first");
      return;
    }
  }
  if (adopted == 0) start(role);
  asio::co_spawn(io_, watch(this, &role), asio::detached);
}

void Roles::start(Role& role) {
  charges_.role_starts(role.name);
  std::vector<std::string> argv = {executable_, role.name};
  if (setup_.standby && is_central(role.name)) argv = {executable_, "central", "--standby", "--called", role.name};
  for (const std::string& word :
       {std::string("--config"), setup_.config_folder.string(), std::string("--state"), setup_.state.root.string()}) {
    argv.push_back(word);
  }
  const Outcome<int> pid = children_.start(role.name, std::move(argv), {});
  if (pid) return;
  if (pid.error().code == Errc::no_space) {
    say_(pid.error().detail);
    start_in(role, next_pause(role));
    return;
  }
  give_up_(role.name + ": " + pid.error().detail);
}

milliseconds Roles::next_pause(Role& role) const {
  role.pause = role.pause.count() == 0 ? setup_.first_restart : std::min(role.pause * 2, setup_.longest_restart);
  return role.pause;
}

void Roles::start_in(Role& role, milliseconds pause) {
  ++role.restarts;
  say_(role.name + " is started again " +
       (pause.count() == 0 ? "at once" : "in " + std::to_string(pause.count()) + " ms"));
  role.restart->expires_after(pause);
  role.restart->async_wait([this, &role](const boost::system::error_code& error) {
    if (!error && !stopping_) start(role);
  });
}

PluginCharges::Verdict Roles::judge(const Ended& ended) {
  if (find(ended.role) == nullptr) return {};
  Ended seen = ended;
  seen.asked = ended.asked || stopping_;
  return charges_.role_ended(seen);
}

bool Roles::refuses(const Ended& ended) const {
  const Role* role = find(ended.role);
  return role != nullptr && role->wanted && ended.exit_code == kExitRefused && !role->was_ready;
}

void Roles::start_again(const Ended& ended, bool at_once) {
  Role* role = find(ended.role);
  if (role == nullptr || !role->wanted || stopping_) return;
  role->shown.clear();
  role->answered = false;
  if (change_) change_();
  if (ended.lived >= setup_.steady) role->pause = milliseconds{0};
  start_in(*role, at_once ? milliseconds{0} : next_pause(*role));
}

/// Asks the role now and then how it is, and tells when that changes.
asio::awaitable<void> Roles::watch(Roles* self, Role* role) {
  while (!self->stopping_) {
    std::string question = R"({"command":"status"})";
    Outcome<std::string> status =
        co_await serving::ask_control(self->io_.get_executor(), role->socket, std::move(question), kStatusWait);
    if (self->stopping_) break;
    bool ready = false;
    if (status) {
      Outcome<Readiness> readiness = read_readiness(role->name, status.value());
      if (readiness) {
        ready = readiness.value().ready;
        role->was_ready = role->was_ready || ready;
        const bool first = !std::exchange(role->answered, true);
        // What is still starting is told once it stays so; being ready at once.
        if (readiness.value().line != role->shown) {
          role->shown = readiness.value().line;
          self->say_(role->shown);
          if (self->change_) self->change_();
        } else if (first && self->change_) {
          self->change_();
        }
      }
    }
    role->poll->expires_after(ready ? kPollWhenReady : kPollWhileStarting);
    boost::system::error_code cancelled;
    co_await role->poll->async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
  }
}

void Roles::tick() {
  tick_.expires_after(kHangLook);
  tick_.async_wait([this](const boost::system::error_code& error) {
    if (error || stopping_) return;
    look_for_hangs();
    tick();
  });
}

void Roles::look_for_hangs() {
  const Instant now = Clock::now();
  for (const ChildView& child : children_.list()) {
    if (child.stopping || !wants(child.role)) continue;
    const PluginCharges::Verdict verdict = charges_.look(child.role, child.pid, now);
    if (!verdict.to_blame) continue;
    say_(verdict.line);
    say_(child.role + " (pid " + std::to_string(child.pid) + ") is killed");
    children_.kill(child.pid);
  }
}

void Roles::stop() {
  stopping_ = true;
  tick_.cancel();
  for (Role& role : roles_) {
    role.restart->cancel();
    role.poll->cancel();
  }
}

void Roles::remove_sockets() const {
  std::error_code gone;
  for (const Role& role : roles_) {
    const Outcome<int> served = serving::connect_local(role.socket);  // by other hands than ours: not ours to remove
    if (served) ::close(served.value());
    if (role.wanted && !served) std::filesystem::remove(role.socket, gone);
  }
  if (wants("node")) std::filesystem::remove(setup_.state.workers_socket(), gone);
  // Those of groups whose drivers were killed.
  for (std::filesystem::directory_iterator at(setup_.state.groups(), gone), end; !gone && at != end;
       at.increment(gone)) {
    std::error_code unknown;
    if (!at->is_socket(unknown)) continue;
    const Outcome<int> served = serving::connect_local(at->path());
    if (served) ::close(served.value());
    if (!served) std::filesystem::remove(at->path(), unknown);
  }
}

}  // namespace gearbox::supervisor
