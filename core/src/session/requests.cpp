#include "session/requests.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <utility>

#include "gearbox/base/stop_point.hpp"
#include "session/own_steps.hpp"

namespace gearbox::session {

namespace asio = boost::asio;
using link::UploadState;

namespace {
/// The same when a later process runs it. All of both counts: a device may number its requests.
std::uint64_t seed_of(const RequestKey& key) {
  Bytes both(key.device.bytes.begin(), key.device.bytes.end());
  both.insert(both.end(), key.id.bytes.begin(), key.id.bytes.end());
  return XXH3_64bits(both.data(), both.size());
}

/// An upload of which no byte came for so long loses its place and its memory.
constexpr milliseconds kStalled{30'000};
constexpr milliseconds kSweepEvery{2'000};
constexpr std::uint32_t kSessionsPerDevice = 8;
/// One device has at most this part of the places for uploads, and at least one.
constexpr std::uint32_t kPlacesShare = 8;
/// The device is told the offset it has reached every so many bytes: what a cut can cost it.
constexpr std::uint64_t kAcknowledgeEvery = 1ULL << 20;
/// One device's uploads hold at most this part of the input arena (unless it is a single one).
constexpr std::uint64_t kShareOfOneDevice = 2;
/// This part of the input arena is never given to uploads.
constexpr std::uint64_t kReservedForCalls = 16;
}  // namespace

Requests::Requests(Service& service) : service_(service) {
  if (!service_.quarantine.empty()) quarantine_.keep_in(service_.quarantine);
  if (service_.journal != nullptr) recover();
  asio::co_spawn(*service_.io, sweep(alive_, this), asio::detached);
}

Requests::~Requests() {
  *alive_ = false;
  for (auto& [key, request] : table_) {
    request->timer.cancel();
    if (request->run) request->run->cancel();
  }
}

asio::awaitable<void> Requests::sweep(std::shared_ptr<bool> alive, Requests* self) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  while (*alive) {
    timer.expires_after(kSweepEvery);
    boost::system::error_code woken;
    co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, woken));
    if (*alive) self->sweep_once(Clock::now());
  }
}

void Requests::sweep_once(Instant now) {
  clear_shelf(now);
  std::vector<RequestPtr> stalled;
  for (const auto& [key, request] : table_) {
    if (request->uploading && !request->recovered && now - request->progress > kStalled) stalled.push_back(request);
    if (request->over && arena_is_short()) parking_.park(request->tensors);
  }
  for (const RequestPtr& request : stalled) {
    fail(request,
         Error{Errc::timeout, "no byte of the upload came for " + std::to_string(kStalled.count() / 1000) + " s"});
  }
}

Outcome<void> Requests::joined(const PublicKey& device) {
  DeviceShare& share = devices_[device];
  if (share.sessions >= kSessionsPerDevice) {
    return Error{Errc::overloaded, "this device has " + std::to_string(share.sessions) + " connections, its limit"};
  }
  ++share.sessions;
  return done();
}

void Requests::watch_deadline(const RequestPtr& request) {
  request->timer.expires_at(request->deadline);
  request->timer.async_wait([this, weak = std::weak_ptr(request)](const boost::system::error_code& failure) {
    const RequestPtr alive = weak.lock();
    if (alive && !failure) expire(alive);
  });
}

void Requests::expire(const RequestPtr& request) {
  if (request->over) return;
  std::string where(name_of(request->upload.state()));
  if (request->run && request->trace) {
    const explain::Trace trace = as_of_now(*request->trace);
    const bool is_there = std::any_of(trace.steps.begin(), trace.steps.end(), [](const explain::Step& step) {
      return step.open_since != Instant{};  // a worker has a call of it
    });
    if (!is_there) where = "waiting for a worker";
  }
  fail(request, Error{Errc::deadline_exceeded, "the request's time ran out while it was " + where});
}

