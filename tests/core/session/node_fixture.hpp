// node_fixture.hpp: the rooms of a node around real C++ workers, without central, CLI or Python; and a device that
// speaks the wire by hand over a socket pair.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "codec/zstd_codec.hpp"
#include "dispatch/dispatcher.hpp"
#include "gearbox/link/login.hpp"
#include "gearbox/link/upload.hpp"
#include "gearbox/net/frame_stream.hpp"
#include "session/device_session.hpp"
#include "session/requests.hpp"
#include "support/first_one.hpp"
#include "support/fork_launcher.hpp"
#include "support/temp_dir.hpp"

namespace gearbox::session {

namespace asio = boost::asio;

using test_support::FirstOne;

/// A worker does what its model's name says: echo, split, hang, die, fail (see tests/support/echo_worker). Its folder
/// is called NAME or NAME@VERSION.
class ByModelName final : public worker_pool::Launcher {
 public:
  explicit ByModelName(asio::io_context& io) : children_(io) {}
  void launch(Order order, std::function<void(Outcome<int>)> started) override {
    const auto folder = std::find(order.argv.begin(), order.argv.end(), "--model") + 1;
    const std::string what = std::filesystem::path(*folder).filename();
    const std::string name = what.substr(0, what.find('@'));
    const std::string version = name == what ? "1" : what.substr(name.size() + 1);
    const std::string habit = habits.contains(what) ? habits.at(what) : name;
    order.argv.insert(order.argv.end(), {"--name", name, "--version", version, "--do", habit});
    children_.launch(std::move(order), std::move(started));
  }
  void stop(int pid, milliseconds grace) override { children_.stop(pid, grace); }
  void cancel_all() override { children_.cancel_all(); }

  std::map<std::string, std::string> habits;  // folder's name → --do, where it is not its model's name

 private:
  test_support::ForkLauncher children_;
};

class NodeFixture : public ::testing::Test {
 protected:
  NodeFixture() {
    std::filesystem::create_directories(folder_.path() / "run");
    for (const char* name : {"echo", "split", "hang", "die", "fail"}) add_model(name);
    config_.node.limits.input_arena_bytes = 8 << 20;
    config_.node.limits.output_arena_bytes = 4 << 20;
    config_.node.limits.max_upload_bytes = 4 << 20;
    add_task("echo", {{"run", "echo"}});
    add_task("hang", {{"run", "hang"}});
    add_task("die", {{"run", "die"}});
    add_task("fail", {{"run", "fail"}});
    config::TaskConfig& scatter = add_task("scatter", {{"cut", "split"}, {"each", "echo"}});
    scatter.steps[1].inputs = {{"x", {"cut", "parts"}}};
    scatter.steps[1].for_each = "x";
    scatter.result = {{"y", {"each", "x"}}};
  }

  ~NodeFixture() override {
    devices_.clear();
    for (int i = 0; i < 100; ++i) io_.poll();  // sessions see their end
    requests_.reset();
    dispatcher_.reset();
    pool_.reset();
  }

  static model::TensorDecl anything(const std::string& name, bool list) {
    model::TensorDecl decl;
    decl.name = name;
    decl.any_dtype = decl.any_shape = true;
    decl.list = list;
    return decl;
  }
  void add_model(const std::string& name) {
    model::Record record;
    record.name = name;
    record.version = "1";
    record.folder = folder_.path() / name;
    record.max_output_bytes = 2 << 20;
    record.inputs = {anything("x", false)};
    record.outputs = {name == "split" ? anything("parts", true) : anything("x", false)};
    config_.models.push_back(record);
  }
  config::TaskConfig& add_task(const std::string& name, std::vector<std::pair<std::string, std::string>> steps) {
    config::TaskConfig task;
    task.name = name;
    task.inputs = {anything("x", false)};
    for (const auto& [step, model] : steps) {
      config::StepConfig config;
      config.name = step;
      config.model = model;
      config.inputs = {{"x", {"request", "x"}}};
      task.steps.push_back(config);
    }
    task.result = {{"y", {steps.back().first, "x"}}};
    return config_.tasks[name] = task;
  }

