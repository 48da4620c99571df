#include "live/follower.hpp"

#include <pthread.h>
#include <signal.h>
#include <spdlog/spdlog.h>

#include <boost/asio/post.hpp>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "config/compare.hpp"
#include "gearbox/base/text.hpp"
#include "live/config_folder.hpp"

namespace gearbox::live {

namespace {

constexpr std::size_t kMaxErrorBytes = 16 * 1024;  // it travels in a control frame beside other facts

std::int64_t wall_ms() {
  return std::chrono::duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Faults come one to a line; each is one line of the log.
void log_lines(const std::string& role, const std::string& text) {
  std::string_view rest = text;
  do {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    spdlog::error("{}: configuration refused, the one in force stays: {}", role, escaped(rest.substr(0, end), 1024));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  } while (!rest.empty());
}

/// What is handed to the strand: run once, unless it was given up before.
struct Handover {
  std::mutex mutex;
  std::condition_variable changed;
  std::function<void()> commit;
  bool over = false;  // run, or given up
};

}  // namespace

struct Follower::State {
  explicit State(Setup its_setup) : setup(std::move(its_setup)), folder(setup.config), config(setup.config) {}

  Setup setup;
  std::unique_ptr<watch::Watcher> watcher;
  std::thread thread;

  // The thread's own.
  ConfigFolder folder;
  config::Snapshot config;               // in force
  std::optional<config::Snapshot> next;  // valid, but refused by plugins or role: tried again when plugins change
  std::string plugins_error;             // told last
  std::shared_ptr<Handover> handing;     // under `mutex`

  mutable std::mutex mutex;  // of what follows
  bool stopping = false;
  Standing standing;

