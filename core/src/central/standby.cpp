#include "central/standby.hpp"

#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json/object.hpp>

#include <string>

#include "config/central_files.hpp"
#include "gearbox/base/clock.hpp"
#include "gearbox/base/text.hpp"
#include "serving/control.hpp"
#include "serving/control_client.hpp"

namespace gearbox::central {

namespace asio = boost::asio;
namespace json = boost::json;

namespace {

constexpr milliseconds kLook{50};         // between two tries to get the lock
constexpr milliseconds kAsk{1'000};       // between two questions how the holder is
constexpr milliseconds kAnswer{2'000};    // for it to answer one
constexpr milliseconds kSilent{5'000};    // then it is said that it is silent
constexpr milliseconds kFullEnd{10'000};  // for the kernel to close what a dead holder had open

/// Waits until process `pid` has ended wholly: its lock goes a moment before its sockets.
void wait_for_end(int pid) {
  if (pid <= 0) return;
  const int descriptor = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (descriptor < 0) return;  // gone
  pollfd ended{descriptor, POLLIN, 0};
  ::poll(&ended, 1, static_cast<int>(kFullEnd.count()));
  ::close(descriptor);
}

class Standby {
 public:
  Standby(const config::StateDir& state, CentralLock& lock, int holder)
      : state_(state), lock_(lock), holder_(holder), look_(io_), ask_(io_), heard_(Clock::now()), begun_(heard_) {}

  Outcome<bool> run(std::optional<serving::HoldSignals>& held) {
    serving::ControlHandler handler = [this](std::string_view command, const json::object&) { return answer(command); };
    BOOST_OUTCOME_TRY(auto controls, serving::ControlServer::start(io_.get_executor(), config::standby_socket(state_),
                                                                   std::move(handler)));
    const serving::StopSignals signals(
        io_.get_executor(), [this] { end(); }, [this] { end(); });
    held.reset();
    spdlog::info("event=standing_by role=central active_pid={}", holder_);
    asio::co_spawn(io_, watch(this), asio::detached);
    look();
    io_.run();
    held.emplace();
    controls.reset();
    if (failed_) return *failed_;
    if (!ours_) {
      spdlog::info("event=stopped role=central standby=true");
      return false;
    }
    wait_for_end(holder_);
    spdlog::warn("event=taking_over role=central former_pid={} waited_ms={}", holder_,
                 elapsed(begun_, Clock::now()).count() / 1000);
    return true;
  }

 private:
  void end() {
    over_ = true;
    io_.stop();
  }

  void look() {
    const Outcome<std::optional<int>> taken = lock_.take();
    if (!taken || !taken.value()) {
      if (!taken) failed_ = taken.error();
      ours_ = taken.has_value();
      end();
      return;
    }
    if (*taken.value() > 0 && *taken.value() != holder_) {
      holder_ = *taken.value();
      heard_ = Clock::now();
    }
    look_.expires_after(kLook);
    look_.async_wait([this](const boost::system::error_code& cancelled) {
      if (!cancelled) look();
    });
  }

  static asio::awaitable<void> watch(Standby* self) {
    while (!self->over_) {
      std::string question = R"({"command":"status"})";
      const Outcome<std::string> answered = co_await serving::ask_control(
          self->io_.get_executor(), self->state_.central_socket(), std::move(question), kAnswer);
      self->note(answered.has_value(), Clock::now());
      self->ask_.expires_after(kAsk);
      boost::system::error_code cancelled;
      co_await self->ask_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
    }
  }

  void note(bool answered, Instant now) {
    if (answered) heard_ = now;
    const bool silent = now >= after(heard_, kSilent);
    if (silent == silent_) return;
    silent_ = silent;
    if (silent) {
      spdlog::warn(
          "event=active_central_silent pid={} hint=\"it lives and keeps the lock, so this one does not take over; if "
          "it "
          "is not to go on, end it with kill -9 {}\"",
          holder_, holder_);
    } else {
      spdlog::info("event=active_central_answers_again pid={}", holder_);
    }
  }

  Outcome<json::object> answer(std::string_view command) const {
    if (command != "status") {
      return Error{Errc::not_found, "a central that stands by knows no command '" + escaped(command, kMaxNameBytes) +
                                        "': there are ping and status"};
    }
    const Instant now = Clock::now();
    return json::object{{"role", "central"},
                        {"version", GEARBOX_VERSION},
                        {"pid", ::getpid()},
                        {"ready", true},
                        {"standby", true},
                        {"uptime_ms", elapsed(begun_, now).count() / 1000},
                        {"active_pid", holder_},
                        {"active_answers", !silent_},
                        {"active_heard_ms", elapsed(heard_, now).count() / 1000}};
  }

  const config::StateDir& state_;
  CentralLock& lock_;
  int holder_;
  asio::io_context io_{1};
  asio::steady_timer look_;
  asio::steady_timer ask_;
  Instant heard_;  // of the holder, last
  Instant begun_;
  bool silent_ = false;
  bool over_ = false;
  bool ours_ = false;
  std::optional<Error> failed_;
};

}  // namespace

Outcome<bool> stand_by(const config::StateDir& state, CentralLock& lock, int holder,
                       std::optional<serving::HoldSignals>& held) {
  Standby standby(state, lock, holder);
  return standby.run(held);
}

}  // namespace gearbox::central