  /// One worker for each model named; returns when all are ready.
  void start(const std::vector<std::string>& models) {
    for (const std::string& model : models) {
      config::WorkerConfig worker;
      worker.model = model;
      worker.env = "none";
      config_.workers.push_back(worker);
    }
    snapshot_ = std::make_shared<const config::Config>(config_);
    worker_pool::WorkerPool::Setup setup;
    setup.io = &io_;
    setup.state.root = folder_.path();
    setup.config = snapshot_;
    launcher_ = std::make_shared<ByModelName>(io_);
    launcher_->habits = habits_;
    setup.launcher = launcher_;
    setup.shim = ECHO_WORKER;
    setup.timing.backoff_first = milliseconds(20);
    setup.timing.heartbeat = milliseconds(100);
    // Some tests stop a worker for a while.
    setup.timing.silent = setup.timing.frozen = setup.timing.late = milliseconds(60'000);
    auto pool = worker_pool::WorkerPool::create(std::move(setup));
    ASSERT_TRUE(pool) << describe(pool.error());
    pool_ = std::move(pool).value();
    dispatcher_ = std::make_unique<dispatch::Dispatcher>(*pool_, std::make_shared<FirstOne>(), 64);
    service_.io = &io_;
    service_.node = "test-node";
    service_.pool = pool_.get();
    service_.dispatcher = dispatcher_.get();
    service_.explain = &book_;
    service_.config = [this] { return snapshot_; };
    service_.codec = [](std::string_view name) -> Outcome<std::shared_ptr<plugin::Codec>> {
      if (name != "zstd") return Error{Errc::not_found, std::string(name)};
      BOOST_OUTCOME_TRY(auto made, codec::ZstdCodec::create({}));
      return std::shared_ptr<plugin::Codec>(std::move(made));
    };
    service_.still_good = [this](const Identity&) -> Outcome<void> {
      if (expired_) return Error{Errc::expired_ticket, "ask central for a new one"};
      return done();
    };
    service_.control = [](const std::string& command) -> Outcome<std::string> { return "{\"heard\":" + command + "}"; };
    requests_ = std::make_unique<Requests>(service_);
    pool_->on_change([this] {
      dispatcher_->pump();
      requests_->admit();
    });
    pool_->start_workers();
    ASSERT_TRUE(until([&] {
      const auto workers = pool_->workers();
      return workers.size() == models.size() &&
             std::all_of(workers.begin(), workers.end(), [](const auto& worker) { return worker.state == "ready"; });
    }));
  }

  /// config_ as it stands comes into force.
  void reload() {
    snapshot_ = std::make_shared<const config::Config>(config_);
    pool_->apply(snapshot_);
  }

  bool until(const std::function<bool()>& holds) {
    const Instant limit = Clock::now() + seconds(20);
    while (!holds()) {
      if (Clock::now() > limit) return false;
      pool_->poll();
      io_.run_for(std::chrono::microseconds(200));
      if (io_.stopped()) io_.restart();
    }
    return true;
  }

  /// The device's end of a connection: what it got lies in `inbox`, in order.
  struct Device {
    std::shared_ptr<net::FrameStream> stream;
    std::deque<wire::Frame> inbox;
    bool ended = false;
    ~Device() { stream->close(); }
  };
  using DevicePtr = std::shared_ptr<Device>;

  DevicePtr connect(DeviceSession::Door door = DeviceSession::Door::local) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    auto served = net::FrameStream::adopt(io_.get_executor(), ends[0], "device").value();
    asio::co_spawn(io_, DeviceSession::serve(std::make_shared<DeviceSession>(service_, *requests_, served, door)),
                   asio::detached);
    auto device = std::make_shared<Device>();
    device->stream = net::FrameStream::adopt(io_.get_executor(), ends[1], "node").value();
    devices_.push_back(device);
    return device;
  }
  /// `keep`: it says that it comes back after an orderly end.
  DevicePtr log_in(bool keep = false) {
    const DevicePtr device = connect();
    asio::co_spawn(io_, listen(device), asio::detached);
    wire::Hello hello;
    hello.role = "local";
    hello.keep = keep;
    send(device, wire::FrameType::hello, {}, wire::to_json(hello));
    EXPECT_EQ(next(device).header.type, wire::FrameType::hello_ok);
    return device;
  }
  static asio::awaitable<void> listen(DevicePtr device) {
    for (;;) {
      auto frame = co_await net::FrameStream::read_frame(device->stream, seconds(60));
      if (!frame) break;
      device->inbox.push_back(std::move(frame).value());
    }
    device->ended = true;
  }
  static asio::awaitable<void> seal(DevicePtr device, std::array<std::byte, 32> key) {
    auto sealed = co_await net::FrameStream::connect_sealed(device->stream, key, seconds(10));
    EXPECT_TRUE(sealed) << describe(sealed.error());
    co_await listen(device);
  }
  static asio::awaitable<void> write(DevicePtr device, wire::FrameHeader header, std::string json, Bytes payload) {
    auto written =
        co_await net::FrameStream::write_frame(device->stream, header, std::move(json), payload, seconds(20));
    if (!written) device->ended = true;
  }
  void send(const DevicePtr& device, wire::FrameType type, RequestId id, std::string json, ByteView payload = {},
            std::uint64_t offset = 0, std::uint8_t flags = 0, std::uint32_t remaining_ms = wire::kNoDeadline) {
    wire::FrameHeader header;
    header.type = type;
    header.request = id;
    header.offset = offset;
    header.flags = flags;
    header.remaining_ms = remaining_ms;
    asio::co_spawn(io_, write(device, header, std::move(json), Bytes(payload.begin(), payload.end())), asio::detached);
  }
  /// The next frame; an empty one after 20 s.
  wire::Frame next(const DevicePtr& device) {
    EXPECT_TRUE(until([&] { return !device->inbox.empty() || device->ended; })) << "no frame came";
    if (device->inbox.empty()) return {};
    wire::Frame frame = std::move(device->inbox.front());
    device->inbox.pop_front();
    return frame;
  }
  /// The next frame that is not about the progress of an upload.
  wire::Frame next_final(const DevicePtr& device) {
    for (;;) {
      wire::Frame frame = next(device);
      if (frame.header.type != wire::FrameType::accepted && frame.header.type != wire::FrameType::upload_at)
        return frame;
    }
  }
  Error error_of(const wire::Frame& frame) {
    EXPECT_EQ(frame.header.type, wire::FrameType::error) << static_cast<int>(frame.header.type);
    auto message = wire::parse<wire::ErrorMessage>(frame.json);
    return message ? wire::to_error(message.value()) : message.error();
  }

