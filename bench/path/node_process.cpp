#include "node_process.hpp"

#include <spdlog/spdlog.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>

#include "balancer/least_loaded.hpp"
#include "codec/image_delta.hpp"
#include "codec/zstd_codec.hpp"
#include "gearbox/link/ticket.hpp"
#include "serving/accept_loop.hpp"
#include "serving/stop_signals.hpp"
#include "session/device_session.hpp"
#include "support.hpp"
#include "support/fork_launcher.hpp"
#include "transport_tcp/tcp_transport.hpp"

namespace gearbox::bench {

struct NodeProcess::Shared {  // a page that both processes see
  std::atomic<std::uint16_t> port;
  std::atomic<std::uint64_t> hand_overs;
  std::atomic<double> handed_over_us;
};

namespace {

namespace asio = boost::asio;
using session::DeviceSession;

/// Asked first thing after a request was accepted: the place to read the node's clock.
class Watched final : public plugin::Balancer {
 public:
  using Note = std::function<void()>;
  explicit Watched(Note note) : note_(std::move(note)) {}
  Outcome<plugin::CandidateId> pick(const plugin::RequestView& request,
                                    std::span<const plugin::CandidateView> candidates, Instant now) override {
    note_();
    return inner_.pick(request, candidates, now);
  }

 private:
  Note note_;
  balancer::LeastLoaded inner_{64};
};

config::Config config_of(const NodeProcess::Setup& setup, const std::string& folder) {
  config::Config config;
  model::TensorDecl any;
  any.any_dtype = true;
  any.any_shape = true;
  model::Record record;
  record.name = "echo";
  record.version = "1";
  record.folder = folder;
  record.inputs = {any};
  record.inputs[0].name = "image";
  record.outputs = {any};
  record.outputs[0].name = "sum";
  record.max_output_bytes = 1 << 12;
  config::WorkerConfig worker;
  worker.model = "echo";
  worker.env = "none";
  config::StepConfig step;
  step.name = "look";
  step.model = "echo";
  step.inputs["image"] = {"request", "image"};
  config::TaskConfig task;
  task.name = "look";
  task.inputs = record.inputs;
  task.steps = {step};
  task.result["sum"] = {"look", "sum"};
  config.models = {record};
  config.workers = {worker};
  config.tasks["look"] = task;
  config.node.spin_us = 0;  // waiting would count as work
  config.node.limits.max_upload_bytes = setup.max_upload_bytes;
  config.node.limits.max_connections = setup.max_connections;
  config.node.limits.idle = milliseconds(600'000);
  return config;
}

/// The rooms, put together as in node/node.cpp.
struct Rooms {
  explicit Rooms(const std::function<void()>& handed_over) : handed_over_(handed_over) {}
  asio::io_context io{1};
  std::shared_ptr<test_support::ForkLauncher> launcher;
  std::shared_ptr<transport_tcp::TcpTransport> transport = std::make_shared<transport_tcp::TcpTransport>();
  std::map<std::string, std::shared_ptr<plugin::Codec>, std::less<>> codecs;
  std::unique_ptr<worker_pool::WorkerPool> pool;
  std::unique_ptr<dispatch::Dispatcher> dispatcher;
  session::Service service;
  std::unique_ptr<session::Requests> requests;
  std::shared_ptr<serving::AcceptLoop> door;
  std::size_t sessions = 0;
  std::function<void()> handed_over_;

  static asio::awaitable<void> attend(Rooms* rooms, std::shared_ptr<DeviceSession> session) {
    co_await DeviceSession::serve(std::move(session));
    --rooms->sessions;
  }

  void welcome(const plugin::Connection& connection) {
    auto stream = net::FrameStream::adopt(io.get_executor(), connection.descriptor, connection.peer);
    if (!stream) return;
    ++sessions;
    auto session =
        std::make_shared<DeviceSession>(service, *requests, std::move(stream).value(), DeviceSession::Door::sealed);
    asio::co_spawn(io, attend(this, std::move(session)), asio::detached);
  }

  std::string open(const config::Snapshot& config, const std::string& folder) {
    codecs.emplace("image_delta", must(codec::ImageDelta::create()));
    codecs.emplace("zstd", must(codec::ZstdCodec::create({})));
    launcher = std::make_shared<test_support::ForkLauncher>(io, std::vector<std::string>{"--do", "small"});
    worker_pool::WorkerPool::Setup workers;
    workers.io = &io;
    workers.state.root = folder;
    workers.config = config;
    workers.launcher = launcher;
    workers.shim = ECHO_WORKER;
    pool = must(worker_pool::WorkerPool::create(std::move(workers)));
    dispatcher = std::make_unique<dispatch::Dispatcher>(*pool, std::make_shared<Watched>(handed_over_), 4096);
    requests = std::make_unique<session::Requests>(service);
    const auto listening = must(transport->listen("tcp://127.0.0.1:0"));
    serving::AcceptLoop::Setup devices;
    devices.executor = io.get_executor();
    devices.listening = listening.descriptor;
    devices.accept = [this](int descriptor) { return transport->accept(descriptor); };
    devices.full = [this, most = config->node.limits.max_connections] { return sessions >= most; };
    devices.accepted = [this](const plugin::Connection& connection) { welcome(connection); };
    door = must(serving::AcceptLoop::start(std::move(devices)));
    return listening.url;
  }
};

}  // namespace

void NodeProcess::serve(const Setup& setup, int ready) const {
  Rooms rooms([this] {
    shared_->handed_over_us = clock_us(CLOCK_THREAD_CPUTIME_ID);
    ++shared_->hand_overs;
  });
  const auto config = std::make_shared<const config::Config>(config_of(setup, folder_));
  const std::map<std::string, PublicKey> ticket_keys = {{kCentralKeyId, central_.public_key}};
  rooms.service.io = &rooms.io;
  rooms.service.node = "bench";
  rooms.service.channel_keys = &channel_keys_;
  rooms.service.config = [&config] { return config; };
  rooms.service.codec = [&rooms](std::string_view name) -> Outcome<std::shared_ptr<plugin::Codec>> {
    const auto found = rooms.codecs.find(name);
    if (found == rooms.codecs.end()) return Error{Errc::not_found, std::string(name)};
    return found->second;
  };
  rooms.service.check_ticket = [&](std::string_view text, const PublicKey& device) {
    return link::check_ticket(text, {&ticket_keys, identity_, device, 0});
  };
  rooms.service.still_good = [](const session::Identity&) -> Outcome<void> { return done(); };
  rooms.service.control = [](const std::string&) -> Outcome<std::string> {
    return Error{Errc::not_found, "no commands"};
  };
  const std::string url = rooms.open(config, folder_);
  rooms.service.pool = rooms.pool.get();
  rooms.service.dispatcher = rooms.dispatcher.get();
  shared_->port = static_cast<std::uint16_t>(std::atoi(url.substr(url.rfind(':') + 1).c_str()));

  bool told = false;
  rooms.pool->on_change([&] {
    rooms.dispatcher->pump();
    rooms.requests->admit();
    if (told || rooms.pool->ready("echo", "1").empty()) return;
    told = true;
    if (::write(ready, "!", 1) != 1) std::_Exit(1);
  });
  const auto stop = [&rooms] {
    rooms.door->stop();
    rooms.pool->stop([&rooms] { rooms.io.stop(); });
  };
  const serving::StopSignals signals(rooms.io.get_executor(), stop, [] { std::_Exit(1); });
  rooms.pool->start_workers();
  rooms.pool->run();
  rooms.launcher->wait_for_all();
  std::_Exit(0);  // open sessions go with the process
}

std::string NodeProcess::ticket_for(const PublicKey& device) const {
  wire::Ticket ticket;
  ticket.device = device;
  ticket.user = "bench";
  ticket.tasks = {"look"};
  ticket.node = identity_;
  ticket.expires_unix_ms = 1'000'000'000;
  ticket.key_id = kCentralKeyId;
  return link::sign_ticket(central_, ticket);
}

Outcome<std::unique_ptr<NodeProcess>> NodeProcess::start(const Setup& setup) {
  std::unique_ptr<NodeProcess> node(new NodeProcess);
  node->channel_keys_ = link::make_channel_keys();
  node->server_key_ = node->channel_keys_.public_key;
  node->central_ = link::make_signing_keys();
  node->identity_ = to_text(link::make_signing_keys().public_key);
  std::string folder = (std::filesystem::temp_directory_path() / "gearbox-bench-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) return Error{Errc::io_error, "no temporary folder can be made"};
  node->folder_ = folder;
  std::filesystem::create_directories(std::filesystem::path(folder) / "run");
  void* page = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  int ends[2] = {-1, -1};
  if (page == MAP_FAILED || ::pipe(ends) != 0) return Error{Errc::io_error, "no shared page or no pipe"};
  node->shared_ = new (page) Shared{};
  const pid_t parent = ::getpid();
  node->pid_ = ::fork();
  if (node->pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) std::_Exit(1);
    ::close(ends[0]);
    node->serve(setup, ends[1]);
  }
  ::close(ends[1]);
  char said = 0;
  const bool ready = node->pid_ > 0 && ::read(ends[0], &said, 1) == 1;
  ::close(ends[0]);
  if (!ready) return Error{Errc::io_error, "the node did not get ready"};
  return node;
}

NodeProcess::~NodeProcess() {
  if (pid_ > 0) {
    ::kill(pid_, SIGTERM);
    ::waitpid(pid_, nullptr, 0);
  }
  if (shared_ != nullptr) ::munmap(shared_, sizeof(Shared));
  std::error_code failed;  // a folder that stays behind in /tmp spoils no figure
  if (!folder_.empty()) std::filesystem::remove_all(folder_, failed);
}

std::uint16_t NodeProcess::port() const {
  return shared_->port;
}

double NodeProcess::cpu_us() const {
  clockid_t clock{};
  if (::clock_getcpuclockid(pid_, &clock) != 0) must(Outcome<void>(Error{Errc::io_error, "the node is gone"}));
  return clock_us(clock);
}

double NodeProcess::settled_cpu_us() const {
  double before = cpu_us();
  for (int same = 0; same < 3;) {
    ::usleep(200);
    const double now = cpu_us();
    same = now == before ? same + 1 : 0;
    before = now;
  }
  return before;
}

double NodeProcess::handed_over_us() const {
  return shared_->handed_over_us;
}
std::uint64_t NodeProcess::hand_overs() const {
  return shared_->hand_overs;
}

double NodeProcess::resident_kb() const {
  std::ifstream status("/proc/" + std::to_string(pid_) + "/status");
  std::string word;
  double kb = 0;
  while (status >> word) {
    if (word == "VmRSS:" && status >> kb) return kb;
  }
  must(Outcome<void>(Error{Errc::io_error, "the node's memory cannot be read"}));
  return 0;
}

}  // namespace gearbox::bench
