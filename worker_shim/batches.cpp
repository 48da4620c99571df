#include "batches.hpp"

#include <algorithm>
#include <utility>

#include "gearbox/shm/call_block.hpp"
#include "gearbox/shm/ring.hpp"
#include "watchdog.hpp"

namespace gearbox::shim {
namespace {

constexpr milliseconds kLook{250};  // between two looks at Watchdog::stopping()
constexpr microseconds kShort{5};   // a wait that is not worth letting go of the GIL
constexpr microseconds kTurn{100};  // as in _host.load()

}  // namespace

Outcome<void> still_wanted(const shm::Call& call, Instant now) {
  if (shm::is_cancelled(call.block)) return Error{Errc::cancelled, "it was cancelled before the model was free"};
  const auto deadline = std::chrono::nanoseconds(call.descriptor.deadline_ns);
  if (deadline.count() != 0 && now.time_since_epoch() >= deadline) {
    return Error{Errc::deadline_exceeded, "its time was up before the model was free"};
  }
  return done();
}

bool are_alike(const shm::Call& a, const shm::Call& b) {
  if (a.descriptor.kind != b.descriptor.kind || a.descriptor.rooms != 0 || b.descriptor.rooms != 0) return false;
  return std::equal(a.inputs.begin(), a.inputs.end(), b.inputs.begin(), b.inputs.end(),
                    [](const shm::InputTensor& one, const shm::InputTensor& other) {
                      return one.spec.dtype == other.spec.dtype && one.spec.shape == other.spec.shape &&
                             one.item == other.item && one.spec.name == other.spec.name;
                    });
}

Batches::Batches(shm::WorkerEndpoint& endpoint, const model::Record& record)
    : endpoint_(endpoint), record_(record), most_(std::min(record.calls_at_once(), shm::kMostCalls)) {}

/// Is nothing gained by waiting any longer?
bool Batches::is_due(Instant now) const {
  if (aside_.empty()) return false;
  const shm::Call& oldest = aside_.front();
  if (record_.max_delay_ms == 0 || room() == 0 || now >= after(oldest.handed, milliseconds(record_.max_delay_ms))) {
    return true;
  }
  const auto alike =
      std::count_if(aside_.begin(), aside_.end(), [&](const shm::Call& call) { return are_alike(oldest, call); });
  return static_cast<std::uint32_t>(alike) >= record_.max_batch;
}

Outcome<void> Batches::take(Outcome<std::vector<shm::Call>> calls) {
  if (!calls) return std::move(calls).error();
  for (shm::Call& call : calls.value()) {
    shm::put_aside(call.grant, call.descriptor.request);
    aside_.push_back(std::move(call));
  }
  return done();
}

std::vector<shm::Call> Batches::compose(Instant now) {
  std::vector<shm::Call> batch, rest;
  const shm::Call* first = nullptr;  // of those that are wanted; `batch` never grows beyond its reserve
  batch.reserve(aside_.size());
  std::uint32_t alike = 0;
  for (shm::Call& call : aside_) {
    const bool wanted = still_wanted(call, now).has_value();
    if (wanted && first != nullptr && (alike == record_.max_batch || !are_alike(*first, call))) {
      rest.push_back(std::move(call));
      continue;
    }
    shm::take_up(call.grant);
    batch.push_back(std::move(call));
    if (!wanted) continue;
    if (first == nullptr) first = &batch.back();
    ++alike;
  }
  aside_ = std::move(rest);
  return batch;
}

/// With max_batch = 1 the calls stay in the ring; what is taken from it there is begun.
Outcome<std::vector<shm::Call>> Batches::look() {
  std::vector<shm::Call> calls;
  if (turn_over_) return calls;
  Instant now{};
  if (record_.max_batch == 1) {
    BOOST_OUTCOME_TRY(calls, endpoint_.look(1, kShort));
    if (!calls.empty()) now = calls.front().taken;
  } else {
    if (room() > 0) {
      const std::chrono::nanoseconds within = aside_.empty() ? kShort : microseconds{0};
      BOOST_OUTCOME_TRY(take(endpoint_.look(room(), within)));
    }
    now = Clock::now();
    if (is_due(now)) calls = compose(now);
  }
  if (!calls.empty()) turn_over_ = now - others_since_ >= kTurn;
  return calls;
}

Outcome<std::vector<shm::Call>> Batches::wait() {
  std::vector<shm::Call> calls;
  Instant now{};
  if (record_.max_batch == 1) {
    BOOST_OUTCOME_TRY(calls, endpoint_.next(1, kLook));
    if (!calls.empty()) now = calls.front().taken;
  } else {
    if (room() > 0) {
      BOOST_OUTCOME_TRY(take(endpoint_.next(room(), aside_.empty() ? kLook : milliseconds{0})));
    }
    for (now = Clock::now(); !aside_.empty() && !is_due(now) && !Watchdog::stopping(); now = Clock::now()) {
      const auto left = after(aside_.front().handed, milliseconds(record_.max_delay_ms)) - now;
      BOOST_OUTCOME_TRY(take(endpoint_.next(room(), std::min(std::chrono::ceil<milliseconds>(left), kLook))));
    }
    if (is_due(now)) calls = compose(now);
  }
  if (!calls.empty()) {
    others_since_ = now;
    turn_over_ = false;
  }
  return calls;
}

}  // namespace gearbox::shim
