// executor.hpp: has shifts done by the groups' engines: of the newest term only, one at a time for a group, and none of
// them forgotten.
//
// The engine rehearses and commits by itself. What is here may die at any moment: the engine goes on, and the next
// executor asks it what became of the shift that its ledger names.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include <map>
#include <string>

#include "config/state_dir.hpp"
#include "executor/ledger.hpp"
#include "gear_facts/ask.hpp"
#include "gear_facts/engine_status.hpp"
#include "gear_facts/role_process.hpp"
#include "gearbox/base/clock.hpp"

namespace gearbox::executor {

/// How long things may take.
struct Limits {
  milliseconds status{2'000};
  milliseconds price{10'000};
  milliseconds shift{300'000};
  milliseconds look{100};         // between two looks at a shift whose answer was lost
  milliseconds recover{300'000};  // for an engine that was lost in the middle
};

/// The role's work, on one strand. Its commands:
///   shift {group, gear, term, origin, decision, hold?} → {number}: it is under way; a person's without a term has the
///     newest one. Errors: not_allowed: an older term, a group that is held or a gear that is closed; not_found;
///     overloaded: it shifts already
///   outcome {number} → the entry of the history, or {"going_on": true, "step": ...}
///   groups {after, term?}: a page. `term`: of the scheduler that leads: older ones are not obeyed from then on, and a
///     person's orders carry it
///   history {group?, after}: a page;  hold {group, held};  allow {group, gears}
class Executor final : public gear_facts::Role {
 public:
  Executor(boost::asio::io_context& io, config::StateDir state, Ledger ledger, const Limits& limits = {});

  void begin() override;
  void add_status(boost::json::object& status) const override;
  Outcome<boost::json::object> control(std::string_view command, const boost::json::object& request) override;
  std::string_view commands() const override { return "shift, outcome, groups, history, hold, allow"; }
  Outcome<std::function<void()>> prepare(const live::Update& update) override;

 private:
  Outcome<boost::json::object> shift(const boost::json::object& request);
  Outcome<boost::json::object> outcome(const boost::json::object& request) const;
  Outcome<boost::json::object> groups(const boost::json::object& request);
  Outcome<boost::json::object> history(const boost::json::object& request) const;
  Outcome<boost::json::object> hold(const boost::json::object& request);
  Outcome<boost::json::object> allow(const boost::json::object& request);

  static boost::asio::awaitable<void> run(Executor* self, std::string group, Pending order);
  static boost::asio::awaitable<void> recover(Executor* self, std::string group, Pending order);
  boost::asio::awaitable<gear_facts::Answer> ask(std::string group, boost::json::object question, milliseconds within);
  boost::asio::awaitable<Outcome<gear_facts::EngineStatus>> status_of(std::string group);
  boost::asio::awaitable<boost::json::object> report_of(std::string group, Pending order);
  void finish(const std::string& group, const Pending& order, std::string why, boost::json::object report,
              bool recovered);
  bool is_there(const std::string& group) const;

  boost::asio::io_context& io_;
  config::StateDir state_;
  Ledger ledger_;
  Limits limits_;
  struct Running {
    std::uint64_t number = 0;
    std::string step;  // "pricing", "shifting", "asking what became of it"
  };
  std::map<std::string, Running> running_;  // by group
  std::string last_error_;                  // of the ledger
};

}  // namespace gearbox::executor
