// node.hpp: one running node, put together by hand from its rooms.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <memory>
#include <string>
#include <unordered_set>

#include "config/config.hpp"
#include "config/state_dir.hpp"
#include "dispatch/dispatcher.hpp"
#include "explain/book.hpp"
#include "journal/journal.hpp"
#include "live/follower.hpp"
#include "node/central_dialler.hpp"
#include "node/central_link.hpp"
#include "node/facts.hpp"
#include "node/gear_streams.hpp"
#include "node/gpu_watch.hpp"
#include "node/instances.hpp"
#include "node/node_dialler.hpp"
#include "node/rank_streams.hpp"
#include "plugin_host/plugin_host.hpp"
#include "recording/recorder.hpp"
#include "serving/accept_loop.hpp"
#include "serving/unix_socket.hpp"
#include "session/device_session.hpp"
#include "session/requests.hpp"
#include "session/service.hpp"
#include "sinks/outbox.hpp"
#include "store/store.hpp"
#include "worker_pool/worker_pool.hpp"

namespace gearbox::node {

/// Strand: the io_context's one thread, which run() is.
class Node {
 public:
  /// Opens and reserves everything; nothing is served yet.
  /// Errors: bad_config, bad_plugin, no_space, io_error (a port in use, another node on this state folder): each with
  /// what it was.
  static Outcome<std::unique_ptr<Node>> create(const config::StateDir& state, config::Snapshot config,
                                               std::shared_ptr<worker_pool::Launcher> launcher,
                                               std::unique_ptr<boost::asio::io_context> io);
  ~Node();

  /// Serves until stop() has done its work.
  void run();
  /// Says so first, takes nothing new, finishes what runs within node.drain_ms, ends the workers; then run() returns.
  void stop();
  /// The same with another bound; also when it is stopping already. Zero: as hurry().
  void drain(milliseconds within);
  /// The same without waiting for anybody: what was acknowledged is left to the next process, where there is a journal.
  void hurry();
  /// Once run() has returned: requests were left unfinished, and nobody could be told.
  bool left_unsaid() const { return not_told_; }

  boost::asio::io_context& io() { return *io_; }
  const std::string& url() const { return url_; }

 private:
  Node(const config::StateDir& state, config::Snapshot config, std::unique_ptr<boost::asio::io_context> io);
  Outcome<void> open(std::shared_ptr<worker_pool::Launcher> launcher);
  void fill_service();
  void open_to_nodes();
  Outcome<void> open_journal();
  Outcome<void> open_sinks();
  Outcome<void> follow();
  void put_in_force(const live::Update& update, std::shared_ptr<const Instances> instances);
  Outcome<void> listen();
  void welcome(plugin::Connection connection, session::DeviceSession::Door door);
  static boost::asio::awaitable<void> attend(Node* node, std::shared_ptr<session::DeviceSession> session);
  Outcome<boost::json::object> control(std::string_view command, const boost::json::object& request);
  FactSources facts() const;
  boost::json::object config_facts(const boost::json::object& request) const;
  Outcome<boost::json::object> explain_request(const boost::json::object& request) const;
  void workers_changed();
  void close_revoked();
  void end_workers();
  Outcome<boost::json::object> drain_asked(const boost::json::object& request);
  static boost::asio::awaitable<void> tell_rest(Node* node);

  config::StateDir state_;
  config::Snapshot config_;
  std::unique_ptr<boost::asio::io_context> io_;
  Instant started_ = Clock::now();
  link::ChannelKeys channel_keys_;
  link::SigningKeys signing_keys_;
  std::unique_ptr<plugin_host::PluginHost> plugins_;
  std::shared_ptr<const Instances> instances_;
  std::unique_ptr<store::ResultStore> store_;
  std::unique_ptr<journal::Journal> journal_;
  std::unique_ptr<sinks::Outbox> sinks_;  // it calls the journal
  std::unique_ptr<worker_pool::WorkerPool> pool_;
  std::unique_ptr<dispatch::Dispatcher> dispatcher_;
  explain::Book explained_;
  recording::Recorder recorder_;
  session::Service service_;
  std::unique_ptr<session::Requests> requests_;
  std::shared_ptr<CentralLink> central_;
  std::shared_ptr<NodeDialler> other_nodes_;
  std::shared_ptr<RankStreams> rank_streams_;
  std::shared_ptr<GearStreams> gear_streams_;
  std::optional<serving::UnixListener> local_door_;
  std::shared_ptr<serving::AcceptLoop> device_loop_, local_loop_;
  std::unordered_set<session::DeviceSession*> sessions_;
  boost::asio::steady_timer drain_limit_;
  std::string url_;
  CentralDialler dial_central_;            // of the thread that dials
  std::vector<std::string> ready_models_;  // as last told to central
  bool stopping_ = false;
  bool ending_ = false;
  session::Requests::Rest rest_;              // what the drain did not finish
  bool not_told_ = false;                     // to the supervisor, which was there or not
  std::unique_ptr<GpuWatch> gpu_watch_;       // posts to the io_context
  std::unique_ptr<live::Follower> follower_;  // last: it uses the plugin host and posts to the io_context
};

}  // namespace gearbox::node
