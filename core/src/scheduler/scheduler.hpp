// scheduler.hpp: the role: leads or waits, and when it leads, decides each interval and has shifts ordered.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <memory>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "config/state_dir.hpp"
#include "gear_facts/ask.hpp"
#include "gear_facts/role_process.hpp"
#include "gearbox/plugin/gear.hpp"
#include "plugin_host/plugin_host.hpp"
#include "scheduler/decision_book.hpp"
#include "scheduler/hosts.hpp"
#include "scheduler/lease.hpp"
#include "scheduler/view.hpp"

namespace gearbox::scheduler {

/// The policy that is in force; null: its build is barred, and nothing is decided.
struct PolicyInForce {
  std::string name;
  std::shared_ptr<plugin::GearPolicy> policy;
  std::uint64_t edition = 0;
};
/// Errors: bad_plugin.
Outcome<PolicyInForce> policy_of(const config::Config& config, const plugin_host::Table& table,
                                 const PolicyInForce* last);

/// The role's work, on one strand. Its commands:
///   explain {group?, after?}: a page of decisions, newest first
///   groups {after?}: a page of the groups of all hosts that it decides on, as it saw them last
class Scheduler final : public gear_facts::Role {
 public:
  struct Setup {
    boost::asio::io_context* io = nullptr;  // outlives this
    config::StateDir state;
    config::Snapshot config;
    std::unique_ptr<plugin_host::PluginHost> plugins;
    PolicyInForce policy;
    LeaseStore store;
    milliseconds lease_ttl{6'000};
  };
  explicit Scheduler(Setup setup);
  ~Scheduler() override;

  void begin() override;
  void end(std::function<void()> ended) override;
  void add_status(boost::json::object& status) const override;
  Outcome<boost::json::object> control(std::string_view command, const boost::json::object& request) override;
  std::string_view commands() const override { return "explain, groups"; }
  plugin_host::PluginHost* plugins() override { return setup_.plugins.get(); }
  plugin_host::Needs needs(const config::Config& config) const override;
  Outcome<std::function<void()>> prepare(const live::Update& update) override;

 private:
  static boost::asio::awaitable<void> keep_lease(Scheduler* self);
  static boost::asio::awaitable<void> rounds(Scheduler* self);
  static boost::asio::awaitable<void> leave(Scheduler* self, std::function<void()> ended);
  void lease_answered(const Outcome<LeaseAnswer>& answer, Instant asked);
  void use_store(const LeaseStore& store);
  boost::asio::awaitable<void> one_round();
  bool is_outranked(Instant now);
  /// A decision that passed, and the group as it was then.
  struct Order {
    Noted noted;
    gear_facts::GroupFacts facts;
  };
  void take(const View& view, const std::vector<HostPtr>& there, std::vector<Decision> decisions);
  // ordering.cpp
  static boost::asio::awaitable<void> order_all(Scheduler* self, HostPtr host, std::vector<Order> orders);
  /// Price and order; what comes of it goes into its decision. The number of the shift; 0: none was ordered.
  boost::asio::awaitable<std::uint64_t> order(Order* passed, HostPtr host, std::uint64_t term);
  void told(std::string problem);

  Setup setup_;
  std::shared_ptr<PolicyInForce> last_policy_;  // of the follower's thread
  std::shared_ptr<LeaseStore> last_store_;      // likewise
  LeaseKeeper keeper_;
  bool asked_ = false;    // for the lease, and there was an answer, or none in time
  bool leaving_ = false;  // it asks for no lease any more
  boost::asio::steady_timer tick_;
  boost::asio::steady_timer lease_tick_;
  GroupNumbers numbers_;
  Misfits misfits_;
  std::shared_ptr<Hosts> hosts_;
  DecisionBook book_;
  std::vector<View::Left> left_;
  std::size_t groups_ = 0;
  std::uint64_t rounds_ = 0;
  microseconds last_round_{0};  // for the decision itself
  std::string problem_;         // why nothing is decided; empty: it is
};

}  // namespace gearbox::scheduler
