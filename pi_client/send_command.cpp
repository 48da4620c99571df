#include "send_command.hpp"

#include <signal.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>

#include <utility>

#include "delivery.hpp"
#include "device_key.hpp"
#include "gearbox/base/text.hpp"
#include "output.hpp"
#include "result_files.hpp"
#include "stream_text.hpp"

namespace gearbox::client {

namespace {

asio::awaitable<void> run_delivery(Delivery* delivery, asio::signal_set* signals, Bell* finished, bool* is_finished) {
  co_await delivery->run();
  *is_finished = true;
  finished->ring();
  signals->cancel();
}

asio::awaitable<void> watch_signals(Delivery* delivery, asio::signal_set* signals) {
  auto [failed, number] = co_await signals->async_wait(asio::as_tuple(asio::use_awaitable));
  if (failed) co_return;  // all done: nobody interrupted
  delivery->cancel();
  signals->clear();  // the next one ends the process at once
}

asio::awaitable<void> show_progress(const Delivery* delivery, ProgressBar* bar, Bell* finished,
                                    const bool* is_finished) {
  while (bar->shown() && !*is_finished) {
    bar->draw(delivery->tally());
    co_await finished->wait_until(after(Clock::now(), milliseconds(100)));
  }
  bar->clear();
}

}  // namespace

bool print_report(Report report, const SendOptions& options, bool several, Console& console) {
  if (!report.error && !options.out.empty()) {
    Outcome<void> written = write_results(report, options.out);
    if (!written) report.error = std::move(written).error();
  }
  if (options.json) {
    console.results(to_json(report) + "\n");
    return !report.error;
  }
  if (report.error) {
    console.remarks(error_text(report));
    return false;
  }
  console.results((several && report.parts == 0 ? "== " + escaped(report.file, 512) + "\n" : std::string()) +
                  result_text(report));
  if (!options.quiet)
    console.remarks((several ? "-- " + escaped(report.file, 512) + "\n" : std::string()) + table(report));
  return true;
}

int run_send(const Options& given, const LinkSettings& settings, plugin::Transport& transport, Console& console) {
  Options options = given;
  if (!options.send.steps_file.empty()) {
    Outcome<steps::StepList> own = steps::read_steps_file(options.send.steps_file);
    if (!own) {
      console.remarks("pi_client: " + own.error().detail + "\n");
      return 2;
    }
    options.send.own = std::move(own).value();
  }
  Outcome<link::SigningKeys> keys = load_device_key(options.keys);
  if (!keys) {
    console.remarks("pi_client: " + escaped(describe(keys.error()), 1024) + "\n");
    return 2;
  }
  asio::io_context context(1);
  asio::thread_pool pool(2);
  Dialler dialler;
  dialler.executor = context.get_executor();
  dialler.transport = &transport;
  dialler.pool = &pool;

  ProgressBar bar(!options.send.quiet && !options.send.json && ::isatty(STDERR_FILENO) == 1);
  const bool several = requests_of(options.send).size() > 1;
  bool all_good = true;
  Identity identity;
  identity.user = options.central.user;
  identity.keys = keys.value();
  identity.desk = std::make_shared<CommandDesk>(options.keys, CommandDesk::Ends{});
  StreamText text;  // of the request under way: --stream sends one after the other, unless it prints JSON
  Delivery delivery(dialler, &options, std::move(identity), settings, [&](Report report) {
    bar.clear();
    if (!options.send.json && report.parts > 0) console.results(std::exchange(text, StreamText()).end());
    all_good = print_report(std::move(report), options.send, several, console) && all_good;
  });
  delivery.on_part([&](const Report& so_far, const Part& part) {
    bar.clear();
    if (!options.send.json && several && part.number == 0) console.results("== " + escaped(so_far.file, 512) + "\n");
    console.results(options.send.json ? part_json(so_far, part) + "\n" : text.add(part));
  });
  Bell finished(dialler.executor);
  bool is_finished = false;
  asio::signal_set signals(dialler.executor, SIGINT, SIGTERM);
  TaskGroup tasks(dialler.executor);
  tasks.spawn(run_delivery(&delivery, &signals, &finished, &is_finished));
  tasks.spawn(watch_signals(&delivery, &signals));
  tasks.spawn(show_progress(&delivery, &bar, &finished, &is_finished));
  context.run();
  pool.join();
  return all_good ? 0 : 1;
}

}  // namespace gearbox::client
