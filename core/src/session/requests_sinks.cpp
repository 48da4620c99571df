// requests_sinks.cpp: what sinks hear of requests that are over. With a journal at least once, whatever is killed when:
// a request's row in there goes only behind its event, and rows without an event are told of at the next start.
#include <spdlog/spdlog.h>

#include <boost/asio/post.hpp>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "gearbox/base/text.hpp"
#include "session/requests.hpp"
#include "session/written.hpp"
#include "sinks/outbox.hpp"

namespace gearbox::session {

namespace asio = boost::asio;

namespace {

std::string task_name(const wire::Submit& submit) {
  return submit.steps.empty() ? submit.task : std::string(wire::kOwnSteps);
}

/// Copies of the outputs that are small enough to be told of with their values. `bytes_of(index)`: the pieces.
template <class BytesOf>
void add_values(sinks::Event& event, BytesOf bytes_of) {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < event.result.tensors.size(); ++i) {
    const std::uint64_t size = event.result.tensors[i].bytes;
    if (size > sinks::kValueBytes || total + size > sinks::kValuesBytes) continue;
    total += size;
    event.values.emplace_back(i, bytes_of(i));
  }
}

}  // namespace

void Requests::tell_sinks(const RequestPtr& request) {
  // What was refused on its way in was never accepted.
  if (service_.sinks == nullptr || request->verified == Instant{}) return;
  if (!service_.sinks->wants(request->task->name)) return;
  sinks::Event event;
  event.key = request->key;
  event.user = request->identity.ticket.user;
  event.task = request->task->name;
  event.tenant = request->identity.ticket.tenant;
  event.error = request->error;
  event.finished_unix_ms = unix_ms();
  event.accepted_unix_ms = event.finished_unix_ms - elapsed(request->verified, request->ready).count() / 1000;
  event.input_bytes = request->ingest.plain_bytes();
  if (!request->error) {
    event.result = request->result;
    add_values(event, [&](std::size_t index) {
      Bytes bytes;
      for (const worker_pool::TensorRef& piece : request->tensors[index].pieces) {
        const ByteView view = piece.bytes();
        bytes.insert(bytes.end(), view.begin(), view.end());
      }
      return bytes;
    });
  }
  service_.sinks->put(std::move(event));
}

/// Of a request that an earlier process accepted and that is given up.
void Requests::tell_sinks(const journal::Kept& kept, const Error& error) {
  if (service_.sinks == nullptr) return;
  const Outcome<WrittenRequest> written = written_request(kept.head);
  if (!written || !service_.sinks->wants(task_name(written.value().submit))) return;
  sinks::Event event;
  event.key = kept.key;
  event.user = written.value().identity.ticket.user;
  event.task = task_name(written.value().submit);
  event.tenant = written.value().identity.ticket.tenant;
  event.error = error;
  event.accepted_unix_ms = event.finished_unix_ms = unix_ms();
  event.input_bytes = kept.input_bytes;
  service_.sinks->put(std::move(event));
}

/// At the start: what the journal holds the end of and the sinks' queue does not know is told once more; what the queue
/// knows and the journal does not hold any more is forgotten.
void Requests::compare_with_sinks() {
  if (service_.sinks == nullptr || service_.journal == nullptr) return;
  const std::vector<RequestKey>& told = service_.sinks->known();
  std::unordered_set<RequestKey, RequestKeyHash> known(told.begin(), told.end());
  for (const journal::Kept& kept : service_.journal->kept()) {
    if (known.erase(kept.key) == 0 && kept.settled) untold_.insert(kept.key);
  }
  for (const RequestKey& key : known) service_.sinks->forget(key);
  tell_next_untold();
}

/// One at a time: an answer may be large.
void Requests::tell_next_untold() {
  if (untold_.empty() || service_.journal == nullptr) return;
  const RequestKey key = *untold_.begin();
  service_.journal->fetch(key, [this, key, alive = alive_](Outcome<journal::Found> found) mutable {
    asio::post(*service_.io, [this, key, alive = std::move(alive), found = std::move(found)] {
      if (!*alive || service_.sinks == nullptr || service_.journal == nullptr) return;  // the node is ending
      if (!found && found.error().code != Errc::not_found) {
        spdlog::warn("event=sink_not_told request={} reason=\"{}\"", to_text(key.id), escaped(describe(found.error())));
      }
      if (found && found.value().kept.settled) {
        const journal::Kept& kept = found.value().kept;
        const Outcome<WrittenRequest> written = written_request(kept.head);
        Outcome<WrittenEnd> end = written_end(kept.result);
        if (written && end && service_.sinks->wants(task_name(written.value().submit))) {
          sinks::Event event;
          event.key = kept.key;
          event.user = written.value().identity.ticket.user;
          event.task = task_name(written.value().submit);
          event.tenant = written.value().identity.ticket.tenant;
          event.error = std::move(end.value().error);
          event.result = std::move(end.value().result);
          event.finished_unix_ms = end.value().finished_unix_ms;
          event.accepted_unix_ms = end.value().accepted_unix_ms;
          event.input_bytes = end.value().input_bytes;
          if (event.finished_unix_ms == 0) {  // written by a build that did not note it
            event.finished_unix_ms = unix_ms();
            event.accepted_unix_ms =
                event.finished_unix_ms - static_cast<std::int64_t>(event.result.timing.total_us / 1000);
          }
          const ByteView all = found.value().bytes;
          add_values(event, [&](std::size_t index) {
            std::size_t offset = 0;
            for (std::size_t i = 0; i < index; ++i) offset += event.result.tensors[i].bytes;
            const ByteView one = all.subspan(std::min(offset, all.size()));
            const ByteView bytes = one.first(std::min<std::size_t>(one.size(), event.result.tensors[index].bytes));
            return Bytes(bytes.begin(), bytes.end());
          });
          service_.sinks->put(std::move(event));
        }
      }
      untold_.erase(key);
      if (forget_when_told_.erase(key) > 0) let_journal_forget(key);
      tell_next_untold();
    });
  });
}

void Requests::let_journal_forget(const RequestKey& key) {
  if (service_.journal == nullptr) return;
  if (untold_.contains(key)) {
    forget_when_told_.insert(key);  // behind its event
    return;
  }
  if (service_.sinks != nullptr) return service_.sinks->forget(key);
  service_.journal->forget(key);
}

}  // namespace gearbox::session
