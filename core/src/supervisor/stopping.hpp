// stopping.hpp: the end of everything, in order: the node first, which drains within a bound and ends its workers; then
// workers that are left; central last.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/json/object.hpp>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/state_dir.hpp"
#include "gearbox/base/clock.hpp"
#include "supervisor/children.hpp"
#include "supervisor/supervisor.hpp"

namespace gearbox::supervisor {

/// What did not end by itself, or in time.
struct StopReport {
  std::uint64_t failed = 0;         // requests that the node ended with an error at its bound
  std::uint64_t kept = 0;           // those that it left in its journal
  std::vector<std::string> killed;  // roles
  bool hurried = false;             // somebody asked for that
  bool in_order() const { return failed == 0 && kept == 0 && killed.empty() && !hurried; }
};

/// One strand; must outlive what runs on `io`, and `setup` and `children` this.
class Stopping {
 public:
  Stopping(boost::asio::io_context& io, const SupervisorSetup& setup, Children& children);

  void on_say(std::function<void(std::string)> say) { say_ = std::move(say); }
  /// How it is going, for people: what it does, and how long that may take.
  void on_progress(std::function<void(const std::string&, milliseconds)> progress) { progress_ = std::move(progress); }
  /// Nothing runs any more. Called once.
  void on_done(std::function<void()> done) { done_ = std::move(done); }

  /// Begins it, or gives it another bound. `within`: what runs in the node has so long to end; empty: as the node's
  /// configuration says.
  void begin(std::optional<milliseconds> within);
  bool has_begun() const { return begun_; }
  /// The first time: what runs ends now, and what is still there after a few seconds is killed. Again: at once.
  void hurry();

  void child_ended(const Ended& ended);
  /// The node's own word at its end.
  void unfinished(std::uint64_t failed, std::uint64_t kept);

  /// within_ms, left_ms, open (requests of the node), hurried.
  boost::json::object facts() const;
  const StopReport& report() const { return report_; }

 private:
  static boost::asio::awaitable<void> tell_node(Stopping* self, std::optional<milliseconds> within);
  static boost::asio::awaitable<void> watch(Stopping* self);
  void go_on();
  milliseconds grace_of(std::string_view role) const;
  milliseconds left() const;
  void show();

  boost::asio::io_context& io_;
  const SupervisorSetup& setup_;
  Children& children_;
  boost::asio::steady_timer look_, kill_;
  bool begun_ = false;
  bool done_said_ = false;
  unsigned telling_ = 0;  // questions to the node that are under way
  milliseconds within_;
  Instant until_{};
  std::optional<std::uint64_t> open_;
  StopReport report_;
  std::function<void(std::string)> say_;
  std::function<void(const std::string&, milliseconds)> progress_;
  std::function<void()> done_;
};

/// What `broker drain` reads when the supervisor is gone.
std::filesystem::path stop_report_file(const config::StateDir& state);
/// Errors: io_error.
Outcome<void> write_stop_report(const std::filesystem::path& file, int pid, const StopReport& report);
struct WrittenStop {
  int pid = 0;
  StopReport report;
};
/// Errors: io_error; corrupt_data.
Outcome<WrittenStop> read_stop_report(const std::filesystem::path& file);

}  // namespace gearbox::supervisor
