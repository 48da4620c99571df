// load_device: some devices that keep a broker busy for a while and check every byte that comes back.
//
//   load_device --central URL --server-key KEY --user NAME [--open N] [--fresh N] [--open-rate R] [--fresh-rate R]
//               [--seconds S] [--task NAME --shape N,N --payloads FILE --answers FILE] KEYS...
//
// For each folder of KEYS (a device): N connections that stay, and N requests at once that each have a connection of
// their own. Rates are requests a second over all devices; 0: as many as will go. Prints "loading" when it begins, and
// one line of JSON when the time is over or on SIGTERM. With --task: the raw UINT8 tensors of --payloads, all of one
// shape, each of which must be answered by its part of --answers; else the echo task with material of its own.
// Exit codes: 0 done, whatever came out; 1 could not begin; 2 wrong usage.
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include <CLI/CLI.hpp>

#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include "device_key.hpp"
#include "gearbox/base/text.hpp"
#include "given.hpp"
#include "load.hpp"
#include "transport_tcp/tcp_transport.hpp"

namespace {

namespace asio = boost::asio;
using namespace gearbox;

constexpr std::size_t kPiecesOfASort = 16;

struct Words {
  std::string central, server_key, user;
  std::vector<std::string> keys;
  std::size_t open = 4, fresh = 1;
  double open_rate = 0, fresh_rate = 0;
  double seconds = 10;
  load::Given given;
};

int fail(const Error& error) {
  std::fprintf(stderr, "load_device: %s\n", escaped(describe(error), 500).c_str());
  return 1;
}

microseconds pause_of(double rate, std::size_t connections) {
  if (rate <= 0) return microseconds{0};
  return microseconds(static_cast<std::int64_t>(1e6 * static_cast<double>(connections) / rate));
}

asio::awaitable<void> run(load::Load* load, asio::steady_timer* end, asio::signal_set* signals) {
  co_await load->run();
  end->cancel();
  signals->cancel();
}

int work(const Words& words) {
  link::crypto_ready();
  asio::io_context context(1);
  asio::thread_pool pool(2);
  transport_tcp::TcpTransport transport;
  load::Load::Setup setup;
  setup.dialler = {context.get_executor(), &transport, &pool};
  setup.central.url = words.central;
  setup.central.user = words.user;
  if (const auto key = from_hex(words.server_key, setup.central.server_key); !key) return fail(key.error());
  for (const std::string& folder : words.keys) {
    auto keys = client::load_device_key(folder);
    if (!keys) return fail(keys.error());
    setup.devices.push_back(std::move(keys).value());
  }
  setup.open = words.open;
  setup.fresh = words.fresh;
  setup.open_every = pause_of(words.open_rate, words.open * words.keys.size());
  setup.fresh_every = pause_of(words.fresh_rate, words.fresh * words.keys.size());
  auto pieces = words.given.task.empty() ? load::make_pieces(kPiecesOfASort) : load::given_pieces(words.given);
  if (!pieces) return fail(pieces.error());
  {
    load::Load load(std::move(setup), std::move(pieces).value());
    asio::steady_timer end(context, std::chrono::milliseconds(static_cast<std::int64_t>(words.seconds * 1e3)));
    asio::signal_set signals(context, SIGTERM, SIGINT);
    end.async_wait([&load](const boost::system::error_code&) { load.stop(); });
    signals.async_wait([&load](const boost::system::error_code&, int) { load.stop(); });
    client::TaskGroup tasks(context.get_executor());
    tasks.spawn(run(&load, &end, &signals));
    std::puts("loading");
    std::fflush(stdout);
    context.run();
    std::puts(load::to_json(load.tally()).c_str());
  }
  pool.join();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  ::signal(SIGPIPE, SIG_IGN);
  Words words;
  CLI::App app{"some devices that keep a broker busy"};
  app.add_option("--central", words.central)->required();
  app.add_option("--server-key", words.server_key)->required();
  app.add_option("--user", words.user)->required();
  app.add_option("--open", words.open)->capture_default_str();
  app.add_option("--fresh", words.fresh)->capture_default_str();
  app.add_option("--open-rate", words.open_rate)->capture_default_str();
  app.add_option("--fresh-rate", words.fresh_rate)->capture_default_str();
  app.add_option("--seconds", words.seconds)->capture_default_str();
  CLI::Option* const task = app.add_option("--task", words.given.task);
  CLI::Option* const shape = app.add_option("--shape", words.given.shape)->delimiter(',')->needs(task);
  CLI::Option* const payloads = app.add_option("--payloads", words.given.payloads)->needs(shape);
  CLI::Option* const answers = app.add_option("--answers", words.given.answers)->needs(payloads);
  task->needs(answers);
  app.add_option("keys", words.keys)->required();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return work(words);
}
