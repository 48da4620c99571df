// spool_turn.cpp: one turn of one item: over one route, one submit, until there is a word about it.
#include <algorithm>

#include "gearbox/base/text.hpp"
#include "spool_upload.hpp"

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

asio::awaitable<void> SpoolUpload::take_turn(std::shared_ptr<Turn> turn) {
  const SpoolItem& item = turn->item->item;
  spool_->pin(item.id);
  Report report;
  report.file = item.name;
  report.task = item.submit.steps.empty() ? item.submit.task : std::string(wire::kOwnSteps);
  report.request = item.id;
  Attempt attempt;
  if (unremoved_.count(item.id) > 0) {
    const bool removed = co_await remove(item.id);
    attempt.fate = removed ? Fate::gone : Fate::again;
  } else {
    attempt = co_await try_once(turn, &report);
  }
  --turn->route->turns;
  bool over = attempt.fate == Fate::gone;
  if (attempt.fate == Fate::answered) over = co_await finish(turn, std::move(report), attempt);
  if (over) {
    const RequestId id = item.id;
    std::erase_if(waiting_, [&](const auto& known) { return known.first.first == id; });
    std::erase_if(items_, [&](const auto& known) { return known->item.id == id; });
  } else if (!stopping_ && !turn->superseded && !attempt.link_waits) {
    Waiting& waiting = waiting_[{item.id, turn->route}];
    const auto before = waiting_.find({item.id, nullptr});
    if (before != waiting_.end()) {
      waiting.refusals = std::max(waiting.refusals, before->second.refusals);
      waiting_.erase(before);
    }
    waiting.not_before = after(Clock::now(), pause_before_retry(waiting.refusals++, milliseconds(100),
                                                                settings_.retry_longest, attempt.advised));
  }
  std::erase(under_way_, turn);
  unpin_if_free(item.id);
  look();
}

/// What a node has acknowledged is there for good, until it is answered or the node has lost it.
void SpoolUpload::unpin_if_free(const RequestId& id) {
  if (turns_of(id).empty() && homes_.count(id) == 0) spool_->unpin(id);
}

