#include "central/database_standby.hpp"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/json/object.hpp>

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "gearbox/base/clock.hpp"
#include "gearbox/base/text.hpp"
#include "serving/control.hpp"

namespace gearbox::central {

namespace asio = boost::asio;
namespace json = boost::json;

namespace {

constexpr milliseconds kPause{500};  // between two tries

/// Only what nobody can mend at the database ends one that stands by: it takes this host's node with it. Rights that
/// are missing, a table that is locked, a disk that is full may be mended while it waits.
bool is_for_good(Errc code) {
  return code == Errc::wrong_server_key || code == Errc::unsupported_version;
}

/// Tries on a thread of its own, since a try takes seconds when the database is away; tells `told` on the loop.
class Tries {
 public:
  Tries(std::function<Outcome<bool>()> attempt, asio::io_context& io, std::function<void(Outcome<bool>)> told)
      : thread_([this, attempt = std::move(attempt), &io, told = std::move(told)] { run(attempt, io, told); }) {}
  Tries(const Tries&) = delete;
  Tries& operator=(const Tries&) = delete;
  ~Tries() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

 private:
  void run(const std::function<Outcome<bool>()>& attempt, asio::io_context& io,
           const std::function<void(Outcome<bool>)>& told) {
    for (;;) {
      Outcome<bool> ours = attempt();
      const bool goes_on = ours ? !ours.value() : !is_for_good(ours.error().code);
      asio::post(io, [&told, ours = std::move(ours)] { told(ours); });
      std::unique_lock lock(mutex_);
      if (changed_.wait_for(lock, kPause, [&] { return over_; })) return;
      if (!goes_on) {
        changed_.wait(lock, [&] { return over_; });
        return;
      }
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;  // last: it uses what is above
};

class DatabaseStandby {
 public:
  explicit DatabaseStandby(const config::StateDir& state) : state_(state), begun_(Clock::now()) {}

  Outcome<bool> run(std::function<Outcome<bool>()> attempt, std::optional<serving::HoldSignals>& held) {
    serving::ControlHandler handler = [this](std::string_view command, const json::object&) { return answer(command); };
    BOOST_OUTCOME_TRY(auto controls,
                      serving::ControlServer::start(io_.get_executor(), state_.central_socket(), std::move(handler)));
    const serving::StopSignals signals(
        io_.get_executor(), [this] { io_.stop(); }, [this] { io_.stop(); });
    held.reset();
    spdlog::info("event=standing_by role=central database=true");
    {
      const Tries tries(std::move(attempt), io_, [this](const Outcome<bool>& ours) { hear(ours); });
      io_.run();
    }
    held.emplace();
    controls.reset();
    if (last_ && !*last_ && is_for_good(last_->error().code)) return last_->error();
    if (!last_ || !*last_ || !last_->value()) {
      spdlog::info("event=stopped role=central standby=true");
      return false;
    }
    spdlog::warn("event=taking_over role=central database=true waited_ms={}",
                 elapsed(begun_, Clock::now()).count() / 1000);
    return true;
  }

 private:
  void hear(const Outcome<bool>& ours) {
    const bool failed_before = last_ && !*last_;
    const std::string told = failed_before ? last_->error().detail : std::string();
    const bool away_before = failed_before && last_->error().code == Errc::overloaded;
    last_ = ours;
    if (!ours && is_for_good(ours.error().code)) return io_.stop();
    if (!ours) {
      const bool away = ours.error().code == Errc::overloaded;
      const std::string reason = escaped(ours.error().detail, 500);
      if (away && !away_before) {
        spdlog::warn("event=database_away reason=\"{}\"", reason);
      } else if (!away && ours.error().detail != told) {
        spdlog::error("event=database_refuses code={} reason=\"{}\"", name_of(ours.error().code), reason);
      }
      return;
    }
    if (failed_before) spdlog::info("event=database_answers_again");
    if (ours.value()) io_.stop();
  }

  Outcome<json::object> answer(std::string_view command) const {
    if (command != "status") {
      return Error{Errc::not_found, "a central that stands by knows no command '" + escaped(command, kMaxNameBytes) +
                                        "': there are ping and status"};
    }
    const bool answers = last_ && *last_;
    json::object status{{"role", "central"},      {"version", GEARBOX_VERSION},
                        {"pid", ::getpid()},      {"ready", answers},
                        {"standby", true},        {"uptime_ms", elapsed(begun_, Clock::now()).count() / 1000},
                        {"active_answers", true}, {"database_answers", answers}};
    if (last_ && !*last_) status["reason"] = last_->error().detail;
    return status;
  }

  const config::StateDir& state_;
  asio::io_context io_{1};
  Instant begun_;
  std::optional<Outcome<bool>> last_;  // what the last try gave
};

}  // namespace

Outcome<bool> stand_by_database(const config::StateDir& state, std::function<Outcome<bool>()> attempt,
                                std::optional<serving::HoldSignals>& held) {
  DatabaseStandby standby(state);
  return standby.run(std::move(attempt), held);
}

}  // namespace gearbox::central
