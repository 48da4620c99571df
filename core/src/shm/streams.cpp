// A worker's side of answers that come in parts.
#include <algorithm>

#include "shm/endpoint_state.hpp"

namespace gearbox::shm {

namespace {
/// Places of the ring that parts leave free: an answer for each call that the node may hand over, and a pong.
constexpr std::uint64_t kForAnswers = kRingCapacity / 2 + 2;
/// Nobody rings when the node has taken entries: a ring without a place for parts is looked at again after this.
constexpr milliseconds kRingFull{1};

bool ring_has_place(const RingProducer& answers) {
  return answers.pushed() - answers.taken() + kForAnswers < kRingCapacity;
}
}  // namespace

Outcome<PartRooms> rooms_of(const Descriptor& call) {
  PartRooms rooms;
  rooms.rooms = call.rooms;
  rooms.room_bytes = (call.grant_bytes - kAnswerBlockBytes) / call.rooms;
  if (rooms.room_bytes < kAnswerBlockBytes || rooms.room_bytes % kTensorAlign != 0) {
    return Error{Errc::bad_frame, "the grant has no rooms for parts"};
  }
  return rooms;
}

bool WorkerEndpoint::has_room(const Call& call) const {
  // Unsigned, so that a credit over what was published is no credit at all.
  const std::uint32_t out = call.parts - credit_of(call.block);
  return out < call.rooms.rooms && ring_has_place(state_->answers);
}

Outcome<void> WorkerEndpoint::part(Call& call, const std::vector<OutputTensor>& outputs) {
  const std::uint64_t offset = call.rooms.offset_of(call.parts);
  Call room;  // looks like a plain call to whoever writes into it
  room.descriptor = call.descriptor;
  room.descriptor.grant_offset += offset;
  room.descriptor.grant_bytes = call.rooms.room_bytes;
  room.descriptor.part = call.parts;
  room.grant = call.grant.subspan(offset, call.rooms.room_bytes);
  room.reserved = kAnswerBlockBytes;
  BOOST_OUTCOME_TRY(Descriptor answer, state_->written(room, outputs));
  answer.kind = CallKind::part;
  ++call.parts;
  state_->publish(answer);
  return done();
}

void WorkerEndpoint::end(Call& call, std::chrono::nanoseconds run) {
  Descriptor answer = answer_to(call.descriptor, CallKind::answer);
  if (call.rooms.rooms == 0) {  // a probe: it is answered like that of any model, with nothing
    Outcome<Descriptor> nothing = state_->written(call, {});
    if (!nothing) return fail(call, nothing.error(), run);
    answer = nothing.value();
  }
  answer.part = call.parts;
  answer.input_tokens = call.input_tokens;
  answer.run_ns = static_cast<std::uint64_t>(std::max<std::int64_t>(run.count(), 0));
  state_->publish(answer);
  state_->recycle(call);
}

Outcome<std::vector<Call>> WorkerEndpoint::next_or(std::size_t most, milliseconds within,
                                                   const std::function<bool()>& due) {
  State& state = *state_;
  const Instant began = Clock::now();
  const Instant until = after(began, within);
  Instant spin_until = began + state.spin.now();
  for (;;) {
    if (state.broken) return Error{Errc::bad_frame, "the answer ring is full"};
    state.requests.publish_cpu();
    BOOST_OUTCOME_TRY(const std::uint64_t there, state.requests.ready());
    const Instant now = Clock::now();
    if (there > 0 && most > 0) {
      BOOST_OUTCOME_TRY(std::vector<Call> calls, state.take(std::min<std::uint64_t>(there, most), now));
      if (!calls.empty()) return calls;
      continue;  // only pings
    }
    if (due() || now >= until) return std::vector<Call>{};
    if (now < spin_until && state.requests.producer_cpu() != this_cpu()) {
      for (int i = 0; i < kLooks; ++i) cpu_relax();
      continue;
    }
    const Instant wake_at = ring_has_place(state.answers) ? until : std::min(until, after(now, kRingFull));
    // The flag first, then the looks: at the ring, where calls that may not be taken yet do not keep it awake, and at
    // the credit; see give_credit().
    const bool empty = state.requests.may_sleep();
    const bool sleep = (empty || most == 0) && !due();
    const Outcome<void> woken = sleep ? state.block_until(wake_at, now) : done();
    state.requests.wake();
    BOOST_OUTCOME_TRY(woken);
    spin_until = Clock::now() + state.spin.now();
  }
}

}  // namespace gearbox::shm