Outcome<void> Requests::announce(const Identity& identity, const wire::FrameHeader& header, wire::Submit submit,
                                 const std::shared_ptr<Listener>& listener, std::uint32_t& retry_ms) {
  retry_ms = 0;
  const RequestKey key{identity.ticket.device, header.request};
  if (const auto known = table_.find(key); known != table_.end()) {
    if (!known->second->upload.matches(submit)) {
      ++counters_.refused;
      return Error{Errc::bad_input, "this device has used the request id already, for another request"};
    }
    ++counters_.repeated;
    const RequestPtr request = known->second;
    if (request->stream && header.part < request->stream->first()) {
      return Error{Errc::stream_broken, "the parts before number " + std::to_string(request->stream->first()) +
                                            " were acknowledged, and are not kept"};
    }
    if (request->stream) request->stream->resume(header.part);
    repeat(request, listener);
    if (request->waits_for_device && !request->over) begin_stream_again(request, header.part);
    return done();
  }
  if (ending_) {  // whether it is known is for the next process to say
    ++counters_.refused;
    retry_ms = retry_after_ms(Error{Errc::shutting_down, {}});
    return Error{Errc::shutting_down, "node " + service_.node + " is stopping"};
  }
  if (shelved_.contains(key)) return bring_back(key, header, std::move(submit), listener);
  if (header.part > 0) {
    ++counters_.refused;
    return Error{Errc::stream_broken, "node " + service_.node + " does not know this request any more, of which " +
                                          std::to_string(header.part) + " parts were delivered"};
  }
  if (const Quarantined* held = quarantine_.find(key)) {
    ++counters_.refused;
    return Error{Errc::quarantined, held->reason + "; not run again before `broker quarantine release " +
                                        to_text(key.id).substr(0, 12) + "` on node " + service_.node};
  }
  milliseconds wait{0};
  Outcome<RequestPtr> made = make(identity, header, std::move(submit), wait);
  if (!made) {
    ++counters_.refused;
    retry_ms = wait.count() > 0 ? static_cast<std::uint32_t>(wait.count()) : retry_after_ms(made.error());
    return made.error();
  }
  const RequestPtr& request = made.value();
  request->listener = listener;
  ++counters_.announced;
  take_in(request);
  waiting_.push_back(request);
  admit();
  return done();
}

void Requests::take_in(const RequestPtr& request) {
  note_begin(request);
  table_.emplace(request->key, request);
  ++open_;
  ++devices_[request->key.device].open;
  tenants_.opened(request->identity.ticket.tenant, request->ingest.plain_bytes(), request->arrived);
  watch_deadline(request);
}

void Requests::note_begin(const RequestPtr& request) {
  if (service_.explain == nullptr) return;
  request->trace = service_.explain->begin(request->key);
  if (!request->trace && service_.recorder != nullptr && service_.recorder->keeps_any())
    request->trace = explain::Book::unkept(request->key);
  explain::Trace* const trace = request->trace.get();
  if (trace == nullptr) return;
  trace->arrived = request->arrived;
  trace->task = request->task->name;
  trace->user = request->identity.ticket.user;
  trace->tenant = request->identity.ticket.tenant;
  trace->placement = request->identity.ticket.placement;
  trace->priority = request->priority;
  trace->config = service_.explain->digest(request->config->digest);
  trace->wire_bytes = request->upload.submit().wire_bytes;
  trace->plain_bytes = request->ingest.plain_bytes();
  trace->pool = pool_of(*request->config, request->identity, trace->plain_bytes);
}