  void run();
  Instant look();
  Outcome<void> take_over(const config::Snapshot& wanted, Instant& look_again);
  bool commit(std::function<void()> what);
  void refuse(const std::string& why);
  void log_changes(const config::Config& before, const config::Config& after) const;
};

/// Runs `what` on the strand and waits for it. False when the follower is stopped meanwhile.
bool Follower::State::commit(std::function<void()> what) {
  auto handover = std::make_shared<Handover>();
  handover->commit = std::move(what);
  {
    const std::lock_guard held(mutex);
    if (stopping) return false;
    handing = handover;
  }
  boost::asio::post(setup.strand, [handover] {
    const std::lock_guard held(handover->mutex);
    if (handover->over) return;
    handover->commit();
    handover->over = true;
    handover->changed.notify_all();
  });
  std::unique_lock held(handover->mutex);
  handover->changed.wait(held, [&] { return handover->over; });
  // Here and not on the strand: what was replaced may be destroyed with it.
  const bool ran = static_cast<bool>(handover->commit);
  handover->commit = nullptr;
  return ran;
}

void Follower::State::refuse(const std::string& why) {
  const std::string kept = why.substr(0, kMaxErrorBytes);
  {
    const std::lock_guard held(mutex);
    if (standing.error == kept) return;
    standing.error = kept;
  }
  log_lines(setup.role, kept);
}

void Follower::State::log_changes(const config::Config& before, const config::Config& after) const {
  const auto lines = config::lines_of(before, after, setup.sections);
  for (const std::string& line : lines) spdlog::info("{}: config {}", setup.role, line);
  spdlog::info("{}: configuration {} in force{}", setup.role, after.digest.substr(0, 12),
               lines.empty() ? "; nothing in it concerns this role" : "");
}

/// One attempt to have `wanted` and the plugins as they are now in force.
Outcome<void> Follower::State::take_over(const config::Snapshot& wanted, Instant& look_again) {
  const std::string fault = config::restart_fault(config::compare(*config, *wanted));
  if (!fault.empty()) return Error{Errc::bad_config, fault};
  plugin_host::PluginHost::Look look;
  if (setup.plugins != nullptr) {
    BOOST_OUTCOME_TRY(look, setup.plugins->look(wanted->plugins, setup.needs(*wanted), wanted != config));
  }
  look_again = std::min(look_again, look.look_again);
  if (wanted == config && (setup.plugins == nullptr || look.table == setup.plugins->table())) return done();
  Update update{wanted, look.table};
  BOOST_OUTCOME_TRY(auto put_in_force, setup.prepare(update));
  if (!commit(std::move(put_in_force))) return done();  // stopping
  if (setup.plugins != nullptr) setup.plugins->use(look.table);
  if (wanted == config) return done();
  log_changes(*config, *wanted);
  config = wanted;
  const std::lock_guard held(mutex);
  standing.since_unix_ms = wall_ms();
  ++standing.reloads;
  return done();
}

Instant Follower::State::look() {
  Instant look_again = Instant::max();
  ConfigFolder::Seen seen = folder.look(Clock::now());
  look_again = std::min(look_again, seen.look_again);
  if (!seen.waits_for.empty()) refuse("waits: " + seen.waits_for);
  if (seen.what == ConfigFolder::Seen::What::read) {
    next.reset();
    if (!seen.config) {
      refuse(seen.config.error().detail);
    } else if (seen.config.value()->digest == config->digest) {
      const std::lock_guard held(mutex);
      standing.error.clear();  // back to what is in force
    } else {
      next = seen.config.value();
    }
  }
  if (next) {
    const auto taken = take_over(*next, look_again);
    if (taken) {
      next.reset();
      const std::lock_guard held(mutex);
      standing.error.clear();
    } else {
      refuse(taken.error().detail);
    }
  }
  // With a configuration that is refused the plugins go on following the one in force.
  const auto followed = take_over(config, look_again);
  const std::string error = followed ? std::string() : describe(followed.error());
  if (error != plugins_error && !error.empty()) spdlog::error("{}: plugins: {}", setup.role, escaped(error, 1024));
  plugins_error = error;
  return look_again;
}

void Follower::State::run() {
  // Signals are the strand's business.
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  pthread_setname_np(pthread_self(), "follower");
  Instant look_again = Clock::now();
  while (watcher->wait(look_again)) look_again = look();
}

Follower::Follower(std::unique_ptr<State> state) : state_(std::move(state)) {}

Outcome<std::unique_ptr<Follower>> Follower::start(Setup setup) {
  auto state = std::make_unique<State>(std::move(setup));
  State* const at = state.get();
  state->setup.config.reset();  // `config` is the one in force from here on; an old one must not be held
  state->standing.since_unix_ms = wall_ms();
  const auto folders = [at] {
    std::vector<std::filesystem::path> all = at->folder.folders();
    if (at->setup.plugins == nullptr) return all;
    for (auto& path : at->setup.plugins->folders()) all.push_back(std::move(path));
    return all;
  };
  BOOST_OUTCOME_TRY(state->watcher, watch::Watcher::create(folders, state->setup.watching));
  if (state->setup.plugins != nullptr) state->setup.plugins->on_trouble([at] { at->watcher->hurry(); });
  state->thread = std::thread([at] { at->run(); });
  return std::unique_ptr<Follower>(new Follower(std::move(state)));
}

Follower::~Follower() {
  plugin_host::PluginHost* const plugins = state_->setup.plugins;
  if (plugins != nullptr) plugins->on_trouble(nullptr);
  std::shared_ptr<Handover> handing;
  {
    const std::lock_guard held(state_->mutex);
    state_->stopping = true;
    handing = std::move(state_->handing);
  }
  state_->watcher->stop();
  if (plugins != nullptr) plugins->interrupt();
  if (handing) {
    // Destroyed on the strand, which therefore runs nothing else now: either it has run, or it never will.
    const std::lock_guard held(handing->mutex);
    if (!handing->over) handing->commit = nullptr;
    handing->over = true;
    handing->changed.notify_all();
  }
  state_->thread.join();
}

Follower::Standing Follower::standing() const {
  const std::lock_guard held(state_->mutex);
  return state_->standing;
}

void Follower::Standing::add_to(boost::json::object& facts) const {
  facts["since_unix_ms"] = since_unix_ms;
  facts["error"] = error;
  facts["reloads"] = reloads;
}

void Follower::hurry() {
  state_->watcher->hurry();
}

}  // namespace gearbox::live
