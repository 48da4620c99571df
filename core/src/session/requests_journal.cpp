// requests_journal.cpp: what of requests lies in the node's journal. A request's acceptance is told to its device when
// it is durable, its end likewise; an earlier process's requests are begun again, and its answers wait for their
// devices.
#include <spdlog/spdlog.h>

#include <boost/asio/post.hpp>

#include <algorithm>
#include <utility>

#include "gearbox/base/stop_point.hpp"
#include "gearbox/base/text.hpp"
#include "session/own_steps.hpp"
#include "session/requests.hpp"
#include "session/written.hpp"

namespace gearbox::session {

namespace asio = boost::asio;
using link::UploadState;

namespace {
/// Nothing that was accepted once is too large now.
constexpr std::uint64_t kAnySize = 1ULL << 40;
/// So many processes of the node may end while a request is open. It may be what ends them.
constexpr std::uint32_t kMostProcesses = 8;
}  // namespace

void Requests::write_acceptance(const RequestPtr& request) {
  request->durable = false;
  journal::Accepted accepted;
  accepted.key = request->key;
  WrittenRequest written{.submit = request->upload.submit(), .identity = request->identity};
  written.priority = request->priority;
  written.attempt = request->announced.attempt;
  written.deadline = request->deadline;
  if (request->upload.submit().stream) written.models = request->models = models_of(*request);
  accepted.head = to_text(written);
  accepted.bytes = request->ingest.plain_views();
  // The journal reads the bytes on its own thread, but slabs may only be given back on the strand: what keeps them
  // alive is moved there and back, never dropped on the way. So is the request: as RequestPtr(request), since what is
  // captured from a reference to a const one is const, and its "move" a copy.
  auto held = std::make_shared<std::map<std::string, pipeline::Value>>(request->ingest.values());
  service_.journal->accept(std::move(accepted), [this, request = RequestPtr(request),
                                                 held = std::move(held)](Outcome<void> outcome) mutable {
    asio::post(*service_.io,
               [this, request = std::move(request), held = std::move(held), outcome = std::move(outcome)]() mutable {
                 held.reset();
                 acceptance_written(request, outcome);
               });
  });
}

void Requests::acceptance_written(const RequestPtr& request, const Outcome<void>& outcome) {
  request->durable = true;
  if (outcome) {
    stop_point("node.request.written");
    tell_accepted(request);
  } else {
    request->no_row = true;
  }
  if (request->over) {
    // Its end has waited for this, unless it is on its way to the disk itself. An answer that is here is as good as
    // any.
    const auto listener = request->listener.lock();
    if (!request->ending && listener) tell_end(request, *listener);
    return;
  }
  if (outcome) return;
  // Never accepted, then: it may be sent again under the same id.
  request->verified = Instant{};
  if (request->stream) request->stream->drop_unsent();
  fail(request,
       Error{Errc::no_space, "node " + service_.node + " cannot keep requests just now: " + describe(outcome.error())});
}

void Requests::tell_accepted(const RequestPtr& request) {
  ++counters_.accepted;
  if (const auto listener = request->listener.lock()) {
    listener->accepted(request->key.id);
    if (request->stream) listener->streaming(request);
  }
  stop_point("node.request.accepted");
}

void Requests::conclude(const RequestPtr& request) {
  const bool in_journal = service_.journal != nullptr && request->verified != Instant{} && !request->no_row;
  // What its device does not want any more need not be kept for it.
  const bool unwanted = request->error && request->error->code == Errc::cancelled;
  if (in_journal && unwanted) {
    let_journal_forget(request->key);
    request->no_row = true;
  } else if (in_journal && (request->error || !request->stream)) {
    return write_end(request, true);
  }
  // Of a stream that came to its end the parts are not in the journal: there it is open until its device has them all.
  if (!request->durable) return;  // the acceptance is told first
  if (const auto listener = request->listener.lock()) tell_end(request, *listener);
}

/// `tell`: to the device, when it is written.
void Requests::write_end(const RequestPtr& request, bool tell) {
  request->ending = true;
  journal::Settled settled;
  settled.key = request->key;
  settled.ok = !request->error.has_value();
  WrittenEnd end{request->result, request->error};
  end.finished_unix_ms = unix_ms() - elapsed(request->ready, Clock::now()).count() / 1000;
  end.accepted_unix_ms = end.finished_unix_ms - elapsed(request->verified, request->ready).count() / 1000;
  end.input_bytes = request->ingest.plain_bytes();
  settled.head = to_text(end);
  for (const pipeline::ResultTensor& tensor : request->tensors) {
    for (const worker_pool::TensorRef& piece : tensor.pieces) settled.bytes.push_back(piece.bytes());
  }
  auto held = std::make_shared<std::vector<pipeline::ResultTensor>>(request->tensors);
  service_.journal->settle(std::move(settled), [this, request = RequestPtr(request), held = std::move(held),
                                                tell](Outcome<bool> first) mutable {
    asio::post(*service_.io,
               [this, request = std::move(request), held = std::move(held), first = std::move(first), tell]() mutable {
                 held.reset();
                 end_written(request, first, tell);
               });
  });
}

void Requests::end_written(const RequestPtr& request, const Outcome<bool>& first, bool tell) {
  request->ending = false;
  request->on_disk = first.has_value() && first.value();
  request->no_row = first.has_value() && !first.value();
  stop_point("node.result.written");
  // An answer that the disk does not take is still an answer: it is told, and written when there is room. After a kill
  // the next process works it out once more, and the device takes the first that it gets.
  const auto listener = request->listener.lock();
  if (tell && listener) tell_end(request, *listener);
  check_idle();
}

/// A running stream whose device has been away for long: it would hold its worker up. It gives back all that it has,
/// and begins anew when its device is there again.
void Requests::lay_aside(const RequestPtr& request) {
  if (!request->durable) return await_device(request);  // first it has to be on the disk
  if (request->run) std::exchange(request->run, nullptr)->cancel();
  release_upload(request);
  request->stream.reset();
  request->collected.reset();
  if (request->ingest.reserved()) devices_[request->key.device].held_bytes -= request->ingest.plain_bytes();
  request->ingest.release();
  request->filled = false;
  request->recovered = request->waits_for_device = true;
  watch_deadline(request);
  check_idle();
  asio::post(*service_.io, [this, alive = alive_] {
    if (*alive) admit();
  });
}

void Requests::recover() {
  std::size_t begun = 0;
  for (const journal::Kept& kept : service_.journal->kept()) {
    if (kept.settled) {
      shelve(kept.key, kept.age);
      continue;
    }
    const Outcome<RequestPtr> remade =
        kept.openings < kMostProcesses
            ? remake(kept)
            : Error{Errc::quarantined, std::to_string(kept.openings) + " processes of node " + service_.node +
                                           " have ended while it was open: it is not begun again"};
    if (!remade) {
      give_up(kept, remade.error());
      continue;
    }
    ++begun;
    const RequestPtr& request = remade.value();
    take_in(request);
    request->upload.to(UploadState::accepted);
    // The parts of a stream are for its device, which says how many it has: it begins when that is there again.
    request->waits_for_device = request->upload.submit().stream;
    if (!request->waits_for_device) waiting_.push_back(request);
  }
  compare_with_sinks();
  counters_.recovered = begun;
  if (begun == 0 && shelved_.empty()) return;
  spdlog::info("event=requests_recovered begun_again={} answers={}", begun, shelved_.size());
  asio::post(*service_.io, [this, alive = alive_] {
    if (*alive) admit();
  });
}

/// As it was accepted by an earlier process. Errors: it cannot be done any more as things are now, and why.
Outcome<RequestPtr> Requests::remake(const journal::Kept& kept) {
  BOOST_OUTCOME_TRY(WrittenRequest written, written_request(kept.head));
  written.identity.ticket.device = kept.key.device;
  const config::Snapshot config = service_.config();
  BOOST_OUTCOME_TRY(auto task, task_of(written.identity, config, written.submit));
  BOOST_OUTCOME_TRY(auto receiver, link::UploadReceiver::received_before(std::move(written.submit), kAnySize));
  // The journal has the plain bytes: whether the codecs are still there does not matter.
  wire::Submit plain = receiver.submit();
  for (wire::InputSpec& input : plain.inputs) input.codecs.clear();
  BOOST_OUTCOME_TRY(auto ingest, Ingest::plan(service_, *task, plain));
  if (ingest.plain_bytes() != kept.input_bytes) {
    return Error{Errc::corrupt_data, "the journal holds " + std::to_string(kept.input_bytes) + " bytes of " +
                                         std::to_string(ingest.plain_bytes())};
  }
  auto request = std::make_shared<Request>(kept.key, std::move(receiver), std::move(ingest), *service_.io);
  request->identity = std::move(written.identity);
  request->config = config;
  request->task = std::move(task);
  request->announced.request = kept.key.id;
  request->announced.attempt = written.attempt;
  request->priority = written.priority;
  request->arrived = request->verified = Clock::now();
  request->deadline = written.deadline;
  request->models = std::move(written.models);
  request->recovered = true;
  return request;
}

void Requests::give_up(const journal::Kept& kept, const Error& error) {
  ++counters_.failed;
  const Outcome<WrittenRequest> written = written_request(kept.head);
  if (error.code == Errc::quarantined && written) {
    quarantine_.add({.key = kept.key,
                     .user = written.value().identity.ticket.user,
                     .task = written.value().submit.task,
                     .reason = error.detail,
                     .input_bytes = written.value().submit.wire_bytes});
  }
  spdlog::warn("event=request_not_recovered request={} reason=\"{}\"", to_text(kept.key.id), escaped(describe(error)));
  journal::Settled settled;
  settled.key = kept.key;
  WrittenEnd end{{}, error};
  end.accepted_unix_ms = end.finished_unix_ms = unix_ms();
  end.input_bytes = kept.input_bytes;
  settled.head = to_text(end);
  service_.journal->settle(std::move(settled), [](const Outcome<bool>&) {});  // said in the journal's own log line
  tell_sinks(kept, error);
  shelve(kept.key);
}

/// What the parts of a stream are made by, as things are now: names, versions and digests.
std::string Requests::models_of(const Request& request) const {
  std::string models;
  for (const config::StepConfig& step : request.task->steps) {
    const auto record = service_.dispatcher->resolve(*request.config, step.model, step.version).record;
    models += step.name + ' ' + (record ? record->name + '@' + record->version + ' ' + record->digest : "-") + '\n';
  }
  return models;
}

/// The device of a stream that an earlier process accepted is back, and has `parts` of it.
void Requests::begin_stream_again(const RequestPtr& request, std::uint32_t parts) {
  request->waits_for_device = false;
  const auto repeatable = [&](const config::StepConfig& step) {
    const auto record = service_.dispatcher->resolve(*request->config, step.model, step.version).record;
    return record && record->repeatable;
  };
  if (parts > 0 && !std::all_of(request->task->steps.begin(), request->task->steps.end(), repeatable)) {
    return fail(request, Error{Errc::stream_broken, "node " + service_.node + " was started anew after " +
                                                        std::to_string(parts) +
                                                        " parts, and its models do not say that they are repeatable"});
  }
  if (parts > 0 && models_of(*request) != request->models) {
    return fail(request, Error{Errc::stream_broken, "its models have been replaced by others since its first " +
                                                        std::to_string(parts) + " parts"});
  }
  request->announced.part = parts;
  waiting_.push_back(request);
  admit();
}

/// Memory was found for what an earlier process accepted: its bytes go where it had them.
void Requests::read_back(const RequestPtr& request) {
  if (service_.journal == nullptr) return;  // the node is ending
  service_.journal->fetch(request->key, [this, request = RequestPtr(request)](Outcome<journal::Found> found) mutable {
    asio::post(*service_.io, [this, request = std::move(request), found = std::move(found)] {
      if (request->over || !request->uploading) return;
      release_upload(request);
      if (!found) return fail(request, found.error());
      if (Outcome<void> filled = request->ingest.fill(found.value().bytes); !filled) {
        return fail(request, filled.error());
      }
      request->filled = true;
      start(request);
    });
  });
}

/// `age`: how long its answer has waited already.
void Requests::shelve(const RequestKey& key, milliseconds age) {
  const Instant since = Clock::now() - age;
  shelved_[key] = since;
  shelf_order_.emplace_back(since, key);
  remember(key);
}

/// Answers that nobody came for.
void Requests::clear_shelf(Instant now) {
  const auto keep = std::chrono::hours(service_.config()->node.journal.keep_hours);
  while (!shelf_order_.empty() && now - shelf_order_.front().first > keep) {
    const auto [since, key] = shelf_order_.front();
    shelf_order_.pop_front();
    const auto found = shelved_.find(key);
    if (found != shelved_.end() && found->second == since) forget_for_good(key);
  }
}

/// A device asks for an answer that only the journal has.
Outcome<void> Requests::bring_back(const RequestKey& key, const wire::FrameHeader& header, wire::Submit submit,
                                   const std::shared_ptr<Listener>& listener) {
  BOOST_OUTCOME_TRY(auto receiver, link::UploadReceiver::received_before(submit, kAnySize));
  auto request = std::make_shared<Request>(key, std::move(receiver), Ingest(), *service_.io);
  request->announced = header;
  request->listener = listener;
  request->over = request->ending = request->on_disk = true;
  request->arrived = request->verified = request->ready = Clock::now();
  if (service_.journal == nullptr) return Error{Errc::shutting_down, "node " + service_.node + " is ending"};
  table_.emplace(key, request);
  ++counters_.repeated;
  service_.journal->fetch(key, [this, request, submit = std::move(submit)](Outcome<journal::Found> found) mutable {
    asio::post(*service_.io, [this, request = std::move(request), submit = std::move(submit),
                              found = std::move(found)]() mutable { brought_back(request, submit, std::move(found)); });
  });
  return done();
}

void Requests::brought_back(const RequestPtr& request, const wire::Submit& submit, Outcome<journal::Found> found) {
  request->ending = false;
  const auto here = table_.find(request->key);
  if (here == table_.end() || here->second != request) return;  // acknowledged, or released, meanwhile
  const auto listener = request->listener.lock();
  const Outcome<void> filled = fill_from(request, submit, std::move(found));
  if (!filled) {
    // On disk it stays as it is, unless it cannot be read.
    forget(request);
    if (filled.error().code == Errc::corrupt_data || filled.error().code == Errc::not_found) {
      forget_for_good(request->key);
    }
    if (listener) listener->failed(request->key.id, filled.error(), retry_after_ms(filled.error()));
    return;
  }
  linger(request);
  if (!listener) return;
  listener->accepted(request->key.id);
  tell_end(request, *listener);
}

Outcome<void> Requests::fill_from(const RequestPtr& request, const wire::Submit& submit,
                                  Outcome<journal::Found> found) {
  if (!found) return found.error();
  BOOST_OUTCOME_TRY(WrittenRequest written, written_request(found.value().kept.head));
  if (wire::to_json(written.submit) != wire::to_json(submit)) {
    return Error{Errc::bad_input, "this device has used the request id already, for another request"};
  }
  if (!found.value().kept.settled) return Error{Errc::overloaded, "its end is not on the disk yet"};
  BOOST_OUTCOME_TRY(WrittenEnd end, written_end(found.value().kept.result));
  request->identity = std::move(written.identity);
  request->upload.to(UploadState::accepted);
  request->upload.to(UploadState::running);
  request->upload.to(end.error ? UploadState::failed : UploadState::done);
  request->error = std::move(end.error);
  request->result = std::move(end.result);
  BOOST_OUTCOME_TRY(request->tensors, parking_.unpack(request->result.tensors, std::move(found.value().bytes)));
  return done();
}

}  // namespace gearbox::session
