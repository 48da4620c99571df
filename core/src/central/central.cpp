#include "central/central.hpp"

#include <spdlog/spdlog.h>
#include <unistd.h>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <chrono>
#include <utility>
#include <vector>

#include "central/server_state.hpp"
#include "central/status.hpp"
#include "gearbox/base/text.hpp"
#include "serving/accept_loop.hpp"

namespace gearbox::central {

using net::FrameStream;

namespace {

constexpr milliseconds kHousekeeping{2'000};
constexpr milliseconds kDrain{2'000};
constexpr milliseconds kLastSeenAtStop{500};

std::int64_t wall_clock_ms() {
  return std::chrono::duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::vector<std::pair<PublicKey, DeviceContact>> take_last_seen(ServerState& state) {
  const auto seen = std::exchange(state.last_seen, {});
  return {seen.begin(), seen.end()};
}

std::set<std::string> tasks_of(const config::Config& config) {
  std::set<std::string> tasks;
  for (const auto& [name, task] : config.tasks) tasks.insert(name);
  return tasks;
}

/// Writes now and then when devices were last seen; a login itself costs no write.
asio::awaitable<void> housekeep(std::shared_ptr<ServerState> state) {
  while (!state->stopping) {
    state->housekeeping.expires_after(kHousekeeping);
    auto [cancelled] = co_await state->housekeeping.async_wait(asio::as_tuple(asio::use_awaitable));
    if (cancelled || state->last_seen.empty()) continue;
    PasswordPool::Job job = [seen = take_last_seen(*state)](Accounts& accounts) {
      if (Outcome<std::size_t> written = accounts.saw_devices(seen); !written) {
        spdlog::warn("event=last_seen_not_written reason=\"{}\"", escaped(describe(written.error())));
      }
    };
    // A full queue of passwords goes first: what was seen is then not written, which only people miss.
    if (Outcome<void> taken = state->pool->submit("central", std::move(job)); !taken) {
      spdlog::debug("event=last_seen_not_written reason=\"{}\"", describe(taken.error()));
    }
  }
}

}  // namespace

struct Central::Running {
  std::shared_ptr<ServerState> state;
  std::shared_ptr<plugin::Transport> transport;
  std::shared_ptr<serving::AcceptLoop> loop;
};

Central::Central(std::unique_ptr<Running> running) : running_(std::move(running)) {}

Outcome<std::unique_ptr<Central>> Central::start(Setup setup) {
  const config::Config& config = *setup.config;
  const Instant now = Clock::now();
  Placement placement(setup.balancer, tasks_of(config), now, config.central.node_silent);
  placement.use(setup.balancer, setup.chooser);
  auto state = std::make_shared<ServerState>(setup.io->get_executor(), config.central, std::move(placement), now,
                                             wall_clock_ms());
  state->config_digest = config.digest;
  BOOST_OUTCOME_TRY(state->channel, link::load_or_make_channel_keys(setup.state.central_channel_key()));
  BOOST_OUTCOME_TRY(state->signing, link::load_or_make_signing_keys(setup.state.central_signing_key()));
  state->key_id = to_text(state->signing.public_key).substr(0, 8);  // short: it travels in every ticket
  AccountsPlace place = setup.accounts.value_or(accounts_place(setup.state, config::CentralConfig{}));
  place.on_loop = true;
  BOOST_OUTCOME_TRY(state->accounts, Accounts::open(place, OnDamage::restore));
  place.on_loop = false;
  BOOST_OUTCOME_TRY(state->pool, PasswordPool::start(place, config.central.password_checks_at_once));

  BOOST_OUTCOME_TRY(plugin::Listening listening, setup.transport->listen(config.central.listen));
  state->url = listening.url;
  const std::uint64_t descriptors = serving::raise_descriptor_limit();
  if (descriptors < std::uint64_t{config.central.max_connections} + 64) {
    spdlog::warn("event=few_descriptors limit={} max_connections={} hint=\"raise the limit on open files\"",
                 descriptors, config.central.max_connections);
  }

  serving::AcceptLoop::Setup accepting;
  accepting.executor = state->executor;
  accepting.listening = listening.descriptor;
  auto running = std::make_unique<Running>();
  running->state = state;
  running->transport = setup.transport;
  accepting.accept = [at = running.get()](int descriptor) { return at->transport->accept(descriptor); };
  accepting.full = [state] { return state->open.size() >= state->config.max_connections; };
  accepting.accepted = [state](plugin::Connection connection) {
    auto stream = FrameStream::adopt(state->executor, connection.descriptor, std::move(connection.peer));
    if (!stream) {
      spdlog::error("event=adopt_failed reason=\"{}\"", escaped(describe(stream.error())));
      return;
    }
    state->open.insert(stream.value());
    asio::co_spawn(state->executor, serve_connection(state, stream.value(), std::move(connection.peer_group)),
                   asio::detached);
  };
  BOOST_OUTCOME_TRY(running->loop, serving::AcceptLoop::start(std::move(accepting)));
  asio::co_spawn(state->executor, housekeep(state), asio::detached);
  return std::unique_ptr<Central>(new Central(std::move(running)));
}

Central::~Central() {
  running_->loop->stop();
  running_->state->stopping = true;
  running_->state->housekeeping.cancel();
  for (const auto& stream : std::exchange(running_->state->open, {})) stream->close();
  running_->state->pool->stop();  // its threads post to the loop, which may end next
}

void Central::apply(Change change) {
  ServerState& state = *running_->state;
  running_->transport = std::move(change.transport);
  state.placement.use(std::move(change.balancer), std::move(change.chooser));
  if (change.config->digest == state.config_digest) return;
  const config::CentralConfig& central = change.config->central;
  state.placement.know(tasks_of(*change.config));
  state.registry.silent_after(central.node_silent);
  state.limiter.allow(central.password_tries_per_minute);
  state.config = central;
  state.config_digest = change.config->digest;
}

Outcome<boost::json::object> Central::placement(std::uint64_t number) const {
  return running_->state->placements.facts(number);
}

void Central::keep_leases(std::function<Outcome<boost::json::object>(const boost::json::object&)> lease) {
  running_->state->lease = std::move(lease);
}

const std::string& Central::url() const {
  return running_->state->url;
}

std::array<std::byte, 32> Central::channel_key() const {
  return running_->state->channel.public_key;
}

boost::json::object Central::status() const {
  return status_of(*running_->state, running_->loop->counters(), Clock::now());
}

void Central::stop(std::function<void()> stopped) {
  ServerState& state = *running_->state;
  if (std::exchange(state.stopping, true)) return;
  running_->loop->stop();
  state.housekeeping.cancel();
  for (const auto& stream : state.nodes_open) stream->close();
  if (const auto seen = take_last_seen(state); !seen.empty()) {
    // On the loop: who stops has little time, and only people miss what is left out.
    const Outcome<std::size_t> written = state.accounts->saw_devices(seen, after(Clock::now(), kLastSeenAtStop));
    if (!written) {
      spdlog::warn("event=last_seen_not_written reason=\"{}\"", escaped(describe(written.error())));
    } else if (written.value() < seen.size()) {
      spdlog::warn("event=last_seen_not_written devices={} reason=\"central stops\"", seen.size() - written.value());
    }
  }
  state.drained.expires_after(state.open.empty() ? milliseconds{0} : kDrain);
  state.drained.async_wait([held = running_->state, stopped = std::move(stopped)](boost::system::error_code) {
    for (const auto& stream : held->open) stream->close();  // who is still here has had its moment
    stopped();
  });
}

}  // namespace gearbox::central
