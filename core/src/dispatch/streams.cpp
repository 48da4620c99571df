// Parts of streamed answers, on their way from the pool to whoever asked, and what becomes of them when a worker dies.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "dispatch/dispatcher.hpp"

namespace gearbox::dispatch {

namespace {
/// Chained from part to part. Against mistakes, never against intent.
std::uint64_t digest_of(const worker_pool::StreamPart& part, std::uint64_t before) {
  for (const worker_pool::TensorRef& tensor : part.tensors) {
    const ByteView bytes = tensor.bytes();
    before = XXH3_64bits_withSeed(bytes.data(), bytes.size(), before);
  }
  return before;
}
}  // namespace

/// Counts what is handed on. A call that began anew gives its first parts a second time: they are let go of here, if
/// they are what they were.
void Dispatcher::pass_parts(JobId id, worker_pool::CallSpec& spec) {
  if (!spec.on_part) return;
  jobs_.at(id).again = 0;
  spec.on_part = [this, id, given = std::move(spec.on_part)](worker_pool::StreamPart part) {
    const auto found = jobs_.find(id);
    if (found == jobs_.end()) return;  // cancelled meanwhile
    Waiting& waiting = found->second;
    if (waiting.job.record->repeatable) waiting.again = digest_of(part, waiting.again);
    if (part.number < waiting.parts) {
      if (part.number + 1 == waiting.parts && waiting.again != waiting.digest) {
        waiting.differs = true;
        pool_.cancel(waiting.call);
      }
      return;
    }
    if (waiting.parts == 0) waiting.first_part = Clock::now();
    waiting.parts = part.number + 1;
    waiting.digest = waiting.again;
    given(std::move(part));
  };
}

/// What the end of a try means to a call of which parts were handed on.
void Dispatcher::end_stream(const Waiting& waiting, worker_pool::CallAnswer& answer) {
  const std::string given = std::to_string(waiting.parts) + " parts";
  if (waiting.differs) {
    answer.outputs =
        Error{Errc::stream_broken, "it was run again after " + given + ", and those came out different: model " +
                                       waiting.job.record->name + " is not repeatable"};
  } else if (answer.outputs) {
    if (answer.parts >= waiting.parts) return;
    answer.outputs = Error{Errc::stream_broken, "it was run again after " + given + ", and then had " +
                                                    std::to_string(answer.parts) + " only: model " +
                                                    waiting.job.record->name + " is not repeatable"};
  } else if (answer.outputs.error().code == Errc::worker_lost && !waiting.job.record->repeatable) {
    answer.outputs = Error{Errc::stream_broken, "after " + given + ": " + answer.outputs.error().detail};
  }
}

/// May a call of which parts were handed on go to `record`? Errors: stream_broken, as it is another model's.
Outcome<void> Dispatcher::may_begin_anew(const Waiting& waiting, const model::Record& record) {
  if (waiting.parts == 0 || key_of(record) == key_of(*waiting.job.record)) return done();
  return Error{Errc::stream_broken,
               "after " + std::to_string(waiting.parts) + " parts its model was replaced by version " + record.version};
}

}  // namespace gearbox::dispatch
