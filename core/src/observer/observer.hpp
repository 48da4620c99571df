// observer.hpp: asks every group's engine and the node, again and again, and tells what it saw as numbered snapshots.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <map>
#include <memory>
#include <set>
#include <string>

#include "config/config.hpp"
#include "config/state_dir.hpp"
#include "gear_facts/role_process.hpp"
#include "observer/group_watch.hpp"
#include "observer/link_responder.hpp"
#include "observer/links.hpp"

namespace gearbox::observer {

/// The role's work, on one strand. Its answers:
///   snapshot {after}: a page of groups, with the head of gear_facts::Snapshot
class Observer final : public gear_facts::Role {
 public:
  Observer(boost::asio::io_context& io, config::StateDir state, milliseconds interval,
           std::shared_ptr<LinkProber> links, std::unique_ptr<LinkResponder> responder = nullptr,
           config::LinksConfig links_config = {});

  void begin() override;
  void add_status(boost::json::object& status) const override;
  Outcome<boost::json::object> control(std::string_view command, const boost::json::object& request) override;
  std::string_view commands() const override { return "snapshot"; }
  Outcome<std::function<void()>> prepare(const live::Update& update) override;

 private:
  static boost::asio::awaitable<void> rounds(Observer* self);
  static boost::asio::awaitable<void> ask_group(Observer* self, std::string name);
  static boost::asio::awaitable<void> ask_node(Observer* self);
  static boost::asio::awaitable<void> probe(Observer* self, std::string peer);
  void begin_round();
  void use_links(const config::LinksConfig& links);
  void answer_probes();
  void take_node(const boost::json::object& status);
  gear_facts::Snapshot head() const;
  milliseconds stale_after() const;

  boost::asio::io_context& io_;
  config::StateDir state_;
  milliseconds interval_;
  config::LinksConfig links_config_;  // in force
  std::shared_ptr<LinkProber> prober_;
  std::unique_ptr<LinkResponder> responder_;  // null: other hosts' probes are not answered
  std::string listen_fault_;                  // why they are not
  LinkBook links_;
  boost::asio::steady_timer tick_;
  std::map<std::string, GroupWatch> groups_;
  std::set<std::string> asking_;  // groups, peers with a '/' in front, "" for the node: never two questions at once
  std::size_t left_out_ = 0;
  gear_facts::Snapshot node_;                  // its queues and GPUs
  std::map<std::int64_t, std::string> pools_;  // of its workers that are in one, by pid
  Instant round_at_;
  std::uint64_t sequence_ = 0;
  std::string identity_;
};

}  // namespace gearbox::observer
