#include "serving/accept_loop.hpp"

#include <spdlog/spdlog.h>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <exception>
#include <utility>

#include "gearbox/base/text.hpp"
#include "serving/log_budget.hpp"

namespace gearbox::serving {

namespace {
constexpr int kAcceptsPerTurn = 64;  // then others of the strand get their turn

int open_spare() {
  return ::open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/// A plugin's accept may throw; that is its fault, never the server's end.
Outcome<plugin::Connection> guarded(const AcceptLoop::Accept& accept, int listening) {
  try {
    return accept(listening);
  } catch (const std::exception& caught) {
    return Error{Errc::plugin_fault, std::string("accept threw: ") + caught.what()};
  } catch (...) {
    return Error{Errc::plugin_fault, "accept threw"};
  }
}
}  // namespace

struct AcceptLoop::State {
  explicit State(Setup given)
      : setup(std::move(given)), listening(setup.executor), pause(setup.executor), spare(open_spare()) {}
  ~State() {
    if (spare >= 0) ::close(spare);
  }
  Setup setup;
  asio::posix::stream_descriptor listening;
  asio::steady_timer pause;
  int spare;
  bool stopped = false;
  Counters counters;
  LogBudget log{5, seconds{10}};
};

AcceptLoop::AcceptLoop(std::unique_ptr<State> state) : state_(std::move(state)) {}
AcceptLoop::~AcceptLoop() = default;

Outcome<std::shared_ptr<AcceptLoop>> AcceptLoop::start(Setup setup) {
  const int descriptor = setup.listening;
  const asio::any_io_executor executor = setup.executor;
  auto state = std::make_unique<State>(std::move(setup));
  boost::system::error_code failed;
  state->listening.assign(descriptor, failed);
  if (failed) {
    ::close(descriptor);
    return Error{Errc::io_error, "cannot watch the listening descriptor: " + failed.message()};
  }
  std::shared_ptr<AcceptLoop> loop(new AcceptLoop(std::move(state)));
  asio::co_spawn(executor, run(loop), asio::detached);  // ends after stop()
  return loop;
}

void AcceptLoop::stop() {
  if (std::exchange(state_->stopped, true)) return;
  boost::system::error_code ignored;  // closing cannot fail in a way that anybody could act on
  state_->listening.close(ignored);
  state_->pause.cancel();
}

const AcceptLoop::Counters& AcceptLoop::counters() const {
  return state_->counters;
}

asio::awaitable<void> AcceptLoop::run(std::shared_ptr<AcceptLoop> self) {
  State& state = *self->state_;
  while (!state.stopped) {
    auto [failed] = co_await state.listening.async_wait(asio::posix::stream_descriptor::wait_read,
                                                        asio::as_tuple(asio::use_awaitable));
    if (state.stopped) break;
    if (!failed && !self->take_waiting()) continue;
    ++state.counters.pauses;
    state.pause.expires_after(state.setup.pause);
    [[maybe_unused]] auto [cut_short] = co_await state.pause.async_wait(asio::as_tuple(asio::use_awaitable));
  }
}

/// True when it is better to pause before the next try.
bool AcceptLoop::take_waiting() {
  State& state = *state_;
  for (int i = 0; i < kAcceptsPerTurn && !state.stopped; ++i) {
    Outcome<plugin::Connection> taken = guarded(state.setup.accept, state.listening.native_handle());
    if (taken) {
      if (state.setup.full && state.setup.full()) {
        ++state.counters.refused;
        ::close(taken.value().descriptor);
        continue;
      }
      ++state.counters.accepted;
      state.setup.accepted(std::move(taken).value());
      continue;
    }
    switch (taken.error().code) {
      case Errc::short_frame:
        return false;
      case Errc::closed:
        continue;
      case Errc::no_space:
        refuse_with_spare();
        return true;
      default:
        ++state.counters.failed;
        if (state.log.allows(Clock::now())) {
          spdlog::error("event=accept_failed reason=\"{}\"{}", escaped(describe(taken.error())), state.log.note());
        }
        return true;
    }
  }
  return false;
}

void AcceptLoop::refuse_with_spare() {
  State& state = *state_;
  if (state.log.allows(Clock::now())) {
    spdlog::warn("event=descriptors_used_up action=pause pause_ms={}{}", state.setup.pause.count(), state.log.note());
  }
  if (state.spare < 0) {  // somebody else took it in the meantime
    state.spare = open_spare();
    return;
  }
  ::close(std::exchange(state.spare, -1));
  if (Outcome<plugin::Connection> taken = guarded(state.setup.accept, state.listening.native_handle()); taken) {
    ::close(taken.value().descriptor);
    ++state.counters.refused;
  }
  state.spare = open_spare();
}

std::uint64_t raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  if (limit.rlim_cur < limit.rlim_max) {
    rlimit wanted = limit;
    wanted.rlim_cur = limit.rlim_max;
    if (::setrlimit(RLIMIT_NOFILE, &wanted) == 0) limit = wanted;
  }
  return limit.rlim_cur;
}

}  // namespace gearbox::serving