Outcome<RequestPtr> Requests::make(const Identity& identity, const wire::FrameHeader& header, wire::Submit submit,
                                   milliseconds& wait) {
  if (draining_) return Error{Errc::shutting_down, "node " + service_.node + " takes no new requests"};
  if (header.request.is_nil()) return Error{Errc::bad_input, "a request needs an id of its own"};
  BOOST_OUTCOME_TRY(service_.still_good(identity));
  const config::Snapshot config = service_.config();
  const config::LimitsConfig& limits = config->node.limits;
  BOOST_OUTCOME_TRY(check_limits(identity, limits, 0, wait));
  if (header.remaining_ms == 0) return Error{Errc::deadline_exceeded, "its time was up when it came"};
  BOOST_OUTCOME_TRY(auto task, task_of(identity, config, submit));
  const std::uint64_t limit = identity.ticket.max_upload_bytes > 0
                                  ? std::min(identity.ticket.max_upload_bytes, limits.max_upload_bytes)
                                  : limits.max_upload_bytes;
  BOOST_OUTCOME_TRY(auto receiver, link::UploadReceiver::announce(std::move(submit), limit));
  BOOST_OUTCOME_TRY(auto ingest, Ingest::plan(service_, *task, receiver.submit()));
  if (ingest.plain_bytes() > limits.input_arena_bytes / 2) {
    return Error{Errc::too_large,
                 std::to_string(ingest.plain_bytes()) + " bytes are more than half of the node's input arena"};
  }
  BOOST_OUTCOME_TRY(check_limits(identity, limits, ingest.plain_bytes(), wait));
  BOOST_OUTCOME_TRY(check_queues(*config, *task, pool_of(*config, identity, ingest.plain_bytes()), wait));
  auto request = std::make_shared<Request>(RequestKey{identity.ticket.device, header.request}, std::move(receiver),
                                           std::move(ingest), *service_.io);
  request->identity = identity;
  request->config = config;
  request->task = std::move(task);
  request->announced = header;
  request->priority = identity.local ? header.priority : std::min(header.priority, identity.ticket.max_priority);
  request->arrived = Clock::now();
  const milliseconds own_time = request->task->deadline;
  const milliseconds allowed = own_time.count() > 0 ? own_time : limits.default_deadline;
  // A device may ask for less time than the node's default or more, but not for ever.
  milliseconds wanted = header.remaining_ms == wire::kNoDeadline ? allowed : milliseconds(header.remaining_ms);
  if (own_time.count() > 0) wanted = std::min(wanted, own_time);
  request->deadline = after(request->arrived, std::min<milliseconds>(wanted, std::chrono::hours(1)));
  return request;
}

void Requests::admit() {
  if (admitting_) return;  // failing a request below frees memory and would start this again
  admitting_ = true;
  const std::uint32_t most = service_.config()->node.limits.max_uploads_at_once;
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    const RequestPtr request = at->lock();
    if (!request || request->over) {
      at = waiting_.erase(at);
      continue;
    }
    if (uploads_ >= most) break;
    const std::uint64_t bytes = request->ingest.plain_bytes();
    const worker_pool::WorkerPool::Memory memory = service_.pool->memory();
    DeviceShare& share = devices_[request->key.device];
    const std::uint32_t places = std::max(1U, most / kPlacesShare);
    const bool too_much = share.held_bytes > 0 && share.held_bytes + bytes > memory.input_bytes / kShareOfOneDevice;
    if (too_much || share.places >= places) {
      ++at;  // it waits for its own requests; those of others go ahead
      continue;
    }
    // Each call needs a little room of its own: uploads never take the last of the arena, or nothing could run any
    // more.
    const bool fits = memory.input_used + bytes <= memory.input_bytes - memory.input_bytes / kReservedForCalls;
    Outcome<void> reserved =
        fits ? request->ingest.reserve(*service_.pool) : Error{Errc::no_space, "the input arena is in use"};
    if (!reserved) {
      // Others hold the memory and will give it back: wait for that, in order. Nobody does: waiting would be in vain.
      if (memory.input_used > 0) break;
      at = waiting_.erase(at);
      fail(request, reserved.error());
      continue;
    }
    at = waiting_.erase(at);
    share.held_bytes += bytes;
    ++share.places;
    request->uploading = true;
    request->progress = Clock::now();
    if (request->trace) request->trace->admitted = request->progress;
    ++uploads_;
    if (request->recovered) {
      read_back(request);
      continue;
    }
    stop_point("node.upload.announced");
    if (request->upload.complete()) {
      complete(request);
    } else if (const auto listener = request->listener.lock()) {
      listener->upload_at(request->key.id, 0);
    }
  }
  admitting_ = false;
  // Memory that was given back may also be what a call waits for: room for its block, or in a worker's output arena.
  service_.dispatcher->pump();
}