  static RequestId id_of(unsigned char number) {
    RequestId id;
    id.bytes[0] = std::byte{number};
    id.bytes[15] = std::byte{1};
    return id;
  }
  static std::string submit_of(const std::string& task, ByteView bytes) {
    wire::Submit submit;
    submit.task = task;
    wire::InputSpec input;
    input.tensor = {"x", wire::DType::uint8, {static_cast<std::int64_t>(bytes.size())}, bytes.size()};
    input.wire_bytes = bytes.size();
    submit.inputs = {input};
    submit.wire_bytes = bytes.size();
    link::Digest digest;
    digest.update(bytes);
    submit.digest = digest.hex();
    return wire::to_json(submit);
  }
  static Bytes some_bytes(std::size_t count, unsigned seed = 1) {
    Bytes bytes(count);
    for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>((i * 31 + seed * 7 + (i >> 8)) & 0xFF);
    return bytes;
  }
  /// Sends inline and returns the last frame: a result or an error.
  wire::Frame ask(const DevicePtr& device, const std::string& task, ByteView bytes, RequestId id) {
    send(device, wire::FrameType::submit, id, submit_of(task, bytes), bytes, 0, wire::kInlinePayload);
    return next_final(device);
  }
  std::uint64_t calls() const {
    std::uint64_t sum = 0;
    for (const auto& worker : pool_->workers()) sum += worker.calls;
    return sum;
  }

  testing::TempDir folder_;
  bool expired_ = false;  // every ticket
  config::Config config_;
  config::Snapshot snapshot_;
  asio::io_context io_;
  std::map<std::string, std::string> habits_;  // see ByModelName
  std::shared_ptr<ByModelName> launcher_;
  std::unique_ptr<worker_pool::WorkerPool> pool_;
  std::unique_ptr<dispatch::Dispatcher> dispatcher_;
  explain::Book book_{1024};
  Service service_;
  std::unique_ptr<Requests> requests_;
  std::vector<DevicePtr> devices_;
};

}  // namespace gearbox::session
