#include "ours.hpp"

#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>

namespace gearbox::bench {

namespace {
constexpr std::size_t kEchoed = 4096;  // bytes: what is larger is answered by a sum

using worker_pool::CallAnswer;
using worker_pool::CallSpec;
using worker_pool::SlabPtr;

std::uint64_t cpu_ns(const std::string& process) {
  std::ifstream file("/proc/" + process + "/schedstat");
  std::uint64_t ns = 0;
  file >> ns;
  return ns;
}

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "bench_ipc: %s\n", why.c_str());
  std::exit(1);
}

/// Adds the words that stand before the pool's own options (an interpreter, a wrapper).
class Wrapped final : public worker_pool::Launcher {
 public:
  Wrapped(std::shared_ptr<test_support::ForkLauncher> inner, std::vector<std::string> command)
      : inner_(std::move(inner)), command_(std::move(command)) {}
  void launch(Order order, std::function<void(Outcome<int>)> started) override {
    order.argv.erase(order.argv.begin());
    order.argv.insert(order.argv.begin(), command_.begin(), command_.end());
    inner_->launch(std::move(order), std::move(started));
  }
  void stop(int pid, milliseconds grace) override { inner_->stop(pid, grace); }
  void cancel_all() override { inner_->cancel_all(); }

 private:
  std::shared_ptr<test_support::ForkLauncher> inner_;
  std::vector<std::string> command_;
};
}  // namespace

Ours::Ours(Form form) : form_(std::move(form)) {
  std::string folder = (std::filesystem::temp_directory_path() / "gearbox-bench-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) give_up("no temporary folder");
  root_ = folder;
  std::filesystem::create_directories(root_ / "run");
  auto config = std::make_shared<config::Config>();
  model::Record record;
  record.name = "echo";
  record.version = "1";
  record.folder = form_.model;
  record.prefetch = 16;
  config->models = {record};
  config->node.limits.input_arena_bytes = 64 << 20;
  config->node.limits.output_arena_bytes = 16 << 20;
  config::WorkerConfig worker;
  worker.model = "echo";
  worker.env = "bench";
  worker.count = form_.workers;
  config->workers = {worker};
  config->envs["bench"].python = form_.python;
  launcher_ = std::make_shared<test_support::ForkLauncher>(io_, form_.more);
  worker_pool::WorkerPool::Setup setup;
  setup.io = &io_;
  setup.state.root = root_;
  setup.config = config;
  setup.launcher = std::make_shared<Wrapped>(launcher_, form_.command);
  setup.shim = form_.command.front();
  auto pool = worker_pool::WorkerPool::create(std::move(setup));
  if (!pool) give_up(describe(pool.error()));
  pool_ = std::move(pool).value();
  pool_->start_workers();
  pin(form_.node_cpu);
  boost::asio::steady_timer limit(io_);
  limit.expires_after(std::chrono::seconds(60));
  limit.async_wait([&](const boost::system::error_code& error) {
    if (error) return;
    for (const auto& view : pool_->workers())
      std::fprintf(stderr, "  %s: %s\n", view.state.c_str(), view.reason.c_str());
    give_up("the workers did not become ready");
  });
  pool_->on_change([&] {
    if (pool_->ready("echo", "1").size() == form_.workers) io_.stop();
  });
  pool_->run();
  pool_->on_change(nullptr);
  limit.cancel();
  io_.restart();
  pin(-1);
}

Ours::~Ours() {
  pool_->stop([&] { io_.stop(); });
  pool_->run();
  pool_.reset();
  launcher_->wait_for_all();
  std::error_code ignored;  // a temporary folder that stays is the system's to clean
  std::filesystem::remove_all(root_, ignored);
}

Samples Ours::calls(int times, std::size_t bytes, int gap_us) {
  pin(form_.node_cpu);
  std::vector<std::byte> source(bytes, std::byte{5});
  const WorkerId worker = pool_->workers().front().id;
  Samples samples;
  std::uint64_t sum = 0;
  Instant began{};
  boost::asio::steady_timer gap(io_);
  std::function<void()> next;
  const auto hear = [&](const CallAnswer& answer) {
    if (!answer.outputs) give_up(describe(answer.outputs.error()));
    const ByteView echoed = answer.outputs.value()[0].bytes();
    const bool good = bytes <= kEchoed
                          ? std::equal(echoed.begin(), echoed.end(), source.begin(), source.end())
                          : echoed.size() == sizeof sum && std::memcmp(echoed.data(), &sum, sizeof sum) == 0;
    if (!good) give_up("the echo differs");
    samples.push_back(std::chrono::duration<double, std::micro>(Clock::now() - began).count());
    if (samples.size() == static_cast<std::size_t>(times)) return io_.stop();
    if (gap_us == 0) return next();
    gap.expires_after(std::chrono::microseconds(gap_us));
    gap.async_wait([&](const boost::system::error_code&) { next(); });
  };
  next = [&] {
    source[samples.size() % bytes] = static_cast<std::byte>(samples.size());
    began = Clock::now();
    CallSpec spec;
    SlabPtr slab = pool_->allocate(bytes).value();
    if (bytes <= kEchoed) {
      std::memcpy(slab->bytes().data(), source.data(), bytes);
    } else {
      sum = write_in_place(slab->bytes().first(bytes), samples.size());
    }
    spec.inputs.push_back(
        {{"data", wire::DType::uint8, {static_cast<std::int64_t>(bytes)}, bytes}, 0, std::move(slab), 0});
    spec.deadline = Instant::max();
    spec.grant_bytes = 4096;
    auto call = pool_->call(worker, std::move(spec), [&hear](CallAnswer answer) { hear(answer); });
    if (!call) give_up(describe(call.error()));
  };
  next();
  pool_->run();
  io_.restart();
  pin(-1);
  return samples;
}

double Ours::idle_percent(std::chrono::seconds how_long) {
  std::vector<std::string> processes = {"self"};
  for (const auto& view : pool_->workers()) processes.push_back(std::to_string(view.pid));
  const auto sum = [&] {
    std::uint64_t ns = 0;
    for (const std::string& process : processes) ns += cpu_ns(process);
    return ns;
  };
  boost::asio::steady_timer end(io_);
  end.expires_after(how_long);
  end.async_wait([&](const boost::system::error_code&) { io_.stop(); });
  const std::uint64_t before = sum();
  pool_->run();
  io_.restart();
  return static_cast<double>(sum() - before) / static_cast<double>(std::chrono::nanoseconds(how_long).count()) * 100;
}

}  // namespace gearbox::bench
