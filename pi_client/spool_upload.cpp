#include "spool_upload.hpp"

#include <algorithm>

#include "gearbox/base/text.hpp"

namespace gearbox::client {

namespace {

constexpr milliseconds kForConnection{10'000};  // a turn waits so long for one; then another task may have its place
constexpr milliseconds kLongestDeadline = std::chrono::hours(1);  // as the node's own bound
constexpr milliseconds kStandsStill = std::chrono::minutes(10);   // no byte either way about a request: ask again

/// Does this refusal say something about the request itself, so that no later try can mend it? All others are about
/// accounts, tasks and nodes, which people change.
bool is_final(Errc code) {
  switch (code) {
    case Errc::bad_input:
    case Errc::too_large:
    case Errc::bad_picture:
    case Errc::bad_name:
    case Errc::deadline_exceeded:
    case Errc::quarantined:
    case Errc::cancelled:
    case Errc::stream_broken:
      return true;
    default:
      return false;
  }
}

wire::Locate question_of(const SpoolItem& item) {
  return wire::Locate{item.submit.task, steps::models_of(item.submit.steps)};
}

std::shared_ptr<Outgoing> outgoing_from(Payload payload, const SpoolItem& item, std::shared_ptr<RateLimit> rate) {
  auto outgoing = std::make_shared<Outgoing>();
  outgoing->id = item.id;
  outgoing->submit = std::move(payload.submit);
  outgoing->sender = std::move(payload.sender);
  outgoing->priority = item.priority;
  outgoing->rate = std::move(rate);
  if (payload.stored && outgoing->submit.wire_bytes <= kInlineBytes) {
    Bytes all;
    while (!outgoing->sender->finished()) {
      const ByteView bytes = outgoing->sender->next().bytes;
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    outgoing->inline_payload = std::move(all);
  }
  const milliseconds deadline =
      item.deadline.count() > 0 ? std::min(item.deadline, kLongestDeadline) : kLongestDeadline;
  outgoing->expires = after(Clock::now(), deadline);
  return outgoing;
}

bool too_old(const SpoolItem& item) {
  if (item.max_age.count() == 0) return false;
  const std::optional<milliseconds> age = between(item.spooled, boot_now());
  return age && *age > item.max_age;
}

}  // namespace

SpoolUpload::SpoolUpload(Dialler dialler, CentralAddress central, Identity identity, LinkSettings link,
                         UploadSettings settings, Spool* spool, Ends ends)
    : dialler_(dialler),
      central_(std::move(central)),
      identity_(std::move(identity)),
      link_settings_(link),
      settings_(settings),
      spool_(spool),
      ends_(std::move(ends)),
      begins_(settings.max_per_minute, std::chrono::minutes(1)),
      turns_(dialler.executor),
      watching_(dialler.executor),
      bell_(dialler.executor) {
  link_settings_.patient = true;
  if (settings.max_rate > 0) rate_ = std::make_shared<RateLimit>(settings.max_rate, seconds(1));
}

asio::awaitable<void> SpoolUpload::run() {
  watching_.spawn(watch_links());
  co_await begin_turns();
  co_await turns_.all_done();
  over_ = true;
  bell_.ring();
  co_await watching_.all_done();
  for (auto& [name, task] : tasks_) co_await task->link->finish(milliseconds(1'000));
}

void SpoolUpload::stop() {
  stopping_ = true;
  bell_.ring();
  for (auto& [name, task] : tasks_) task->link->cancel();
  for (const std::shared_ptr<Inbox>& inbox : listening_) inbox->bell.ring();
}

asio::awaitable<void> SpoolUpload::begin_turns() {
  std::string told;
  while (!stopping_) {
    stirred_ = false;
    Spool* const spool = spool_;
    auto work = [spool] { return spool->list(); };
    Outcome<std::vector<std::shared_ptr<const Spooled>>> items = co_await on_pool(*dialler_.pool, std::move(work));
    if (items) {
      items_ = std::move(items).value();
      if (settings_.newest_first) std::reverse(items_.begin(), items_.end());
      told.clear();
    } else if (items.error().detail != told) {
      told = items.error().detail;
      ends_.remark("the spool cannot be read: " + escaped(told, 512));
    }
    if (waiting_.size() > items_.size()) forget_waiting();
    if (settings_.until_empty && items_.empty() && under_way_.empty()) break;
    Instant next = after(Clock::now(), settings_.look_every);
    while (!stopping_ && under_way_.size() < settings_.parallel) {
      // The rate first, the choice then: by its turn an item may have made room for a newer one.
      if (begins_.free_at() > Clock::now()) {
        next = std::min(next, begins_.free_at());
        break;
      }
      const std::shared_ptr<const Spooled> item = choose(&next);
      if (!item) break;
      begins_.take(1, Clock::now());
      under_way_.insert(item->item.id);
      ++task_of(item->item).turns;
      turns_.spawn(take_turn(item));
    }
    if (!stopping_ && !stirred_) co_await bell_.wait_until(next);
  }
}

/// Of items that others dropped.
void SpoolUpload::forget_waiting() {
  std::set<RequestId> there = under_way_;
  for (const std::shared_ptr<const Spooled>& item : items_) there.insert(item->item.id);
  std::erase_if(waiting_, [&](const auto& known) { return there.count(known.first) == 0; });
}

/// The first item that may go now. `next` comes no later than the moment at which another one may.
std::shared_ptr<const Spooled> SpoolUpload::choose(Instant* next) {
  const Instant now = Clock::now();
  for (const std::shared_ptr<const Spooled>& item : items_) {
    if (under_way_.count(item->item.id) > 0) continue;
    const auto waiting = waiting_.find(item->item.id);
    Instant from = waiting == waiting_.end() ? now : waiting->second.not_before;
    const Task& task = task_of(item->item);
    // A task that no node has been reached for tries with one item, so that it does not take all the places.
    if (!task.connected && task.turns > 0) continue;
    from = std::max(from, task.not_before);
    if (from <= now) return item;
    *next = std::min(*next, from);
  }
  return nullptr;
}

SpoolUpload::Task& SpoolUpload::task_of(const SpoolItem& item) {
  const wire::Locate question = question_of(item);
  std::unique_ptr<Task>& task = tasks_[item.submit.task.empty() ? wire::to_json(question) : item.submit.task];
  if (!task) {
    task = std::make_unique<Task>();
    task->link = std::make_unique<NodeLink>(dialler_, central_, &identity_, question, link_settings_);
  }
  return *task;
}

asio::awaitable<void> SpoolUpload::take_turn(std::shared_ptr<const Spooled> item) {
  const SpoolItem& it = item->item;
  Task& task = task_of(it);
  spool_->pin(it.id);
  Report report;
  report.file = it.name;
  report.task = it.submit.steps.empty() ? it.submit.task : std::string(wire::kOwnSteps);
  report.request = it.id;
  Attempt attempt;
  if (unremoved_.count(it.id) > 0) {
    const bool removed = co_await remove(it.id);
    attempt.fate = removed ? Fate::gone : Fate::again;
  } else {
    attempt = co_await try_once(&it, &task, &report);
  }
  --task.turns;
  bool over = attempt.fate == Fate::gone;
  if (attempt.fate == Fate::answered) over = co_await finish(&it, std::move(report), attempt);
  if (over) {
    waiting_.erase(it.id);
    const RequestId id = it.id;
    std::erase_if(items_, [&](const auto& known) { return known->item.id == id; });
  } else if (!stopping_ && !attempt.link_waits) {
    Waiting& waiting = waiting_[it.id];
    waiting.not_before = after(Clock::now(), pause_before_retry(waiting.refusals++, milliseconds(100),
                                                                settings_.retry_longest, attempt.advised));
  }
  spool_->unpin(it.id);
  under_way_.erase(it.id);
  look();
}

asio::awaitable<SpoolUpload::Attempt> SpoolUpload::try_once(const SpoolItem* item, Task* task, Report* report) {
  Attempt attempt;
  if (too_old(*item)) {
    report->error = Error{Errc::deadline_exceeded,
                          "older than " + std::to_string(item->max_age.count()) + " ms before it could be sent"};
    attempt.fate = Fate::answered;
    co_return attempt;
  }
  Outcome<NodeLink::Lease> lease = co_await task->link->get(after(Clock::now(), kForConnection));
  task->connected = lease.has_value();
  if (!lease) {
    attempt.link_waits = true;
    if (stopping_) co_return attempt;
    const milliseconds pause = pause_before_retry(task->failures++, milliseconds(200), milliseconds(5'000), {});
    task->not_before = after(Clock::now(), pause);
    co_return attempt;
  }
  task->failures = 0;
  look();  // the others of this task may go
  Spool* const spool = spool_;
  const RequestId id = item->id;
  auto work = [spool, id] { return spool->load(id); };
  Outcome<Payload> payload = co_await on_pool(*dialler_.pool, std::move(work));
  if (!payload) {
    const Error& error = payload.error();
    if (error.code == Errc::corrupt_data) {
      ends_.remark(escaped(item->name, 512) + ": set aside as damaged: " + error.detail);
      report->error = Error{Errc::corrupt_data, "damaged in the spool: " + error.detail};
      attempt.fate = Fate::answered;
    } else {
      attempt.fate = error.code == Errc::not_found ? Fate::gone : Fate::again;
    }
    co_return attempt;
  }
  for (const wire::InputSpec& input : payload.value().submit.inputs) {
    report->inputs.push_back(InputNote{input.tensor.name, input.codecs});
    report->traffic.plain += input.tensor.bytes;
  }
  report->traffic.wire = payload.value().submit.wire_bytes;
  const std::uint64_t limit = lease.value().connection->max_upload_bytes();
  if (limit > 0 && report->traffic.wire > limit) {
    report->error =
        Error{Errc::too_large, std::to_string(report->traffic.wire) + " bytes to upload; node " +
                                   lease.value().connection->node() + " takes at most " + std::to_string(limit)};
    attempt.fate = Fate::answered;
    co_return attempt;
  }
  report->node = lease.value().connection->node();
  report->timing.locate = lease.value().locate;
  report->timing.connect = lease.value().connect;
  std::shared_ptr<Outgoing> outgoing = outgoing_from(std::move(payload).value(), *item, rate_);
  co_return co_await converse(std::move(outgoing), lease.value().connection, task, report);
}

asio::awaitable<SpoolUpload::Attempt> SpoolUpload::converse(std::shared_ptr<Outgoing> outgoing,
                                                            std::shared_ptr<NodeConnection> connection, Task* task,
                                                            Report* report) {
  Attempt attempt;
  const Instant begun = Clock::now();
  const auto inbox = std::make_shared<Inbox>(dialler_.executor);
  listening_.push_back(inbox);
  connection->begin(outgoing, attempts_++, inbox);
  std::uint64_t heard = 0;
  Instant moved = begun;
  while (!inbox->whole && !inbox->refused && !inbox->lost && !stopping_ && Clock::now() < after(moved, kStandsStill)) {
    co_await inbox->bell.wait_until(after(Clock::now(), std::chrono::minutes(1)));
    const std::uint64_t now = inbox->sent + inbox->received;
    if (now != heard) moved = Clock::now();
    heard = now;
  }
  std::erase(listening_, inbox);
  connection->forget(outgoing->id);
  report->traffic.sent = inbox->sent;
  report->traffic.received = inbox->received;
  if (inbox->accepted || inbox->whole || inbox->upload_at.value_or(0) > 0) task->link->made_progress();
  if (inbox->whole) {
    const Instant now = Clock::now();
    const microseconds whole = elapsed(inbox->submitted_at.value_or(begun), now);
    report->timing.upload = elapsed(inbox->submitted_at.value_or(begun), inbox->accepted_at.value_or(now));
    report->timing.total = elapsed(begun, now);
    report->result = std::move(*inbox->result);
    report->payload = std::move(inbox->payload);
    const microseconds node(
        static_cast<std::int64_t>(std::min<std::uint64_t>(report->result.timing.total_us, 1ULL << 50)));
    report->timing.reply = whole > node ? whole - node : microseconds{0};
    attempt.fate = Fate::answered;
    attempt.connection = connection;
  } else if (inbox->refused) {
    const Error refused = wire::to_error(*inbox->refused);
    attempt.advised = milliseconds(inbox->refused->retry_after_ms);
    if (refused.code == Errc::shutting_down) task->link->ask_again();
    // What was accepted has had its one answer. What was turned away at the door may knock again under the same id.
    const bool knows_better = attempt.advised.count() > 0;
    if (inbox->accepted || (is_final(refused.code) && !knows_better)) {
      report->error = refused;
      report->timing.total = elapsed(begun, Clock::now());
      attempt.fate = Fate::answered;
      attempt.connection = connection;
    } else {
      const std::string why = describe(refused);
      if (!worth_retrying(refused.code) && task->refusal_told != why) {
        task->refusal_told = why;
        ends_.remark(escaped(report->file, 512) + " waits: " + escaped(why, 1024));
      }
    }
  } else if (inbox->lost) {
    attempt.link_waits = true;
  }
  co_return attempt;
}

/// Writes the answer down; then the node may forget it, then the spool. True: the item has gone.
asio::awaitable<bool> SpoolUpload::finish(const SpoolItem* item, Report report, Attempt attempt) {
  while (writing_) co_await bell_.wait_until(after(Clock::now(), seconds(1)));
  writing_ = true;
  auto write = [this, &report] { return ends_.write_answer(std::move(report)); };
  Outcome<void> written = co_await on_pool(*dialler_.pool, std::move(write));
  writing_ = false;
  bell_.ring();
  if (!written) {
    ends_.remark(escaped(item->name, 512) + ": its answer cannot be written down, and is asked for again: " +
                 escaped(describe(written.error()), 512));
    co_return false;
  }
  ++answered_;
  if (attempt.connection) attempt.connection->tell(wire::FrameType::result_ack, item->id);
  co_return co_await remove(item->id);
}

/// Of an answered item. One that cannot be removed is not sent again by this process; the next one finds its line among
/// the answers.
asio::awaitable<bool> SpoolUpload::remove(RequestId id) {
  Spool* const spool = spool_;
  auto work = [spool, id] { return spool->remove(id); };
  Outcome<bool> removed = co_await on_pool(*dialler_.pool, std::move(work));
  if (removed) {
    unremoved_.erase(id);
  } else if (unremoved_.insert(id).second) {
    ends_.remark("an answered item stays in the spool: " + escaped(describe(removed.error()), 512));
  }
  co_return removed.has_value();
}

/// Tells people when a task cannot be sent, and when it can be again.
asio::awaitable<void> SpoolUpload::watch_links() {
  while (!over_ && !stopping_) {
    for (auto& [name, task] : tasks_) {
      const std::optional<Error>& trouble = task->link->trouble();
      const std::string now = trouble ? describe(*trouble) : std::string();
      if (now == task->told) continue;
      // Not every other reason of a long absence is worth a line.
      if (trouble && !task->told.empty() && Clock::now() < after(task->told_at, std::chrono::minutes(1))) continue;
      task->told_at = Clock::now();
      if (trouble)
        ends_.remark("no connection, " + std::to_string(items_.size()) + " in the spool: " + escaped(now, 512));
      if (!trouble) ends_.remark("connected again");
      task->told = now;
    }
    co_await bell_.wait_until(after(Clock::now(), seconds(2)));
  }
}

}  // namespace gearbox::client