asio::awaitable<SpoolUpload::Attempt> SpoolUpload::try_once(std::shared_ptr<Turn> turn, Report* report) {
  Attempt attempt;
  const SpoolItem& item = turn->item->item;
  Route* const route = turn->route;
  if (homes_.count(item.id) == 0 && too_old(item)) {
    report->error = Error{Errc::deadline_exceeded,
                          "older than " + std::to_string(item.max_age.count()) + " ms before it could be sent"};
    attempt.fate = Fate::answered;
    co_return attempt;
  }
  ++route->waiting;
  Outcome<NodeLink::Lease> lease = co_await route->link->get(after(Clock::now(), kForConnection));
  --route->waiting;
  route->connected = lease.has_value();
  if (!lease) {
    attempt.link_waits = true;
    if (stopping_) co_return attempt;
    const milliseconds pause = pause_before_retry(route->failures++, milliseconds(200), milliseconds(5'000), {});
    route->not_before = after(Clock::now(), pause);
    co_return attempt;
  }
  route->failures = 0;
  look();  // the others of this task may go
  const std::shared_ptr<NodeConnection> connection = lease.value().connection;
  if (!may_begin_at(item.id, *turn->task, connection->node())) {
    attempt.link_waits = true;
    co_return attempt;
  }
  turn->connection = connection;
  Spool* const spool = spool_;
  const RequestId id = item.id;
  auto work = [spool, id] { return spool->load(id); };
  Outcome<Payload> payload = co_await on_pool(*dialler_.pool, std::move(work));
  if (turn->superseded) co_return attempt;
  if (!payload) {
    const Error& error = payload.error();
    if (error.code == Errc::corrupt_data) {
      ends_.remark(escaped(item.name, 512) + ": set aside as damaged: " + error.detail);
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
  report->node = connection->node();
  report->timing.locate = lease.value().locate;
  report->timing.connect = lease.value().connect;
  const std::uint64_t limit = connection->max_upload_bytes();
  if (limit > 0 && report->traffic.wire > limit) {
    if (homes_.count(id) > 0) co_return attempt;  // others have taken it: they have the word
    report->error = Error{Errc::too_large, std::to_string(report->traffic.wire) + " bytes to upload; node " +
                                               connection->node() + " takes at most " + std::to_string(limit)};
    attempt.fate = Fate::answered;
    co_return attempt;
  }
  std::shared_ptr<Outgoing> outgoing = outgoing_from(std::move(payload).value(), item, rate_);
  co_return co_await converse(turn, std::move(outgoing), report);
}

/// What others have acknowledged begins at a further node only when they have been silent for long enough.
bool SpoolUpload::may_begin_at(const RequestId& id, const TaskPlaces& task, const std::string& node) {
  const auto home = homes_.find(id);
  if (home == homes_.end()) return true;
  const std::vector<std::string>& nodes = home->second;
  if (std::find(nodes.begin(), nodes.end(), node) != nodes.end()) return true;
  if (task.move_due(nodes) > Clock::now()) return false;
  const std::string why = "node " + escaped(nodes.back(), 64) + " has been silent for over " +
                          std::to_string(link_settings_.move_after.count()) + " ms: " + escaped(node, 64) +
                          " does what it has, too";
  if (move_told_ != why) ends_.remark(why);
  move_told_ = why;
  return true;
}

asio::awaitable<SpoolUpload::Attempt> SpoolUpload::converse(std::shared_ptr<Turn> turn,
                                                            std::shared_ptr<Outgoing> outgoing, Report* report) {
  Attempt attempt;
  const Instant begun = Clock::now();
  const std::shared_ptr<NodeConnection> connection = turn->connection;
  const auto inbox = std::make_shared<Inbox>(dialler_.executor);
  turn->inbox = inbox;
  connection->begin(outgoing, attempts_++, inbox);
  std::uint64_t heard = 0;
  Instant moved = begun;
  bool noted = false;
  while (!inbox->whole && !inbox->refused && !inbox->lost && !stopping_ && !turn->superseded &&
         Clock::now() < after(moved, kStandsStill)) {
    if (inbox->accepted && !noted) {
      noted = true;
      co_await note_home(outgoing->id, connection->node());
      continue;
    }
    co_await inbox->bell.wait_until(after(Clock::now(), std::chrono::minutes(1)));
    const std::uint64_t now = inbox->sent + inbox->received;
    if (now != heard) moved = Clock::now();
    heard = now;
  }
  connection->forget(outgoing->id);
  report->traffic.sent = inbox->sent;
  report->traffic.received = inbox->received;
  if (inbox->accepted || inbox->whole || inbox->upload_at.value_or(0) > 0) turn->route->link->made_progress();
  if (turn->superseded) {
    connection->tell(wire::FrameType::cancel, outgoing->id);
    connection->tell(wire::FrameType::result_ack, outgoing->id);
  } else if (inbox->whole) {
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
    attempt = after_refusal(*turn, report);
    if (attempt.fate != Fate::answered && has_lost(*turn)) co_await forget_home(turn);
    report->timing.total = elapsed(begun, Clock::now());
  } else if (inbox->lost) {
    attempt.link_waits = true;
    std::vector<std::string>& nodes = perhaps_homes_[outgoing->id];
    if (inbox->sent > 0 && std::find(nodes.begin(), nodes.end(), connection->node()) == nodes.end()) {
      nodes.push_back(connection->node());
    }
  }
  co_return attempt;
}

SpoolUpload::Attempt SpoolUpload::after_refusal(const Turn& turn, Report* report) {
  Attempt attempt;
  const Error refused = wire::to_error(*turn.inbox->refused);
  attempt.advised = milliseconds(turn.inbox->refused->retry_after_ms);
  // What was accepted has had its one answer. What was turned away at the door may knock again under the same id; and
  // at the door of a further node nothing is decided about what another has acknowledged.
  const auto home = homes_.find(turn.id());
  const bool elsewhere =
      home != homes_.end() && std::find(home->second.begin(), home->second.end(), turn.node()) == home->second.end();
  // Of several that had it one has lost it: the others have the word.
  const bool others = home != homes_.end() && home->second.size() > 1;
  const bool knows_better = attempt.advised.count() > 0;
  if (turn.inbox->accepted || (is_final(refused.code) && !knows_better && !elsewhere && !others)) {
    report->error = refused;
    attempt.fate = Fate::answered;
    attempt.connection = turn.connection;
    return attempt;
  }
  // It takes nothing new: others may go on elsewhere at once.
  if (refused.code == Errc::shutting_down && turn.task->main().link->node() == turn.node()) turn.task->leave_main();
  const std::string why = describe(refused);
  if (!worth_retrying(refused.code) && turn.route->refusal_told != why) {
    turn.route->refusal_told = why;
    ends_.remark(escaped(report->file, 512) + " waits: " + escaped(why, 1024));
  }
  return attempt;
}

/// A node that has a request gives its answer, or says that it goes on, and turns nobody away but for a moment: one
/// that had acknowledged it and refuses it at the door has lost it (a journal that was set aside, or none).
bool SpoolUpload::has_lost(const Turn& turn) const {
  if (!turn.inbox || !turn.inbox->refused || turn.inbox->accepted) return false;
  const auto home = homes_.find(turn.id());
  if (home == homes_.end()) return false;
  if (std::find(home->second.begin(), home->second.end(), turn.node()) == home->second.end()) return false;
  switch (wire::to_error(*turn.inbox->refused).code) {
    case Errc::shutting_down:
    case Errc::overloaded:
    case Errc::rate_limited:
      return false;
    default:
      return true;
  }
}

/// So that another may do it.
asio::awaitable<void> SpoolUpload::forget_home(std::shared_ptr<Turn> turn) {
  const RequestId id = turn->id();
  const std::string node = turn->node();
  const auto home = homes_.find(id);
  std::erase(home->second, node);
  if (home->second.empty()) homes_.erase(home);
  ends_.remark("node " + escaped(node, 64) + " has lost what it had acknowledged: another may do it");
  turn->task->call_off(id, node);  // should it have it all the same
  while (writing_) co_await bell_.wait_until(after(Clock::now(), seconds(1)));
  writing_ = true;
  auto work = [this, id, node] { return homes_file_.note_lost(id, node); };
  const Outcome<void> noted = co_await on_pool(*dialler_.pool, std::move(work));
  writing_ = false;
  bell_.ring();
  complain_of_homes(noted);
}

void SpoolUpload::complain_of_homes(const Outcome<void>& noted) {
  if (noted || homes_told_ == noted.error().detail) return;
  homes_told_ = noted.error().detail;
  ends_.remark("which node has what is not written down: " + escaped(homes_told_, 512));
}

/// The next process asks there first.
asio::awaitable<void> SpoolUpload::note_home(RequestId id, std::string node) {
  std::vector<std::string>& nodes = homes_[id];
  if (std::find(nodes.begin(), nodes.end(), node) != nodes.end()) co_return;
  nodes.push_back(node);
  while (writing_) co_await bell_.wait_until(after(Clock::now(), seconds(1)));
  writing_ = true;
  auto work = [this, id, node, live = homes_] { return homes_file_.note(id, node, live); };
  Outcome<void> noted = co_await on_pool(*dialler_.pool, std::move(work));
  writing_ = false;
  bell_.ring();
  complain_of_homes(noted);
}

/// Writes the answer down; then the node may forget it, then the spool. True: the item has gone.
asio::awaitable<bool> SpoolUpload::finish(std::shared_ptr<Turn> turn, Report report, Attempt attempt) {
  const SpoolItem& item = turn->item->item;
  if (turn->superseded || !claimed_.insert(item.id).second) co_return false;  // another node's answer came first
  while (writing_) co_await bell_.wait_until(after(Clock::now(), seconds(1)));
  writing_ = true;
  auto write = [this, &report] { return ends_.write_answer(std::move(report)); };
  Outcome<void> written = co_await on_pool(*dialler_.pool, std::move(write));
  writing_ = false;
  bell_.ring();
  bool removed = false;
  if (written) {
    ++answered_;
    if (attempt.connection) attempt.connection->tell(wire::FrameType::result_ack, item.id);
    call_off_elsewhere(*turn, attempt.connection ? attempt.connection->node() : std::string());
    removed = co_await remove(item.id);
  } else {
    ends_.remark(escaped(item.name, 512) + ": its answer cannot be written down, and is asked for again: " +
                 escaped(describe(written.error()), 512));
  }
  claimed_.erase(item.id);
  co_return removed;
}

/// The answer of `node` is the answer.
void SpoolUpload::call_off_elsewhere(const Turn& winner, const std::string& node) {
  for (const std::shared_ptr<Turn>& turn : under_way_) {
    if (turn.get() == &winner || turn->id() != winner.id()) continue;
    turn->superseded = true;
    if (turn->inbox) turn->inbox->bell.ring();
  }
  std::set<std::string> others;
  for (NodesByRequest* known : {&homes_, &perhaps_homes_}) {
    const auto found = known->find(winner.id());
    if (found == known->end()) continue;
    others.insert(found->second.begin(), found->second.end());
    known->erase(found);
  }
  others.erase(node);
  for (const std::string& other : others) winner.task->call_off(winner.id(), other);
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

}  // namespace gearbox::client
