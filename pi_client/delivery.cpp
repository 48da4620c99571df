#include "delivery.hpp"

#include <algorithm>

#include "gearbox/base/text.hpp"

namespace gearbox::client {

struct Delivery::Running {
  RequestFiles files;
  Instant begun;
  Instant give_up;
  bool deadline_is_sooner = false;  // give_up is the deadline, not the timeout
  std::shared_ptr<Outgoing> outgoing;
  std::shared_ptr<Inbox> inbox;  // of the latest attempt
  std::optional<Instant> first_submit;
  std::optional<Instant> settled;  // accepted, else answered
  std::uint32_t parts = 0;         // of a streamed answer, handed on
  std::string holder;              // the node that has acknowledged it; empty: none
};

namespace {

constexpr milliseconds kWorthALastTry{500};
constexpr milliseconds kGrace{1'000};  // past its deadline a request still waits this long for the node to say so

Error out_of_time(bool deadline_is_sooner, const SendOptions& options) {
  return deadline_is_sooner
             ? Error{Errc::deadline_exceeded, "no result within " + std::to_string(options.deadline->count()) + " ms"}
             : Error{Errc::timeout, "no result within " + std::to_string(options.timeout.count()) + " ms"};
}

void note_payload(const Payload& payload, Report& report) {
  for (const wire::InputSpec& input : payload.submit.inputs) {
    report.inputs.push_back(InputNote{input.tensor.name, input.codecs});
    report.traffic.plain += input.tensor.bytes;
  }
  report.traffic.wire = payload.submit.wire_bytes;
}

std::shared_ptr<Outgoing> outgoing_from(Payload payload, Instant expires) {
  auto outgoing = std::make_shared<Outgoing>();
  outgoing->id = link::random_request_id();
  outgoing->submit = std::move(payload.submit);
  outgoing->sender = std::move(payload.sender);
  outgoing->expires = expires;
  if (payload.stored && outgoing->submit.wire_bytes <= kInlineBytes) {
    Bytes all;
    while (!outgoing->sender->finished()) {
      const ByteView bytes = outgoing->sender->next().bytes;
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    outgoing->inline_payload = std::move(all);
  }
  return outgoing;
}

wire::Locate question_of(const SendOptions& send) {
  return wire::Locate{send.task, steps::models_of(send.own.steps)};
}

}  // namespace

std::vector<RequestFiles> requests_of(const SendOptions& options) {
  std::vector<RequestFiles> requests;
  if (!options.inputs.empty()) {
    RequestFiles all;
    for (const auto& [name, file] : options.inputs) {
      all.label += (all.label.empty() ? "" : " ") + name + "=" + file;
      all.inputs.push_back(InputFile{name, file});
    }
    requests.push_back(std::move(all));
  }
  for (const std::string& file : options.files)
    requests.push_back(RequestFiles{file, {InputFile{options.tensor, file}}});
  return requests;
}

Delivery::Delivery(Dialler dialler, const Options* options, Identity identity, LinkSettings settings,
                   std::function<void(Report)> on_report)
    : dialler_(dialler),
      options_(options),
      identity_(std::move(identity)),
      link_(dialler, options->central, &identity_, question_of(options->send), settings),
      on_report_(std::move(on_report)),
      requests_(requests_of(options->send)),
      turns_(dialler.executor),
      bell_(dialler.executor) {}

asio::awaitable<void> Delivery::run() {
  const std::size_t turns = std::min<std::size_t>(options_->send.parallel, requests_.size());
  for (std::size_t i = 0; i < turns; ++i) turns_.spawn(take_turns());
  co_await turns_.all_done();
  co_await link_.finish(milliseconds(1'000));
  for (const std::shared_ptr<NodeConnection>& connection : left_) co_await connection->finish(milliseconds(1'000));
}

asio::awaitable<void> Delivery::take_turns() {
  while (next_ < requests_.size()) {
    RequestFiles files = requests_[next_++];
    Report report = co_await deliver(std::move(files));
    ++finished_;
    on_report_(std::move(report));
  }
}

void Delivery::cancel() {
  cancelled_ = true;
  link_.cancel();
  bell_.ring();
  for (const Running* running : running_) {
    if (running->inbox) running->inbox->bell.ring();
  }
}

Tally Delivery::tally() const {
  Tally tally;
  tally.requests = requests_.size();
  tally.finished = finished_;
  tally.uploaded = tally.to_upload = uploaded_by_finished_;
  for (const Running* running : running_) {
    if (!running->outgoing) continue;
    const std::uint64_t all = running->outgoing->submit.wire_bytes;
    const std::uint64_t up = running->inbox ? running->inbox->uploaded : 0;
    tally.to_upload += all;
    tally.uploaded += up;
    if (up == all) ++tally.waiting;
  }
  return tally;
}

asio::awaitable<Report> Delivery::deliver(RequestFiles files) {
  const SendOptions& send = options_->send;
  Report report;
  report.file = files.label;
  report.task = send.own.steps.empty() ? send.task : std::string(wire::kOwnSteps);
  Running running;
  running.begun = Clock::now();
  running.deadline_is_sooner = send.deadline && *send.deadline + kGrace < send.timeout;
  running.give_up = after(running.begun, running.deadline_is_sooner ? *send.deadline + kGrace : send.timeout);
  if (cancelled_) {
    report.error = Error{Errc::cancelled, "not begun"};
    co_return report;
  }
  const PayloadLimits limits{send.lossy};
  auto work = [files, limits] { return prepare(files, limits); };
  Outcome<Payload> payload = co_await on_pool(*dialler_.pool, std::move(work));
  report.timing.prepare = elapsed(running.begun, Clock::now());
  if (!payload) {
    report.error = std::move(payload).error();
    co_return report;
  }
  note_payload(payload.value(), report);
  const Instant expires = after(running.begun, send.deadline ? std::min(*send.deadline, send.timeout) : send.timeout);
  payload.value().submit.task = send.task;
  payload.value().submit.steps = send.own.steps;
  payload.value().submit.result = send.own.result;
  payload.value().submit.stream = send.stream;
  running.outgoing = outgoing_from(std::move(payload).value(), expires);
  running.outgoing->priority = send.priority;
  report.request = running.outgoing->id;

  running_.push_back(&running);
  Outcome<void> answered = co_await converse(&running, &report);
  std::erase(running_, &running);
  note_holders();
  uploaded_by_finished_ += running.outgoing->submit.wire_bytes;
  report.parts = running.parts;
  if (answered) {
    note_answer(running, report);
  } else {
    report.error = std::move(answered).error();
  }
  report.timing.total = elapsed(running.begun, Clock::now());
  co_return report;
}

asio::awaitable<Outcome<void>> Delivery::converse(Running* running, Report* report) {
  const std::shared_ptr<Outgoing> outgoing = running->outgoing;
  unsigned refusals = 0;
  bool last_try = false;
  for (std::uint32_t attempt = 0;; ++attempt) {
    Outcome<NodeLink::Lease> lease = co_await link_.get(running->give_up);
    if (!lease) co_return std::move(lease).error();
    const std::shared_ptr<NodeConnection> connection = lease.value().connection;
    report->node = connection->node();
    report->timing.locate += lease.value().locate;
    report->timing.connect += lease.value().connect;
    const std::uint64_t limit = connection->max_upload_bytes();
    if (limit > 0 && outgoing->submit.wire_bytes > limit) {
      co_return Error{Errc::too_large, std::to_string(outgoing->submit.wire_bytes) + " bytes to upload; node " +
                                           connection->node() + " takes at most " + std::to_string(limit)};
    }
    const auto inbox = std::make_shared<Inbox>(dialler_.executor);
    inbox->next_part = running->parts;
    running->inbox = inbox;
    if (!running->first_submit) running->first_submit = Clock::now();
    connection->begin(outgoing, attempt, inbox);
    while (!inbox->whole && !inbox->refused && !inbox->lost && !cancelled_ && Clock::now() < running->give_up) {
      if (inbox->parts.empty()) co_await inbox->bell.wait_until(running->give_up);
      if (inbox->accepted && running->holder != connection->node()) {
        running->holder = connection->node();
        note_holders();
      }
      take_parts(*running, *report, *connection);
    }
    if (!cancelled_) take_parts(*running, *report, *connection);  // those that came right before the end
    report->traffic.sent += inbox->sent;
    report->traffic.received += inbox->received;
    if (inbox->accepted_at && !running->settled) running->settled = inbox->accepted_at;
    // Bytes or words that came through mean that the path works: the next pause starts small again.
    if (inbox->accepted || inbox->whole || inbox->upload_at.value_or(0) > 0) link_.made_progress();
    if (inbox->whole) {
      connection->forget(outgoing->id);
      if (inbox->result->parts != running->parts) {
        connection->tell(wire::FrameType::cancel, outgoing->id);
        co_return Error{Errc::bad_frame, "the answer ends after " + std::to_string(inbox->result->parts) + " parts, " +
                                             std::to_string(running->parts) + " came"};
      }
      connection->tell(wire::FrameType::result_ack, outgoing->id);
      co_return done();
    }
    connection->forget(outgoing->id);
    if (inbox->refused) {
      const Error refused = wire::to_error(*inbox->refused);
      const milliseconds advised(inbox->refused->retry_after_ms);
      // What this attempt saw accepted has had its one answer; what was turned away at the door may knock again under
      // the same id. An acceptance of an earlier attempt counts for nothing here: the node may have restarted since.
      // A final word is acknowledged, so that the node need not keep it.
      if (inbox->accepted) connection->tell(wire::FrameType::result_ack, outgoing->id);
      if (inbox->accepted || (!worth_retrying(refused.code) && advised == milliseconds{0})) co_return refused;
      if (refused.code == Errc::shutting_down && link_.node() == connection->node()) leave_node();
      const milliseconds pause = pause_before_retry(refusals++, milliseconds(100), milliseconds(5'000), advised);
      Instant until = after(Clock::now(), pause);
      if (until >= running->give_up) {
        // It is told to come back too late; a last try costs little, and the advice is a guess.
        const Instant end = std::min(running->give_up, outgoing->expires);
        const auto left = std::chrono::duration_cast<milliseconds>(end - Clock::now());
        if (last_try || left < kWorthALastTry) {
          Error late = refused;
          late.detail += "; worth asking again in " + std::to_string(pause.count()) + " ms";
          co_return late;
        }
        last_try = true;
        until = after(Clock::now(), left - left / 4);
      }
      while (!cancelled_ && Clock::now() < until) co_await bell_.wait_until(until);
      if (!cancelled_) continue;
      co_return Error{Errc::cancelled, "interrupted"};
    }
    if (inbox->lost) continue;
    connection->tell(wire::FrameType::cancel, outgoing->id);
    if (cancelled_) co_return Error{Errc::cancelled, "interrupted"};
    co_return out_of_time(running->deadline_is_sooner, options_->send);
  }
}

/// What a node has acknowledged stays with it, as long as NodeLink says.
void Delivery::note_holders() {
  link_.holds(static_cast<unsigned>(std::count_if(running_.begin(), running_.end(), [this](const Running* running) {
    return !running->holder.empty() && running->holder == link_.node();
  })));
}

/// It takes nothing new. Those whose requests it has go on listening to it.
void Delivery::leave_node() {
  std::optional<NodePlace> place = link_.leave();
  if (place && place->connection) left_.push_back(std::move(place->connection));
}

/// Hands on what has come, and lets the node send more.
void Delivery::take_parts(Running& running, const Report& report, NodeConnection& connection) const {
  Inbox& inbox = *running.inbox;
  if (inbox.parts.empty()) return;
  while (!inbox.parts.empty()) {
    const Part part = std::move(inbox.parts.front());
    inbox.parts.pop_front();
    running.parts = part.number + 1;
    if (on_part_) on_part_(report, part);
  }
  connection.tell(wire::FrameType::part_ack, running.outgoing->id, running.parts);
}

void Delivery::note_answer(const Running& running, Report& report) const {
  const Instant now = Clock::now();
  report.result = std::move(*running.inbox->result);
  report.payload = std::move(running.inbox->payload);
  const microseconds whole = elapsed(*running.first_submit, now);
  report.timing.upload = elapsed(*running.first_submit, running.settled.value_or(now));
  const microseconds node(
      static_cast<std::int64_t>(std::min<std::uint64_t>(report.result.timing.total_us, 1ULL << 50)));
  report.timing.reply = whole > node ? whole - node : microseconds{0};
}

}  // namespace gearbox::client
