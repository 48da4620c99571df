#include "run_command.hpp"

#include <signal.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>

#include <future>
#include <thread>

#include "capture.hpp"
#include "command_desk.hpp"
#include "contact.hpp"
#include "device_key.hpp"
#include "gearbox/base/text.hpp"
#include "outbox.hpp"
#include "output.hpp"
#include "pause.hpp"
#include "result_files.hpp"
#include "spool_upload.hpp"

namespace gearbox::client {

namespace {

constexpr seconds kCaptureEnds{5};  // a camera's driver may hold its thread for longer: then it is left behind

constexpr milliseconds kContactWithin{5'000};  // also the longest that an end waits for one

/// What happens between the parts of a run.
struct Running {
  explicit Running(asio::any_io_executor executor) : bell(std::move(executor)) {}
  SpoolUpload* upload = nullptr;
  StopBell* capture = nullptr;
  Bell bell;  // over
  bool over = false;
  bool again = false;  // somebody asked for a restart

  void stop() const {
    if (capture != nullptr) capture->stop();
    if (upload != nullptr) upload->stop();
  }
};

asio::awaitable<void> run_upload(Running* running, asio::signal_set* signals) {
  co_await running->upload->run();
  running->capture->stop();
  running->over = true;
  running->bell.ring();
  signals->cancel();
}

/// Looks in at central now and then, for what people ask of this device: with an empty spool nothing else would.
asio::awaitable<void> look_in(Running* running, Dialler dialler, CentralAddress central, const Identity* identity,
                              milliseconds every) {
  std::size_t turn = 0;
  while (every.count() > 0) {
    const Instant next = after(Clock::now(), pause_before_retry(0, every, every, milliseconds{0}));
    while (!running->over && Clock::now() < next) co_await running->bell.wait_until(next);
    if (running->over) break;
    // Whether central is there shows where it matters: when a picture is to go somewhere.
    co_await keep_in_touch(dialler, central, identity, kContactWithin, &turn);
  }
}

std::string status_of(Spool& spool) {
  const auto items = spool.list();
  if (!items) return "spool: " + items.error().detail;
  std::uint64_t bytes = 0;
  for (const std::shared_ptr<const Spooled>& each : items.value()) bytes += each->bytes;
  return "spool " + std::to_string(items.value().size()) + " items, " + std::to_string(bytes) + " bytes";
}

asio::awaitable<void> watch_signals(const Running* running, asio::signal_set* signals) {
  auto [failed, number] = co_await signals->async_wait(asio::as_tuple(asio::use_awaitable));
  if (failed) co_return;  // over without being told to
  running->stop();
  signals->clear();  // the next one ends the process at once
}

Outcome<std::set<RequestId>> ids_in(Spool& spool) {
  BOOST_OUTCOME_TRY(const auto items, spool.list());
  std::set<RequestId> ids;
  for (const std::shared_ptr<const Spooled>& each : items) ids.insert(each->item.id);
  return ids;
}

/// The spool without what has its answer already: a process ended between the two.
Outcome<std::size_t> forget_answered(Spool& spool, const Outbox& outbox) {
  BOOST_OUTCOME_TRY(const std::set<RequestId> ids, ids_in(spool));
  BOOST_OUTCOME_TRY(const std::set<RequestId> answered, outbox.answered(ids));
  for (const RequestId& id : answered) {
    BOOST_OUTCOME_TRY(spool.remove(id));
  }
  return answered.size();
}

/// The thread that captures. The process does not wait for ever for a driver that hangs.
class CaptureThread {
 public:
  CaptureThread(Capture* capture, StopBell* stop) : stop_(stop) {
    if (capture == nullptr) return;
    std::promise<void> ended;
    ended_ = ended.get_future();
    thread_ = std::thread([capture, ended = std::move(ended)]() mutable {
      capture->run();
      ended.set_value();
    });
  }
  /// False: it hangs.
  bool end() {
    stop_->stop();
    if (!thread_.joinable()) return true;
    if (ended_.wait_for(kCaptureEnds) != std::future_status::ready) {
      thread_.detach();
      return false;
    }
    thread_.join();
    return true;
  }

 private:
  StopBell* stop_;
  std::future<void> ended_;
  std::thread thread_;
};

}  // namespace

int run_spooled(const Options& options, const LinkSettings& settings, plugin::Transport& transport, Console& console) {
  const SpoolOptions& asked = options.spool;
  const auto complain = [&console](const Error& error, int code) {
    console.remarks("pi_client: " + escaped(describe(error), 1024) + "\n");
    return code;
  };
  Outcome<link::SigningKeys> keys = load_device_key(options.keys);
  if (!keys) return complain(keys.error(), 2);
  Outcome<std::unique_ptr<Spool>> opened = Spool::open(asked.folder, asked.limits);
  if (!opened) return complain(opened.error(), 1);
  Spool& spool = *opened.value();
  const Outcome<Descriptor> sending = spool.lock_for_sending();
  if (!sending) return complain(sending.error(), 1);
  Outcome<SpoolFill> fill = SpoolFill::create(&spool, asked.request);
  if (!fill) return complain(fill.error(), 2);
  const bool to_stdout = asked.answers == "-";
  const Outbox outbox(asked.answers.empty() ? spool.folder() / "answers.jsonl" : std::filesystem::path(asked.answers));
  if (!to_stdout) {
    const Outcome<std::size_t> answered = forget_answered(spool, outbox);
    if (!answered) return complain(answered.error(), 1);
  }
  const Homes homes(spool.homes_file());
  const Outcome<std::set<RequestId>> ids = ids_in(spool);
  if (!ids) return complain(ids.error(), 1);
  Outcome<NodesByRequest> known = homes.load(ids.value());
  if (!known) return complain(known.error(), 1);
  if (spool.set_aside() > 0) {
    console.remarks("pi_client: " + std::to_string(spool.set_aside()) +
                    " requests whose descriptions are damaged were set aside in " + escaped(asked.folder, 512) +
                    "/damaged and get no answers: their ids are in the files' names\n");
  }

  asio::io_context context(1);
  asio::thread_pool pool(2);
  Dialler dialler;
  dialler.executor = context.get_executor();
  dialler.transport = &transport;
  dialler.pool = &pool;
  Identity identity;
  identity.user = options.central.user;
  identity.keys = keys.value();
  Running running(dialler.executor);
  const auto remark = [&console](const std::string& text) { console.remarks("pi_client: " + text + "\n"); };
  CommandDesk::Ends desk_ends;
  desk_ends.status = [&spool] { return status_of(spool); };
  desk_ends.set_rate = [&running, fallback = asked.max_rate](SetRate rate) {
    running.upload->set_max_rate(rate.value_or(fallback));
  };
  desk_ends.restart = [&running] {
    running.again = true;
    running.stop();
  };
  desk_ends.say = remark;
  identity.desk = std::make_shared<CommandDesk>(options.keys, desk_ends);
  const Identity looking_in = identity;
  const Outcome<CommandRecord> commanded = CommandRecord::load(CommandRecord::file(options.keys));
  if (!commanded) remark(escaped(describe(commanded.error()), 1024) + ": --max-rate holds");
  UploadSettings upload_settings;
  upload_settings.parallel = asked.parallel;
  upload_settings.max_rate = commanded ? commanded.value().rate.value_or(asked.max_rate) : asked.max_rate;
  upload_settings.max_per_minute = asked.max_per_minute;
  upload_settings.newest_first = asked.limits.policy == SpoolPolicy::newest_only;
  upload_settings.until_empty = asked.until_empty;
  SpoolUpload::Ends ends;
  ends.write_answer = [&](Report report) -> Outcome<void> {
    if (!report.error && !asked.out.empty()) {
      BOOST_OUTCOME_TRY(write_results(report, asked.out));
    }
    const std::string line = to_json(report);
    return to_stdout ? write_all(STDOUT_FILENO, view_of(line + "\n"), "standard output") : outbox.append(line);
  };
  ends.remark = remark;
  LinkSettings link = settings;
  link.move_after = asked.move_after;
  SpoolUpload upload(dialler, options.central, std::move(identity), link, upload_settings, &spool, homes,
                     std::move(known).value(), ends);

  StopBell stop_capture;
  running.upload = &upload;
  running.capture = &stop_capture;
  CaptureEnds capture_ends;
  capture_ends.fill = &fill.value();
  capture_ends.stop = &stop_capture;
  capture_ends.spooled = [&context, &upload] { asio::post(context, [&upload] { upload.look(); }); };
  capture_ends.remark = [&context, remark = ends.remark](const std::string& text) {
    asio::post(context, [remark, text] { remark(text); });
  };
  Outcome<std::unique_ptr<Capture>> capture = make_capture(asked, &spool, capture_ends);
  if (!capture) return complain(capture.error(), 2);
  if (capture.value()) capture.value()->begin();

  asio::signal_set signals(dialler.executor, SIGINT, SIGTERM);
  TaskGroup tasks(dialler.executor);
  tasks.spawn(run_upload(&running, &signals));
  tasks.spawn(watch_signals(&running, &signals));
  tasks.spawn(look_in(&running, dialler, options.central, &looking_in, asked.contact_every));
  CaptureThread capturing(capture.value().get(), &stop_capture);
  context.run();
  pool.join();
  if (!capturing.end()) {
    console.remarks("pi_client: the camera does not let go; the process ends without it\n");
    ::_exit(running.again ? 1 : 0);  // then it is for the service manager to start it again
  }
  return running.again ? kRunAgain : 0;
}

}  // namespace gearbox::client
