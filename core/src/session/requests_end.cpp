// requests_end.cpp: how requests end: the answer, what the store gets of it, how long it is remembered, who went away.
#include <boost/asio/post.hpp>

#include <algorithm>
#include <utility>

#include "gearbox/base/stop_point.hpp"
#include "session/requests.hpp"

namespace gearbox::session {

namespace asio = boost::asio;
using link::UploadState;

namespace {
/// Answers that are remembered for one device, in multiples of its limit of open requests.
constexpr std::size_t kRememberedTimes = 2;
/// Answers up to this size leave the worker's arena at once: a few small tensors may lie in the same grant as large
/// ones that only a later step needed, and a device that does not acknowledge must not hold those.
constexpr std::uint64_t kParkAtOnceBytes = 256 * 1024;

/// "'lines' has 600 of them": the result of the task that most of the tensors belong to. A list whose items differ in
/// shape goes out item by item, see pipeline::join().
std::string largest_list(const std::vector<wire::TensorSpec>& tensors, const config::TaskConfig& task) {
  std::string_view name;
  std::size_t most = 0;
  for (const auto& [result, source] : task.result) {
    const auto items = std::count_if(tensors.begin(), tensors.end(), [&](const wire::TensorSpec& spec) {
      return spec.name == result || spec.name.substr(0, spec.name.rfind('.')) == result;
    });
    if (static_cast<std::size_t>(items) <= most) continue;
    most = static_cast<std::size_t>(items);
    name = result;
  }
  return "'" + std::string(name) + "' has " + std::to_string(most) + " of them";
}

/// Can one frame describe the answer? Errors: result_too_large.
Outcome<void> check_describable(const wire::ResultMessage& result, const config::TaskConfig& task) {
  const std::size_t count = result.tensors.size();
  std::string limit;
  if (count > wire::kMaxTensors) {
    limit = "; one answer holds at most " + std::to_string(wire::kMaxTensors);
  } else if (const std::size_t bytes = wire::to_json(result).size(); bytes > wire::kMaxJsonBytes) {
    limit = ", and to describe them takes " + std::to_string(bytes) + " bytes of JSON; the limit is " +
            std::to_string(wire::kMaxJsonBytes);
  } else {
    return done();
  }
  return Error{Errc::result_too_large,
               "the result has " + std::to_string(count) + " tensors; " + largest_list(result.tensors, task) + limit};
}
}  // namespace

bool Requests::arena_is_short() const {
  const worker_pool::WorkerPool::Memory memory = service_.pool->memory();
  return memory.output_used > memory.output_bytes / 2;
}

void Requests::finish(const RequestPtr& request, Outcome<pipeline::RunResult> outcome) {
  if (request->over) return;
  request->ready = Clock::now();
  if (!outcome) {
    if (outcome.error().code == Errc::quarantined) quarantine(request, outcome.error());
    return fail(request, outcome.error());
  }
  pipeline::RunResult& result = outcome.value();
  put_together(request, result);
  request->tensors = std::move(result.tensors);
  for (const pipeline::ResultTensor& tensor : request->tensors) {
    request->result.tensors.push_back(tensor.spec);
    request->result.bytes += tensor.spec.bytes;
  }
  request->result.timing.upload_us = static_cast<std::uint64_t>(elapsed(request->arrived, request->verified).count());
  request->result.timing.queue_us = static_cast<std::uint64_t>(result.queue.count());
  request->result.timing.total_us = static_cast<std::uint64_t>(elapsed(request->arrived, request->ready).count());
  request->result.timing.steps = std::move(result.steps);
  if (Outcome<void> fits = check_describable(request->result, *request->task); !fits) {
    request->tensors.clear();
    return fail(request, std::move(fits).error());
  }
  stop_point("node.result.ready");
  ++counters_.answered;
  settle(request, UploadState::done);
  conclude(request);
}

/// The one final word about a request that is over.
void Requests::tell_end(const RequestPtr& request, Listener& listener) {
  if (request->stream) {
    listener.streaming(request);
  } else if (request->error) {
    listener.failed(request->key.id, *request->error, request->retry_ms);
  } else {
    listener.finished(request);
  }
}

void Requests::quarantine(const RequestPtr& request, const Error& error) {
  Quarantined held;
  held.key = request->key;
  held.user = request->identity.ticket.user;
  held.task = request->task->name;
  if (request->run) held.deadly = request->run->deadly();
  held.reason = error.detail;
  held.input_bytes = request->upload.submit().wire_bytes;
  quarantine_.add(std::move(held));
}

Outcome<RequestKey> Requests::release(std::string_view id) {
  BOOST_OUTCOME_TRY(const RequestKey key, quarantine_.release(id));
  // The failure is remembered for a while: that, too, would be told instead of running it.
  const auto known = table_.find(key);
  if (shelved_.contains(key) || (known != table_.end() && known->second->over)) forget_for_good(key);
  return key;
}

void Requests::fail(const RequestPtr& request, Error error) {
  if (request->over) return;
  request->ready = Clock::now();
  ++counters_.failed;
  if (error.code == Errc::deadline_exceeded) ++counters_.expired;
  request->error = std::move(error);
  const Errc code = request->error->code;
  request->retry_ms = retry_after(*request, *request->error);
  if (request->stream && (code == Errc::cancelled || code == Errc::deadline_exceeded)) request->stream->drop_unsent();
  settle(request, UploadState::failed);
  conclude(request);
}

void Requests::settle(const RequestPtr& request, UploadState state) {
  if (request->run) std::exchange(request->run, nullptr)->cancel();
  release_upload(request);
  request->over = true;
  request->waits_for_device = false;
  if (request->upload.state() != state)
    request->upload.to(state);  // a digest that does not match has made it failed already
  --open_;
  DeviceShare& share = devices_[request->key.device];
  if (request->ingest.reserved()) share.held_bytes -= request->ingest.plain_bytes();
  --share.open;
  tenants_.ended(request->identity.ticket.tenant, request->ingest.plain_bytes(), request->ready);
  if (request->listener.expired() || request->result.bytes <= kParkAtOnceBytes || arena_is_short()) {
    parking_.park(request->tensors);
  }
  if (request->stream) request->stream->leave_rooms();
  keep(request);
  tell_sinks(request);
  note_end(request);
  request->ingest.release();
  // An answer that waits for its device must not hold what the configuration was: models and plugins go with it.
  request->task.reset();
  request->config.reset();
  // What failed on its way in may be sent again under the same id, for example when there is room again.
  const bool refused = state == UploadState::failed && request->verified == Instant{};
  if (refused) {
    forget(request);
  } else {
    remember(request->key);
    linger(request);
  }
  check_idle();
  // Its slabs may go now, or when the store has read them; whoever waits for memory is looked at after that.
  asio::post(*service_.io, [this] { admit(); });
}

/// A copy: the arena's slabs are for requests that run. Nothing unless it is asked for, fits, and all of it is there.
std::optional<recording::Payload> Requests::recorded_payload(const Request& request) const {
  if (!request.filled || !service_.recorder->keeps_payload_of(request.ingest.plain_bytes())) return std::nullopt;
  recording::Payload payload;
  for (const wire::InputSpec& input : request.upload.submit().inputs) {
    if (!payload.inputs.empty()) payload.inputs += ';';
    payload.inputs += input.tensor.name + ':' + std::string(wire::name_of(input.tensor.dtype)) + ':';
    const std::vector<std::int64_t>& shape = input.tensor.shape;
    for (std::size_t i = 0; i < shape.size(); ++i) payload.inputs += (i == 0 ? "" : "x") + std::to_string(shape[i]);
  }
  payload.bytes.reserve(request.ingest.plain_bytes());
  for (const ByteView view : request.ingest.plain_views())
    payload.bytes.insert(payload.bytes.end(), view.begin(), view.end());
  return payload;
}

void Requests::note_end(const RequestPtr& request) {
  explain::Trace* const trace = request->trace.get();
  if (trace == nullptr) return;
  trace->ready = request->ready;
  trace->result_bytes = request->result.bytes;
  if (request->error) {
    trace->error = request->error->code;
    trace->reason = explain::shortened(request->error->detail);
  }
  service_.explain->end(*trace);
  if (service_.recorder != nullptr) service_.recorder->note(*trace, recorded_payload(*request));
}

explain::Trace Requests::as_of_now(const explain::Trace& trace) const {
  explain::Trace copy = trace;
  const auto found = table_.find(trace.key);
  if (found != table_.end() && found->second->trace.get() == &trace && found->second->run) {
    found->second->run->note_open(copy);
  }
  return copy;
}

void Requests::sent(const RequestPtr& request) {
  if (request->trace) request->trace->sent = Clock::now();
  linger(request);
}

void Requests::keep(const RequestPtr& request) {
  // What was refused on the way in is of no use to anybody later; what was accepted is kept, failed or not.
  if (service_.store == nullptr || request->verified == Instant{}) return;
  store::Item item;
  item.key = request->key;
  item.user = request->identity.ticket.user;
  item.tenant = request->identity.ticket.tenant;
  item.task = request->task->name;
  item.node = service_.node;
  item.ok = !request->error.has_value();
  if (request->error) item.error = describe(*request->error);
  // What an earlier process accepted may end before its bytes are in memory again.
  const bool there = request->filled;
  if (there) {
    for (const wire::InputSpec& input : request->upload.submit().inputs) item.inputs.push_back(input.tensor);
    item.input_bytes = request->ingest.plain_views();
  }
  for (const pipeline::ResultTensor& tensor : request->tensors) {
    item.outputs.push_back(tensor.spec);
    for (const worker_pool::TensorRef& piece : tensor.pieces) item.output_bytes.push_back(piece.bytes());
  }
  item.timing = request->result.timing;
  std::vector<pipeline::ResultTensor> outputs = request->tensors;
  keep_parts(*request, item, outputs);
  // The store reads the bytes on its own thread, but slabs may only be given back on the strand: what keeps them alive
  // is moved there and back, never dropped on the way.
  struct Held {
    std::map<std::string, pipeline::Value> inputs;
    std::vector<pipeline::ResultTensor> outputs;
  };
  auto held = std::make_shared<Held>();
  if (there) held->inputs = request->ingest.values();
  held->outputs = std::move(outputs);
  service_.store->put(std::move(item), [this, held = std::move(held)]() mutable {
    asio::post(*service_.io, [this, held = std::move(held)]() mutable {
      held.reset();
      admit();
    });
  });
}

void Requests::linger(const RequestPtr& request) {
  request->timer.expires_after(service_.linger);
  request->timer.async_wait([this, weak = std::weak_ptr(request)](const boost::system::error_code& failure) {
    if (const RequestPtr alive = weak.lock(); alive && !failure && alive->over) let_go(alive);
  });
}

/// Its device did not come for the answer in time: from here on only the journal has it.
void Requests::let_go(const RequestPtr& request) {
  if (request->ending) return linger(request);  // on its way to the disk
  const RequestKey key = request->key;
  if (service_.journal == nullptr || request->no_row) return forget_for_good(key);
  if (!request->on_disk) {
    if (!request->error && request->stream) {
      request->error = Error{Errc::stream_broken, "its parts waited " + std::to_string(service_.linger.count() / 1000) +
                                                      " s for the device, and were let go of"};
    }
    write_end(request, false);  // the disk did not take it, or it is a stream whose parts go now
    return linger(request);
  }
  forget(request);
  if (!shelved_.contains(key)) shelve(key);
}

void Requests::remember(const RequestKey& key) {
  std::vector<RequestKey>& remembered = devices_[key.device].remembered;
  if (std::find(remembered.begin(), remembered.end(), key) != remembered.end()) return;
  remembered.push_back(key);
  const std::size_t most = kRememberedTimes * service_.config()->node.limits.max_requests_per_device;
  if (remembered.size() > most) {
    const RequestKey oldest = remembered.front();
    forget_for_good(oldest);
  }
}

void Requests::forget_for_good(const RequestKey& key) {
  let_journal_forget(key);
  shelved_.erase(key);
  if (const auto own = devices_.find(key.device); own != devices_.end()) {
    std::erase(own->second.remembered, key);
    if (own->second.empty()) devices_.erase(own);
  }
  if (const auto found = table_.find(key); found != table_.end()) {
    const RequestPtr request = found->second;
    forget(request);
  }
}

void Requests::forget(const RequestPtr& request) {
  request->timer.cancel();
  const auto here = table_.find(request->key);
  if (here == table_.end() || here->second != request) return;
  table_.erase(here);
  if (const auto own = devices_.find(request->key.device); own != devices_.end() && own->second.empty()) {
    devices_.erase(own);
  }
  check_idle();
  asio::post(*service_.io, [this] { admit(); });
}

void Requests::cancel(const RequestKey& key) {
  const auto found = table_.find(key);
  if (found == table_.end()) return;
  const RequestPtr request = found->second;
  fail(request, Error{Errc::cancelled, "by the device"});
}

void Requests::acknowledge(const RequestKey& key) {
  const auto found = table_.find(key);
  if (found == table_.end() && shelved_.contains(key)) return forget_for_good(key);
  if (found == table_.end() || !found->second->over) return;
  const RequestPtr request = found->second;
  if (request->trace) request->trace->acknowledged = Clock::now();
  forget_for_good(key);
}

void Requests::left(const Listener* listener, const PublicKey* device, End end) {
  if (const auto own = device == nullptr ? devices_.end() : devices_.find(*device); own != devices_.end()) {
    --own->second.sessions;
    if (own->second.empty()) devices_.erase(own);
  }
  std::vector<RequestPtr> given_up;
  for (auto& [key, request] : table_) {
    if (request->listener.lock().get() != listener) continue;
    request->listener.reset();
    if (request->over) {
      parking_.park(request->tensors);
      continue;
    }
    if (end == End::for_good) {
      given_up.push_back(request);
      continue;
    }
    // What is in the journal was promised: it goes on to its end, and the answer waits.
    if (service_.journal != nullptr && request->verified != Instant{}) {
      if (request->upload.submit().stream && !request->waits_for_device) await_device(request);
      continue;
    }
    request->timer.expires_at(std::min(request->deadline, after(Clock::now(), service_.linger)));
    request->timer.async_wait([this, weak = std::weak_ptr(request)](const boost::system::error_code& failure) {
      if (const RequestPtr alive = weak.lock(); alive && !failure) {
        fail(alive, Error{Errc::cancelled, "its device went away and did not come back in time"});
      }
    });
  }
  for (const RequestPtr& request : given_up) fail(request, Error{Errc::cancelled, "its device ended the connection"});
  check_idle();
}

/// A stream's device was lost: nobody takes its parts.
void Requests::await_device(const RequestPtr& request) {
  request->timer.expires_at(std::min(request->deadline, after(Clock::now(), service_.linger)));
  request->timer.async_wait([this, weak = std::weak_ptr(request)](const boost::system::error_code& failure) {
    const RequestPtr alive = weak.lock();
    if (!alive || failure || alive->over) return;
    if (Clock::now() >= alive->deadline) return expire(alive);
    lay_aside(alive);
  });
}

}  // namespace gearbox::session