void Requests::repeat(const RequestPtr& request, const std::shared_ptr<Listener>& listener) {
  const auto before = request->listener.lock();
  if (before && before != listener && request->reader == before.get()) before->replaced();
  request->listener = listener;
  if (!request->over) watch_deadline(request);
  if (!request->durable || request->ending) return;  // told as soon as it is written
  switch (request->upload.state()) {
    case UploadState::normal:
    case UploadState::announced:
    case UploadState::receiving:
      if (request->ingest.reserved()) listener->upload_at(request->key.id, request->upload.offset());
      break;  // else it still waits for memory and is told then
    case UploadState::verifying:
    case UploadState::accepted:
    case UploadState::running:
      listener->accepted(request->key.id);
      if (request->stream) listener->streaming(request);
      break;
    case UploadState::done:
      listener->accepted(request->key.id);
      tell_end(request, *listener);
      linger(request);
      break;
    case UploadState::failed:
      // Only what was accepted is remembered when it failed: said again, so that the failure is known to be final.
      request->retry_ms = 0;
      listener->accepted(request->key.id);
      tell_end(request, *listener);
      break;
  }
}

RequestPtr Requests::receiving(const RequestKey& key, const Listener* listener) const {
  const auto found = table_.find(key);
  if (found == table_.end() || found->second->over || !found->second->uploading) return nullptr;
  if (found->second->listener.lock().get() != listener) return nullptr;
  return found->second;
}

void Requests::chunk(const RequestPtr& request, std::uint64_t offset, ByteView bytes) {
  if (request->over) return;
  const auto listener = request->listener.lock();
  if (Outcome<void> received = request->upload.received(offset, bytes); !received) {
    if (listener) listener->upload_at(request->key.id, request->upload.offset());
    return;
  }
  counters_.wire_bytes += bytes.size();
  request->progress = Clock::now();
  if (request->upload.complete()) {
    complete(request);
    return;
  }
  if (request->upload.offset() - request->acknowledged >= kAcknowledgeEvery) {
    request->acknowledged = request->upload.offset();
    if (listener) listener->upload_at(request->key.id, request->acknowledged);
  }
}

void Requests::release_upload(const RequestPtr& request) {
  if (!request->uploading) return;
  request->uploading = false;
  --uploads_;
  --devices_[request->key.device].places;
}

void Requests::complete(const RequestPtr& request) {
  release_upload(request);
  if (Outcome<void> whole = request->upload.verify(); !whole) return fail(request, whole.error());
  if (Clock::now() >= request->deadline) return expire(request);  // its timer is about to say the same
  if (Outcome<void> sane = request->ingest.check_content(request->config->node.limits.max_pixels); !sane) {
    return fail(request, sane.error());
  }
  stop_point("node.upload.verified");
  request->filled = true;
  request->verified = Clock::now();
  if (request->trace) request->trace->verified = request->verified;
  request->upload.to(UploadState::accepted);
  counters_.plain_bytes += request->ingest.plain_bytes();
  if (service_.journal != nullptr) {
    write_acceptance(request);  // meanwhile it runs: what comes of it is told after that
  } else {
    tell_accepted(request);
  }
  start(request);
}

/// Its inputs are there. Precondition: accepted.
void Requests::start(const RequestPtr& request) {
  if (request->upload.state() != UploadState::running) request->upload.to(UploadState::running);
  pipeline::RunRequest run;
  run.config = request->config;
  run.task = request->task;
  run.inputs = request->ingest.values();
  run.begun = request->arrived;
  run.deadline = request->deadline;
  run.io = service_.io;
  run.tenant = request->identity.ticket.tenant;
  run.weight = request->identity.ticket.weight;
  run.priority = request->priority;
  run.pool = pool_of(*request->config, request->identity, request->ingest.plain_bytes());
  run.trace = request->trace;
  run.seed = seed_of(request->key);
  if (request->upload.submit().stream) {
    request->stream = std::make_unique<StreamOut>(parking_, request->announced.part);
  }
  run.on_part = [this, weak = std::weak_ptr(request)](pipeline::RunPart part) {
    if (const RequestPtr alive = weak.lock(); alive && !alive->over) came(alive, std::move(part));
  };
  auto started = pipeline::Run::start(*service_.dispatcher, std::move(run),
                                      [this, weak = std::weak_ptr(request)](Outcome<pipeline::RunResult> outcome) {
                                        if (const RequestPtr alive = weak.lock()) finish(alive, std::move(outcome));
                                      });
  if (!request->over) request->run = std::move(started);  // it may have ended from inside start()
  admit();
}

}  // namespace gearbox::session
