// bench_central: how many devices a second can log in to central on one core, against the bound that their cryptography
// sets, and how many bytes one question and its answer take. Server and clients share one thread and real sockets on
// 127.0.0.1; time is that thread's own on a CPU, so that other work on the machine does not count.
//
//   bench_central [--json FILE] [--rounds N] [--logins N]
#include <sodium.h>
#include <spdlog/spdlog.h>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "balancer/least_loaded.hpp"
#include "central/accounts.hpp"
#include "central/central.hpp"
#include "gearbox/link/login.hpp"
#include "gearbox/net/frame_stream.hpp"
#include "gearbox/wire/messages.hpp"
#include "transport_tcp/tcp_transport.hpp"

namespace {

using namespace gearbox;
using net::FrameStream;
namespace asio = boost::asio;

constexpr milliseconds kWithin{20'000};
constexpr int kAtOnce = 8;

template <class T>
T must(Outcome<T> outcome) {
  if (!outcome) {
    std::fprintf(stderr, "bench_central: %s\n", describe(outcome.error()).c_str());
    std::exit(1);
  }
  return std::move(outcome).value();
}
void must(const Outcome<void>& outcome) {
  if (outcome) return;
  std::fprintf(stderr, "bench_central: %s\n", describe(outcome.error()).c_str());
  std::exit(1);
}

double cpu_us() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

struct Bench {
  asio::io_context io{1};
  transport_tcp::TcpTransport dialler;
  std::string url;
  std::array<std::byte, 32> server_key{};
  link::SigningKeys device = link::make_signing_keys();
  int left = 0;     // logins still to be begun
  int running = 0;  // clients not yet at their end
  std::uint64_t bytes = 0;
};

asio::awaitable<void> say(std::shared_ptr<FrameStream> stream, wire::FrameType type, std::string json) {
  wire::FrameHeader header;
  header.type = type;
  Outcome<void> sent = co_await FrameStream::write_frame(stream, header, std::move(json), ByteView(), kWithin);
  must(sent);
}

asio::awaitable<std::string> hear(std::shared_ptr<FrameStream> stream, wire::FrameType type) {
  Outcome<wire::Frame> frame = co_await FrameStream::read_frame(stream, kWithin);
  wire::Frame heard = must(std::move(frame));
  if (heard.header.type != type) {
    std::fprintf(stderr, "bench_central: central answered %s\n", heard.json.c_str());
    std::exit(1);
  }
  co_return heard.json;
}

asio::awaitable<std::shared_ptr<FrameStream>> log_in(Bench* bench, std::string role, const link::SigningKeys* keys) {
  plugin::Connection connection = must(bench->dialler.connect(bench->url, after(Clock::now(), kWithin)));
  auto stream = must(FrameStream::adopt(bench->io.get_executor(), connection.descriptor, "central"));
  Outcome<void> sealed = co_await FrameStream::connect_sealed(stream, bench->server_key, kWithin);
  must(sealed);
  wire::Hello hello;
  hello.role = std::move(role);
  hello.user = hello.role == "device" ? "bench" : "";
  hello.agent = "pi_client 0.1.0";
  link::sign_hello(*keys, stream->h(), hello);
  std::string text = wire::to_json(hello);
  co_await say(stream, wire::FrameType::hello, std::move(text));
  co_await hear(stream, wire::FrameType::hello_ok);
  co_return stream;
}

asio::awaitable<void> log_in_again_and_again(Bench* bench) {
  while (bench->left > 0) {
    --bench->left;
    std::shared_ptr<FrameStream> stream = co_await log_in(bench, "device", &bench->device);
    stream->close();
  }
  --bench->running;
}

asio::awaitable<void> be_node(Bench* bench, const link::SigningKeys* keys, std::shared_ptr<FrameStream>* keep) {
  *keep = co_await log_in(bench, "node", keys);
  wire::NodeReport report;
  report.addresses = {"tcp://192.168.178.24:7601"};
  report.channel_key = to_hex(link::make_channel_keys().public_key);
  wire::TaskReport task;
  task.name = "read-text";
  task.ready = true;
  report.tasks = {task};
  std::string text = wire::to_json(report);
  co_await say(*keep, wire::FrameType::node_report, std::move(text));
  co_await hear(*keep, wire::FrameType::report_ok);
  --bench->running;
}

asio::awaitable<void> locate(Bench* bench) {
  std::shared_ptr<FrameStream> stream = co_await log_in(bench, "device", &bench->device);
  wire::Locate asked;
  asked.task = "read-text";
  std::string text = wire::to_json(asked);
  co_await say(stream, wire::FrameType::locate, std::move(text));
  co_await hear(stream, wire::FrameType::located);
  Outcome<wire::Frame> end = co_await FrameStream::read_frame(stream, kWithin);
  if (end || end.error().code != Errc::closed)
    must(Outcome<void>(Error{Errc::bad_frame, "central does not end the connection"}));
  stream->close();
  bench->bytes = stream->bytes_read() + stream->bytes_written();
  --bench->running;
}

void run_all(Bench& bench) {
  bench.io.restart();
  while (bench.running > 0) bench.io.run_one();
}

void spawn(Bench& bench, asio::awaitable<void> work) {
  ++bench.running;
  asio::co_spawn(bench.io, std::move(work), [](std::exception_ptr failed) {
    if (failed) std::rethrow_exception(failed);
  });
}

double login_us(Bench& bench, int logins) {
  bench.left = logins;
  const double begin = cpu_us();
  for (int i = 0; i < kAtOnce; ++i) spawn(bench, log_in_again_and_again(&bench));
  run_all(bench);
  return (cpu_us() - begin) / logins;
}

/// Both sides' X25519 and Ed25519 of one login: 2 key pairs, 4 multiplications, 1 signature, 1 verification.
double crypto_us(const link::SigningKeys& device, int rounds) {
  const link::ChannelKeys keys = link::make_channel_keys();
  unsigned char out[32];
  unsigned char secret[32];
  const auto* scalar = reinterpret_cast<const unsigned char*>(keys.secret_key.data());
  const auto* point = reinterpret_cast<const unsigned char*>(keys.public_key.data());
  const auto message = view_of("thirty-two bytes, like a true h.");
  const double begin = cpu_us();
  for (int i = 0; i < rounds; ++i) {
    for (int k = 0; k < 2; ++k) crypto_box_keypair(out, secret);
    for (int k = 0; k < 4; ++k) {
      if (crypto_scalarmult(out, scalar, point) != 0) std::abort();
    }
    const auto signature = link::sign(device, "bench", message);
    if (!link::verify(device.public_key, "bench", message, signature)) std::abort();
  }
  return (cpu_us() - begin) / rounds;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  std::string json_file;
  int rounds = 5;
  int logins = 400;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    if (name == "--json") json_file = argv[i + 1];
    if (name == "--rounds") rounds = std::max(1, std::atoi(argv[i + 1]));
    if (name == "--logins") logins = std::max(kAtOnce, std::atoi(argv[i + 1]));
  }
  link::crypto_ready();
  spdlog::set_level(spdlog::level::off);
  std::string folder = (std::filesystem::temp_directory_path() / "gearbox-bench-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) std::abort();
  config::StateDir state{folder};
  int code = 0;
  {
    Bench bench;
    const link::SigningKeys node_keys = link::make_signing_keys();
    auto accounts = must(central::Accounts::open(state.central_db(), central::OnDamage::restore));
    central::User user;
    user.name = "bench";
    must(accounts->add_user(user, "only for this bench"));
    must(accounts->enrol("bench", "cam", bench.device.public_key));
    must(accounts->add_node("barn", node_keys.public_key));
    auto config = std::make_shared<config::Config>();
    config->central.listen = "tcp://127.0.0.1:0";
    config->central.node_silent = milliseconds{600'000};
    central::Central::Setup setup;
    setup.io = &bench.io;
    setup.state = state;
    setup.config = config;
    setup.transport = std::make_shared<transport_tcp::TcpTransport>();
    setup.balancer = std::make_shared<balancer::LeastLoaded>(64);
    auto server = must(central::Central::start(std::move(setup)));
    bench.url = server->url();
    bench.server_key = server->channel_key();
    std::shared_ptr<FrameStream> node;
    spawn(bench, be_node(&bench, &node_keys, &node));
    run_all(bench);
    spawn(bench, locate(&bench));
    run_all(bench);

    login_us(bench, logins / 4);
    std::vector<double> ours;
    std::vector<double> bound;
    std::vector<double> ratio;
    for (int round = 0; round < rounds; ++round) {
      bound.push_back(crypto_us(bench.device, logins));
      ours.push_back(login_us(bench, logins));
      ratio.push_back(bound.back() / ours.back());
    }
    node->close();
    std::printf("one core, server and client together, CPU time, median of %d rounds\n", rounds);
    std::printf("  cryptography of one login      %8.1f us\n  one login over TCP             %8.1f us\n", median(bound),
                median(ours));
    std::printf("  conn.handshake_vs_crypto       %8.3f    (target >= 0.8; %.3f to %.3f)\n", median(ratio),
                *std::min_element(ratio.begin(), ratio.end()), *std::max_element(ratio.begin(), ratio.end()));
    std::printf("  central.bytes_per_locate       %8llu    (target <= 2048)\n",
                static_cast<unsigned long long>(bench.bytes));
    if (!json_file.empty()) {
      std::ofstream out(json_file);
      out << "{\"conn.handshake_vs_crypto\": " << median(ratio) << ", \"conn.login_cpu_us\": " << median(ours)
          << ", \"central.bytes_per_locate\": " << bench.bytes << "}\n";
      if (!out.flush()) code = 1;
    }
  }
  std::error_code failed;
  std::filesystem::remove_all(folder, failed);
  return failed ? 1 : code;
}
