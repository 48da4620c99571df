// Calls to workers and what comes back. Everything read from a ring or a block is checked; a worker that breaks the
// contract is killed, its calls end as bad_result.
#include <algorithm>
#include <cstring>
#include <limits>

#include <boost/asio/post.hpp>

#include "gearbox/base/stop_point.hpp"
#include "gearbox/shm/call_block.hpp"
#include "gearbox/shm/prefetch.hpp"
#include "worker_pool/pool.hpp"

namespace gearbox::worker_pool {

namespace {
/// 0: none. Clock is CLOCK_MONOTONIC, the same one for all processes of a host.
std::int64_t deadline_ns(Instant deadline) {
  if (deadline == Instant::max()) return 0;
  return std::chrono::duration_cast<std::chrono::nanoseconds>(deadline.time_since_epoch()).count();
}

constexpr microseconds kLookAge{2};  // how old the time may be that poll() is given

Error broken(std::string why) {
  return Error{Errc::bad_result, std::move(why)};
}

constexpr std::uint64_t kAlign = 64;              // of each tensor, as in a grant
constexpr std::uint64_t kMostMoved = 256 * 1024;  // of one answer: copying more would hold up the strand
constexpr std::uint64_t kLeftForCalls = 32;       // this part of the input arena is never given to answers

/// Bytes of the grant up to the end of the last output.
std::uint64_t used_by(const std::vector<TensorRef>& outputs) {
  std::uint64_t used = 0;
  for (const TensorRef& output : outputs) used = std::max(used, output.offset + output.spec.bytes);
  return used;
}

/// What a worker may say of a failed call; everything else counts as the model's.
Errc failure_code(std::uint32_t number) {
  for (const Errc known :
       {Errc::cancelled, Errc::deadline_exceeded, Errc::bad_input, Errc::bad_picture, Errc::overloaded, Errc::no_space,
        Errc::result_too_large, Errc::bad_result, Errc::corrupt_data}) {
    if (static_cast<std::uint32_t>(known) == number) return known;
  }
  return Errc::model_failed;
}
}  // namespace

WorkerPool::CallId Pool::next_id(const Worker& worker) {
  return (next_call_++ << kSlotBits) | worker.slot;
}

Outcome<WorkerPool::CallId> Pool::call(WorkerId id, CallSpec spec, WorkerPool::Answered answered) {
  Worker* worker = by_id(id);
  if (worker == nullptr || !worker->attached() || worker->life != Life::ready) {
    return Error{Errc::worker_lost, "the worker is not ready"};
  }
  if (stopping_) return Error{Errc::worker_lost, "the node is stopping"};
  if (worker->running.size() >= worker->capacity()) return Error{Errc::overloaded, "the worker has enough to do"};
  for (const TensorRef& input : spec.inputs) {
    const ArenaSlabs* const from = input.slab ? arena(input.slab->arena()) : nullptr;
    if (from == nullptr) return Error{Errc::internal, "an input that lies in no arena"};
    BOOST_OUTCOME_TRY(worker->attachment->show(*from));
  }
  Running running;
  running.id = next_id(*worker);
  running.answered = std::move(answered);
  const WorkerPool::CallId number = running.id;
  BOOST_OUTCOME_TRY(hand_over(*worker, std::move(running), std::move(spec), shm::CallKind::infer));
  return number;
}

Outcome<void> Pool::hand_over(Worker& worker, Running running, CallSpec spec, shm::CallKind kind) {
  running.attempt = spec.attempt;
  running.gathered = spec.gathered;
  const bool streams = worker.record->stream && kind == shm::CallKind::infer;
  running.grant = worker.output->take(streams ? worker.part_rooms(spec.grant_bytes).grant_bytes()
                                              : shm::grant_for(spec.grant_bytes));
  if (!running.grant)
    return Error{Errc::overloaded, "worker " + std::to_string(worker.place) + ": its output arena is full"};
  shm::Descriptor descriptor{};
  descriptor.request = running.id;
  descriptor.attempt = spec.attempt;
  descriptor.kind = kind;
  descriptor.tenant = spec.tenant;
  descriptor.priority = spec.priority;
  descriptor.deadline_ns = deadline_ns(spec.deadline);
  descriptor.seed = spec.seed;
  descriptor.grant_offset = running.grant->offset();
  descriptor.grant_bytes = running.grant->bytes().size();
  running.handed = Clock::now();
  if (worker.record->max_batch > 1) descriptor.handed_ns = deadline_ns(running.handed);
  if (kind == shm::CallKind::infer) {
    running.block = input_->take(shm::block_bytes(spec.inputs.size(), 0));
    if (!running.block) return Error{Errc::no_space, "the input arena has no room for a call block"};
    shm::BlockWriter block(running.block->bytes());
    for (const TensorRef& input : spec.inputs) {
      BOOST_OUTCOME_TRY(block.add(input.spec, input.item, input.slab->arena(), input.slab->offset() + input.offset));
    }
    BOOST_OUTCOME_TRY(descriptor.block_bytes, block.finish());
    descriptor.block_arena = shm::kInputArena;
    descriptor.block_offset = running.block->offset();
    running.inputs = std::move(spec.inputs);
    if (streams) open_stream(worker, running, spec, descriptor);
  }
  auto pushed = worker.attachment->requests.push(descriptor);
  if (!pushed) {
    if (pushed.error().code == Errc::bad_frame) {
      asio::post(io_, [self = weak_from_this(), slot = worker.slot, id = worker.id, why = pushed.error().detail] {
        const auto pool = self.lock();
        Worker* there = pool ? pool->by_slot(slot) : nullptr;
        if (there != nullptr && there->id == id && there->attached()) pool->kill(*there, why, Errc::bad_result);
      });
      return Error{Errc::worker_lost, pushed.error().detail};
    }
    return pushed.error();
  }
  running.place = worker.attachment->requests.pushed();
  worker.running.push_back(std::move(running));
  if (kind == shm::CallKind::infer) ++worker.calls;
  if (worker.running.size() == 1) worker.busy_since = worker.running.back().handed;
  if (worker.attachment->requests.publish()) worker.attachment->worker_bell.ring();
  if (kind == shm::CallKind::infer) stop_point("node.step.dispatched");
  return done();
}

/// The real round trip before a worker is called ready: the shim builds inputs from the record and runs them.
void Pool::probe(Worker& worker) {
  CallSpec spec;
  spec.grant_bytes = worker.record->max_output_bytes;
  spec.deadline = Instant::max();
  Running running;
  running.id = next_id(worker);
  running.probe = true;
  auto handed = hand_over(worker, std::move(running), std::move(spec), shm::CallKind::probe);
  if (!handed) kill(worker, describe(handed.error()), Errc::worker_lost);
}

void Pool::send_ping(Worker& worker, Instant now) {
  shm::Descriptor descriptor{};
  descriptor.request = next_id(worker);
  descriptor.kind = shm::CallKind::ping;
  auto pushed = worker.attachment->requests.push(descriptor);
  if (!pushed) return kill(worker, pushed.error().detail, Errc::bad_result);
  worker.ping = descriptor.request;
  worker.ping_sent = now;
  if (worker.attachment->requests.publish()) worker.attachment->worker_bell.ring();
}

/// What it has not begun others can do: the callers hear of it now. Should it run them after all, nobody listens.
void Pool::hand_back(Worker& worker) {
  const std::uint64_t taken = worker.attachment->requests.taken();
  for (Running& running : worker.running) {
    if (!running.answered || Worker::has_begun(running, taken)) continue;
    if (running.block) shm::mark_cancelled(running.block->bytes());
    tell_later(
        worker, running,
        Error{Errc::worker_lost, "worker " + std::to_string(worker.place) + " is " + std::string(name_of(worker.life))},
        false);
  }
}

/// All callers hear of it now; the slabs stay until the process is gone. `taken`: how many calls the worker had taken.
void Pool::end_calls(Worker& worker, const Error& error, std::uint64_t taken) {
  for (Running& running : worker.running) {
    if (!running.answered) continue;
    ++worker.failures;
    tell_later(worker, running, error, Worker::has_begun(running, taken));
  }
}

/// Its caller hears of it soon, not now: whoever ends calls may be in the middle of a list that the callers change.
void Pool::tell_later(const Worker& worker, Running& running, const Error& error, bool begun) {
  asio::post(io_, [answered = std::exchange(running.answered, nullptr), id = worker.id, error, begun] {
    CallAnswer answer;
    answer.outputs = error;
    answer.worker = id;
    answer.begun = begun;
    answered(std::move(answer));
  });
}

std::size_t Pool::poll(Instant now) {
  std::size_t answers = 0;
  for (const auto& worker : workers_) {
    if (worker->attached()) answers += poll(*worker, now);
  }
  if (answers == 0) return 0;
  if (unsettled_ > 0) settle_later();  // it may have been the last call of one, or the last request of a snapshot
  changed();
  return answers;
}

std::size_t Pool::poll(Worker& worker, Instant now) {
  worker.attachment->answers.publish_cpu();
  auto there = worker.attachment->answers.ready();
  if (!there) {
    kill(worker, there.error().detail, Errc::bad_result);
    return 0;
  }
  if (there.value() == 0) return 0;
  if (!worker.running.empty()) {  // its answer's block comes over while the entry is looked at
    shm::will_read(worker.running.front().grant->bytes().data(), shm::block_bytes(1, 0));
  }
  const auto attachment = worker.attachment;  // a caller's reaction may end the worker meanwhile
  std::size_t taken = 0;
  for (; taken < there.value() && worker.attachment == attachment; ++taken) {
    const shm::Descriptor answer = attachment->answers.take();
    auto good = answered(worker, answer, now);
    if (!good && worker.attachment == attachment) kill(worker, good.error().detail, Errc::bad_result);
  }
  attachment->answers.release();
  return taken;
}

/// Errors: bad_result when the worker broke the contract.
Outcome<void> Pool::answered(Worker& worker, const shm::Descriptor& descriptor, Instant now) {
  if (worker.ping != 0 && descriptor.request == worker.ping && descriptor.kind == shm::CallKind::answer) {
    worker.ping = 0;
    if (worker.life == Life::suspect) worker.life = Life::ready;
    return done();
  }
  const auto found = std::find_if(worker.running.begin(), worker.running.end(), [&](const Running& running) {
    return running.id == descriptor.request && running.attempt == descriptor.attempt;
  });
  if (found == worker.running.end()) return broken("it answered a call that it does not have");
  if (descriptor.kind == shm::CallKind::part) return took_part(worker, *found, descriptor, now);

  CallAnswer answer;
  answer.worker = worker.id;
  answer.input_tokens = descriptor.input_tokens;
  const Instant began = found->stream ? found->stream->began() : worker.busy_since;
  const auto took = std::max(std::chrono::nanoseconds(now - began), std::chrono::nanoseconds{0});
  // Its own word, as far as it can be true: it may have begun as soon as it could see the call. When its predecessor
  // was answered says nothing of that: on a busy host that is seen late.
  const auto told = std::chrono::nanoseconds(
      static_cast<std::int64_t>(std::min<std::uint64_t>(descriptor.run_ns, std::numeric_limits<std::int64_t>::max())));
  std::chrono::nanoseconds longest =
      std::max(std::chrono::nanoseconds(now - found->handed), std::chrono::nanoseconds{0}) + kLookAge;
  // On a busy host the look may be older than the answer: a worker is not called a liar by an old clock.
  if (told > longest)
    longest = std::max(std::chrono::nanoseconds(Clock::now() - found->handed), std::chrono::nanoseconds{0}) + kLookAge;
  answer.run = std::min(told, longest);
  if (descriptor.kind == shm::CallKind::failure) {
    Error why{Errc::model_failed, "no reason was given"};
    if (descriptor.block_bytes > 0) {
      BOOST_OUTCOME_TRY(read_answer(worker, found->grant, descriptor));
      why = Error{failure_code(block_.error), std::move(block_.text)};
    }
    if (why.code == Errc::overloaded) answer.again = milliseconds(descriptor.again_ms);
    answer.outputs = std::move(why);
  } else if (descriptor.kind == shm::CallKind::answer && found->stream) {
    if (descriptor.part != found->stream->parts()) return broken("a stream ends with another count than came");
    answer.outputs = std::vector<TensorRef>{};
  } else if (descriptor.kind == shm::CallKind::answer) {
    BOOST_OUTCOME_TRY(answer.outputs, outputs_of(worker, found->grant, descriptor));
    std::vector<TensorRef>& outputs = answer.outputs.value();
    if (found->gathered && move_out(outputs)) {
      // The grant is free.
    } else if (!outputs.empty()) {
      worker.output->trim(found->grant, used_by(outputs));
    }
  } else {
    return broken("an answer of unknown kind");
  }
  answer.batch = std::max(descriptor.batch, 1U);  // 0: of what it could not even read
  if (answer.batch > worker.capacity()) return broken("a batch of more calls than it may have");
  Running running = std::move(*found);
  worker.running.erase(found);
  if (running.stream) {
    answer.parts = running.stream->parts();
    running.stream->close();
  } else if (worker.batch_left > 0) {
    --worker.batch_left;
  } else {
    worker.batch_left = answer.batch - 1;
    worker.spin.observe(took);
    if (!running.probe) ++worker.batches;
  }
  worker.busy_since = now;
  if (worker.life == Life::suspect) worker.life = Life::ready;
  if (running.probe) {
    probed(worker, answer, now);
    return done();
  }
  // A model that has enough to do for now does nothing wrong, and says so sooner than it answers.
  const bool was_refused = !answer.outputs && answer.outputs.error().code == Errc::overloaded;
  if (!was_refused) worker.steps.add(now, std::chrono::duration_cast<microseconds>(answer.run));
  ++worker.answers;
  if (!answer.outputs && !was_refused) ++worker.failures;
  running.inputs.clear();
  running.block.reset();
  running.grant.reset();  // the outputs hold it now
  if (running.answered) running.answered(std::move(answer));
  return done();
}

/// The answer's block to block_, checked against the call's own grant: a worker may not pass on other bytes than it was
/// lent.
Outcome<void> Pool::read_answer(const Worker& worker, const SlabPtr& lent, const shm::Descriptor& answer) {
  const std::uint64_t begin = lent->offset();
  const ByteSpan grant = lent->bytes();
  if (answer.block_arena != worker.output->id() || answer.block_offset < begin ||
      !shm::check_range(answer.block_offset - begin, answer.block_bytes, grant.size())) {
    return broken("its answer lies outside the call's grant");
  }
  auto read = shm::read_block(grant.subspan(answer.block_offset - begin, answer.block_bytes), block_);
  if (!read) return broken(read.error().detail);
  return done();
}

Outcome<std::vector<TensorRef>> Pool::outputs_of(const Worker& worker, const SlabPtr& grant,
                                                 const shm::Descriptor& answer) {
  BOOST_OUTCOME_TRY(read_answer(worker, grant, answer));
  const std::uint64_t begin = grant->offset();
  const std::uint64_t size = grant->bytes().size();
  std::vector<TensorRef> outputs;
  outputs.reserve(block_.tensors.size());
  for (shm::PlacedTensor& tensor : block_.tensors) {
    if (tensor.arena != worker.output->id() || tensor.offset < begin ||
        !shm::check_range(tensor.offset - begin, tensor.spec.bytes, size)) {
      return broken("output '" + tensor.spec.name + "' lies outside the call's grant");
    }
    TensorRef output;
    output.slab = grant;
    output.offset = tensor.offset - begin;
    output.item = tensor.item;
    output.spec = std::move(tensor.spec);
    outputs.push_back(std::move(output));
  }
  return outputs;
}

/// Small outputs of a call whose answer is kept until those of many others are there leave the worker's arena: what
/// stays of a grant where it lies would split the arena, until no other grant fits, for good. To the input arena, from
/// where each worker can read them. False: they stay.
bool Pool::move_out(std::vector<TensorRef>& outputs) {
  std::uint64_t bytes = 0;
  for (const TensorRef& output : outputs) bytes += (output.spec.bytes + kAlign - 1) / kAlign * kAlign;
  // Each call needs a block in the input arena: answers must not take the room of the calls that they wait for.
  const bool fits = input_->used() + bytes <= input_->size() - input_->size() / kLeftForCalls;
  if (outputs.empty() || bytes > kMostMoved || !fits) return false;
  const SlabPtr slab = input_->take(bytes);
  if (!slab) return false;
  std::uint64_t at = 0;
  for (TensorRef& output : outputs) {
    const ByteView from = output.bytes();
    if (!from.empty()) std::memcpy(slab->bytes().data() + at, from.data(), from.size());
    output.slab = slab;
    output.offset = at;
    at += (output.spec.bytes + kAlign - 1) / kAlign * kAlign;
  }
  return true;
}

void Pool::probed(Worker& worker, const CallAnswer& answer, Instant now) {
  if (!answer.outputs && answer.outputs.error().code != Errc::overloaded) {  // which is a sign of life, too
    worker.said = "its first call failed: " + answer.outputs.error().detail;
    return kill(worker, worker.said, Errc::worker_lost);
  }
  if (worker.life != Life::probing) return;  // it drains already
  worker.life = Life::ready;
  worker.was_ready = true;
  worker.ready_since = now;
  worker.reason.clear();
}

}  // namespace gearbox::worker_pool
