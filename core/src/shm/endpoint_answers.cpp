// How a worker answers a call: outputs and errors, written into the call's grant.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "gearbox/shm/endpoint.hpp"
#include "shm/endpoint_state.hpp"

namespace gearbox::shm {

namespace {

ByteSpan room_in(Call& call, std::size_t bytes) {
  const std::size_t begin = aligned(call.reserved);
  if (begin > call.grant.size() || bytes > call.grant.size() - begin) return {};
  call.reserved = begin + bytes;
  return call.grant.subspan(begin, bytes);
}

}  // namespace

ByteSpan WorkerEndpoint::reserve(Call& call, std::size_t bytes) {
  return room_in(call, bytes);
}

/// Block and bytes into the call's grant. The descriptor is that of an answer. Errors: those of answer().
Outcome<Descriptor> WorkerEndpoint::State::written(Call& call, const std::vector<OutputTensor>& outputs) {
  if (outputs.size() > wire::kMaxTensors) {
    return Error{Errc::result_too_large, std::to_string(outputs.size()) + " output tensors, the last of them '" +
                                             one_line(outputs.back().spec.name) + "'; one answer holds at most " +
                                             std::to_string(wire::kMaxTensors)};
  }
  BlockWriter writer(call.grant);
  for (const OutputTensor& tensor : outputs) {
    if (tensor.spec.bytes != tensor.bytes.size()) {
      return Error{Errc::bad_result, "output '" + one_line(tensor.spec.name) + "' has other bytes than it says"};
    }
    auto fits = wire::check(tensor.spec);
    if (!fits) return Error{Errc::bad_result, fits.error().detail};
    const std::byte* begin = tensor.bytes.data();
    const std::byte* grant = call.grant.data();
    const std::less_equal<> before;  // of pointers into different objects, too
    const bool inside = !tensor.bytes.empty() && before(grant + kAnswerBlockBytes, begin) &&
                        before(begin + tensor.bytes.size(), grant + call.grant.size());
    if (!inside) {
      const ByteSpan room = room_in(call, tensor.bytes.size());
      // The first comparison is what lets the compiler see that the copy is bounded.
      if (tensor.bytes.size() > call.grant.size() || room.data() == nullptr) {
        return Error{Errc::result_too_large,
                     "output '" + tensor.spec.name + "' of " + std::to_string(tensor.bytes.size()) +
                         " bytes does not fit: an answer has " + std::to_string(call.grant.size() - kAnswerBlockBytes) +
                         " bytes, the model's max_output_kb and some room for its description"};
      }
      std::copy(tensor.bytes.begin(), tensor.bytes.end(), room.begin());
      begin = room.data();
    }
    auto added = writer.add(tensor.spec, tensor.item, output,
                            call.descriptor.grant_offset + static_cast<std::uint64_t>(begin - grant));
    if (!added) return Error{Errc::bad_result, added.error().detail};
  }
  auto bytes = writer.finish();
  if (!bytes) return Error{Errc::bad_result, bytes.error().detail};
  Descriptor answer = answer_to(call.descriptor, CallKind::answer);
  answer.batch = call.batch;
  answer.input_tokens = call.input_tokens;
  answer.block_arena = output;
  answer.block_offset = call.descriptor.grant_offset;
  answer.block_bytes = bytes.value();
  return answer;
}

Outcome<void> WorkerEndpoint::answer(Call& call, const std::vector<OutputTensor>& outputs,
                                     std::chrono::nanoseconds run) {
  BOOST_OUTCOME_TRY(Descriptor answer, state_->written(call, outputs));
  answer.run_ns = static_cast<std::uint64_t>(std::max<std::int64_t>(run.count(), 0));
  state_->publish(answer);
  state_->recycle(call);
  return done();
}

void WorkerEndpoint::fail(Call& call, const Error& error, std::chrono::nanoseconds run) {
  State& state = *state_;
  Descriptor answer = answer_to(call.descriptor, CallKind::failure);
  answer.part = call.parts;
  answer.batch = call.batch;
  answer.input_tokens = call.input_tokens;
  answer.again_ms = error.code == Errc::overloaded ? call.again_ms : 0;
  answer.run_ns = static_cast<std::uint64_t>(std::max<std::int64_t>(run.count(), 0));
  // The grant was checked to hold a block when the call was taken.
  BlockWriter block(call.grant);
  auto bytes = block.finish(static_cast<std::uint32_t>(error.code), one_line(error.detail));
  if (bytes) {
    answer.block_arena = state.output;
    answer.block_offset = call.descriptor.grant_offset;
    answer.block_bytes = bytes.value();
  }
  state.publish(answer);
  state.recycle(call);
}

}  // namespace gearbox::shm
