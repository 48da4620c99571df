#include "node/node.hpp"

#include <unistd.h>

#include <spdlog/spdlog.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>

#include <algorithm>
#include <optional>
#include <utility>

#include "config/facts.hpp"
#include "explain/json.hpp"
#include "gearbox/base/text.hpp"
#include "node/quarantine_facts.hpp"
#include "node/recording_facts.hpp"
#include "serving/control.hpp"

namespace gearbox::node {

namespace asio = boost::asio;
using session::DeviceSession;

namespace {
/// Room for every open request's widest step would be unbounded; a queue of some calls for each open request is not.
std::size_t queue_limit(const config::Config& config) {
  return std::size_t{config.node.limits.max_requests} * 16;
}
}  // namespace

Node::Node(const config::StateDir& state, config::Snapshot config, std::unique_ptr<asio::io_context> io)
    : state_(state),
      config_(std::move(config)),
      io_(std::move(io)),
      explained_(config_->node.explain_requests),
      recorder_(config_->node.recorded_requests, started_),
      drain_limit_(*io_),
      dial_central_(state_.central_socket(), config_->node) {}

Node::~Node() {
  follower_.reset();
  gpu_watch_.reset();
  // Coroutines that still wait hold streams and requests: they go with the io_context's queue, before what they refer
  // to.
  // The threads of store and journal call back into the requests, and a dial into the plugins: all end first.
  store_.reset();
  if (journal_ && ending_) journal_->ends_in_order();
  sinks_.reset();
  journal_.reset();
  service_.journal = nullptr;
  service_.sinks = nullptr;
  service_.store = nullptr;
  if (central_) {
    central_->stop();
    central_->join();
  }
  if (other_nodes_) other_nodes_->join();
  for (DeviceSession* session : sessions_) session->close();
  if (device_loop_) device_loop_->stop();
  if (local_loop_) local_loop_->stop();
  io_->restart();
  io_->poll();
}

Outcome<std::unique_ptr<Node>> Node::create(const config::StateDir& state, config::Snapshot config,
                                            std::shared_ptr<worker_pool::Launcher> launcher,
                                            std::unique_ptr<asio::io_context> io) {
  std::unique_ptr<Node> node(new Node(state, std::move(config), std::move(io)));
  BOOST_OUTCOME_TRY(node->open(std::move(launcher)));
  return node;
}

Outcome<void> Node::open(std::shared_ptr<worker_pool::Launcher> launcher) {
  link::crypto_ready();
  BOOST_OUTCOME_TRY(channel_keys_, link::load_or_make_channel_keys(state_.node_channel_key()));
  BOOST_OUTCOME_TRY(signing_keys_, link::load_or_make_signing_keys(state_.node_signing_key()));
  plugin_host::HostPaths paths;
  paths.shipped = plugin_host::shipped_plugins();
  paths.dropped = config_->plugins.folder;
  paths.copies = state_.plugin_copies();
  paths.checker = plugin_host::own_executable();
  paths.calling = state_.calling_record("node");
  paths.state = state_.root;
  BOOST_OUTCOME_TRY(plugins_, plugin_host::PluginHost::open(paths, config_->plugins, needs_of(*config_)));
  BOOST_OUTCOME_TRY(instances_, make_instances(*config_, *plugins_->table(), nullptr));
  BOOST_OUTCOME_TRY(listen());
  if (config_->node.store.enabled) {
    BOOST_OUTCOME_TRY(store_, store::ResultStore::open(state_.store(), config_->node.store));
  }
  BOOST_OUTCOME_TRY(open_journal());
  BOOST_OUTCOME_TRY(open_sinks());
  worker_pool::WorkerPool::Setup setup;
  setup.io = io_.get();
  setup.state = state_;
  setup.config = config_;
  setup.launcher = std::move(launcher);
  setup.shim = plugin_host::own_executable().parent_path() / "worker_shim";
  setup.look_at_gpus = [this] {
    if (gpu_watch_) gpu_watch_->look_now();
  };
  BOOST_OUTCOME_TRY(pool_, worker_pool::WorkerPool::create(std::move(setup)));
  BOOST_OUTCOME_TRY(gpu_watch_, GpuWatch::start(*io_, [this](gpu::Look look) { pool_->gpus_seen(std::move(look)); }));
  dispatcher_ =
      std::make_unique<dispatch::Dispatcher>(*pool_, instances_->balancer, queue_limit(*config_), instances_->chooser);
  fill_service();
  requests_ = std::make_unique<session::Requests>(service_);
  CentralLink::Setup central;
  central.io = io_.get();
  central.keys = signing_keys_;
  central.dial = [this](milliseconds within, bool another) { return dial_central_.dial(*plugins_, within, another); };
  central.remember = state_.root / "learned";
  central.centrals = central_keys(config_->node, state_.central_channel_key());
  central.report = [this] { return report_of(facts()); };
  central.learned = [this] { close_revoked(); };
  central_ = std::make_shared<CentralLink>(std::move(central));
  open_to_nodes();
  return follow();
}

/// What nodes have to do with each other.
void Node::open_to_nodes() {
  NodeDialler::Setup dialler;
  dialler.io = io_.get();
  dialler.keys = signing_keys_;
  dialler.central = central_;
  dialler.connect = [this](const std::string& url, Instant deadline) -> Outcome<plugin::Connection> {
    BOOST_OUTCOME_TRY(const auto transport, plugins_->transport_for(url));
    return transport->connect(url, deadline);
  };
  other_nodes_ = std::make_shared<NodeDialler>(std::move(dialler));
  RankStreams::Setup ranks;
  ranks.io = io_.get();
  ranks.hosts = state_.run() / "ranks";
  ranks.nodes = other_nodes_;
  rank_streams_ = std::make_shared<RankStreams>(std::move(ranks));
  GearStreams::Setup gears;
  gears.io = io_.get();
  gears.state = state_;
  gears.nodes = other_nodes_;
  gears.node = config_->node.name;
  gears.leaders = [this] { return config_->gears.leaders; };
  gears.still_good = service_.still_good;
  gears.time_left = [this](const wire::Ticket& ticket) { return central_->time_left(ticket); };
  gear_streams_ = std::make_shared<GearStreams>(std::move(gears));
}

Outcome<void> Node::open_journal() {
  const config::JournalConfig& wanted = config_->node.journal;
  if (wanted.level == "none") {
    spdlog::warn(
        "event=no_journal hint=\"node.journal.level = \\\"none\\\": acknowledged does not mean durable; what is "
        "open when this process dies is lost\"");
    return done();
  }
  journal::Journal::Setup setup;
  setup.folder = state_.journal();
  setup.level = wanted.level == "always" ? journal::Level::always : journal::Level::batch;
  setup.max_bytes = wanted.max_bytes;
  BOOST_OUTCOME_TRY(journal_, journal::Journal::open(std::move(setup)));
  return done();
}

Outcome<void> Node::open_sinks() {
  if (instances_->sinks.empty()) return done();
  sinks::Outbox::Setup setup;
  setup.queue_folder = state_.outbox();
  setup.sinks_folder = state_.sinks();
  setup.node = config_->node.name;
  if (store_) setup.stored_in = state_.store().string();
  setup.sinks = instances_->sinks;
  if (journal_) setup.let_go = [journal = journal_.get()](const RequestKey& key) { journal->forget(key); };
  BOOST_OUTCOME_TRY(sinks_, sinks::Outbox::open(std::move(setup)));
  return done();
}

Outcome<void> Node::follow() {
  live::Follower::Setup setup;
  setup.role = "node";
  setup.sections = {"node", "env", "worker", "plugins", "task", "model"};
  setup.strand = io_->get_executor();
  setup.config = config_;
  setup.plugins = plugins_.get();
  setup.needs = needs_of;
  // The thread's own memory of what it made last; the strand never looks at it.
  const auto last = std::make_shared<std::shared_ptr<const Instances>>(instances_);
  setup.prepare = [this, last](const live::Update& update) -> Outcome<std::function<void()>> {
    BOOST_OUTCOME_TRY(auto made, make_instances(*update.config, *update.plugins, last->get()));
    // The old ones go with the closure, on the follower's thread: closing a library takes a moment.
    auto old = std::exchange(*last, made);
    return std::function<void()>([this, update, made, old = std::move(old)] { put_in_force(update, made); });
  };
  BOOST_OUTCOME_TRY(follower_, live::Follower::start(std::move(setup)));
  return done();
}

/// On the strand; nothing in here can fail.
void Node::put_in_force(const live::Update& update, std::shared_ptr<const Instances> instances) {
  if (stopping_) return;
  instances_ = std::move(instances);
  dispatcher_->use(instances_->balancer, instances_->chooser);
  if (sinks_) sinks_->use(instances_->sinks);
  if (update.config != config_) {
    config_ = update.config;
    dispatcher_->limit(queue_limit(*config_));
    explained_.limit(config_->node.explain_requests);
    recorder_.limit(config_->node.recorded_requests);
    recorder_.limit_payloads(config_->node.recorded_payload_bytes);
    if (store_) store_->reconfigure(config_->node.store);
    pool_->apply(config_);
    central_->hurry();  // the digest, and perhaps other tasks
  }
  workers_changed();
}

boost::json::object Node::config_facts(const boost::json::object& request) const {
  boost::json::object facts = config::config_facts(*config_, request);
  follower_->standing().add_to(facts);
  return facts;
}

void Node::fill_service() {
  service_.io = io_.get();
  service_.node = config_->node.name;
  service_.channel_keys = &channel_keys_;
  service_.pool = pool_.get();
  service_.dispatcher = dispatcher_.get();
  service_.store = store_.get();
  service_.journal = journal_.get();
  service_.sinks = sinks_.get();
  service_.quarantine = state_.quarantine();
  service_.explain = &explained_;
  recorder_.limit_payloads(config_->node.recorded_payload_bytes);
  service_.recorder = &recorder_;
  service_.config = [this] { return config_; };
  service_.codec = [this](std::string_view name) -> Outcome<std::shared_ptr<plugin::Codec>> {
    // One instance serves all uploads of this strand; its contexts and scratch memory stay warm.
    const auto found = instances_->codecs.find(name);
    if (found != instances_->codecs.end()) return found->second;
    return plugins_->codec(name);  // says what there is
  };
  service_.check_ticket = [this](std::string_view ticket, const PublicKey& device) {
    return central_->check(ticket, device);
  };
  service_.still_good = [this](const session::Identity& identity) -> Outcome<void> {
    if (identity.local) return done();
    return central_->still_good(identity.ticket, identity.ticket.device);
  };
  service_.serve_ranks = [this](std::shared_ptr<net::FrameStream> from, std::string text, session::Identity who) {
    return RankStreams::serve(rank_streams_, std::move(from), std::move(text), std::move(who));
  };
  service_.serve_gears = [this](std::shared_ptr<net::FrameStream> from, std::string text, session::Identity who) {
    return GearStreams::serve(gear_streams_, std::move(from), std::move(text), std::move(who));
  };
  service_.control = [this](const std::string& text) {
    return serving::answer_control(
        [this](std::string_view command, const boost::json::object& request) { return control(command, request); },
        text);
  };
}

Outcome<void> Node::listen() {
  BOOST_OUTCOME_TRY(auto local, serving::UnixListener::open(state_.node_socket()));
  local_door_.emplace(std::move(local));
  BOOST_OUTCOME_TRY(const auto listening, instances_->transport->listen(config_->node.listen));
  url_ = config_->node.advertise.empty() ? listening.url : config_->node.advertise;
  serving::AcceptLoop::Setup devices;
  devices.executor = io_->get_executor();
  devices.listening = listening.descriptor;
  devices.accept = [this](int descriptor) { return instances_->transport->accept(descriptor); };
  devices.full = [this] { return sessions_.size() >= config_->node.limits.max_connections; };
  devices.accepted = [this](plugin::Connection connection) {
    welcome(std::move(connection), DeviceSession::Door::sealed);
  };
  BOOST_OUTCOME_TRY(device_loop_, serving::AcceptLoop::start(std::move(devices)));
  serving::AcceptLoop::Setup locals;
  locals.executor = io_->get_executor();
  locals.listening = local_door_->give_away();
  locals.accept = serving::accept_unix;
  locals.full = devices.full;
  locals.full = [this] {
    return sessions_.size() >= config_->node.limits.max_connections + 16;
  };  // room to look at a full node
  locals.accepted = [this](plugin::Connection connection) {
    welcome(std::move(connection), DeviceSession::Door::local);
  };
  BOOST_OUTCOME_TRY(local_loop_, serving::AcceptLoop::start(std::move(locals)));
  return done();
}

void Node::welcome(plugin::Connection connection, DeviceSession::Door door) {
  auto stream = net::FrameStream::adopt(io_->get_executor(), connection.descriptor, connection.peer);
  if (!stream) {
    spdlog::warn("node: a connection was lost peer={} reason=\"{}\"", connection.peer,
                 escaped(describe(stream.error())));
    return;
  }
  auto session = std::make_shared<DeviceSession>(service_, *requests_, std::move(stream).value(), door);
  sessions_.insert(session.get());
  asio::co_spawn(*io_, attend(this, std::move(session)), asio::detached);
}

asio::awaitable<void> Node::attend(Node* node, std::shared_ptr<DeviceSession> session) {
  struct Leave {  // whatever ends the coroutine: the node must not keep the pointer
    Node* node;
    DeviceSession* session;
    ~Leave() { node->sessions_.erase(session); }
  };
  const Leave leave{node, session.get()};
  co_await DeviceSession::serve(session);
}

void Node::close_revoked() {
  for (DeviceSession* session : sessions_) {
    if (!session->identity().local && central_->is_revoked(session->identity().ticket.device)) session->close();
  }
}

Outcome<boost::json::object> Node::control(std::string_view command, const boost::json::object& request) {
  if (command == "status") return status_of(facts());
  if (command == "config") return config_facts(request);
  if (command == "explain") return explain_request(request);
  if (command == "recording") return answer_recording(recorder_, request, config_->node.name);
  if (command == "recorded_payload") return answer_recorded_payload(recorder_, request);
  if (command == "drain") return drain_asked(request);
  if (command == "quarantine") return answer_quarantine(*requests_, request);
  if (command == "lease") return central_->lease(request);
  return Error{Errc::not_found, "a node knows no command '" + escaped(command, 64) + "'"};
}

Outcome<boost::json::object> Node::explain_request(const boost::json::object& request) const {
  const auto* const id = request.if_contains("request");
  if (id == nullptr || !id->is_string()) return Error{Errc::bad_input, "explain: \"request\" is missing"};
  const auto* const from = request.if_contains("from");
  BOOST_OUTCOME_TRY(const explain::TracePtr trace, explained_.find(std::string(id->get_string())));
  const std::uint64_t first = from != nullptr && from->is_int64() ? static_cast<std::uint64_t>(from->get_int64()) : 0;
  boost::json::object facts = explain::to_json(requests_->as_of_now(*trace), first, Clock::now());
  facts["node"] = config_->node.name;
  return facts;
}

FactSources Node::facts() const {
  FactSources from;
  from.config = config_.get();
  from.pool = pool_.get();
  from.dispatcher = dispatcher_.get();
  from.requests = requests_.get();
  from.store = store_.get();
  from.journal = journal_.get();
  from.sinks = sinks_.get();
  from.plugins = plugins_.get();
  from.url = url_;
  from.channel_key = to_hex(channel_keys_.public_key);
  from.identity_key = to_text(signing_keys_.public_key);
  from.sessions = sessions_.size();
  from.central_connected = central_->connected();
  from.central_error = central_->last_error();
  from.started = started_;
  return from;
}

void Node::workers_changed() {
  dispatcher_->pump();
  requests_->admit();
  std::vector<std::string> ready;
  for (const worker_pool::WorkerView& worker : pool_->workers()) {
    if (worker.state == "ready") ready.push_back(worker.model + "@" + worker.version);
  }
  if (ready != ready_models_) {
    ready_models_ = std::move(ready);
    central_->hurry();
  }
}

void Node::run() {
  pool_->on_change([this] { workers_changed(); });
  pool_->start_workers();
  if (central_) asio::co_spawn(*io_, CentralLink::run(central_), asio::detached);
  spdlog::info("node: serving name={} url={} config={}", config_->node.name, url_, config_->digest.substr(0, 12));
  pool_->run();
}

}  // namespace gearbox::node
