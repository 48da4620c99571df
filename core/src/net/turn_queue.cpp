#include <algorithm>

#include "net/frame_writer.hpp"

namespace gearbox::net {

TurnQueue::Turn::~Turn() {
  if (place_ == Place::waiting) std::erase(queue_.waiting_, this);
  if (place_ == Place::writing) queue_.pass_on();
}

asio::awaitable<Outcome<void>> TurnQueue::Turn::take(Instant deadline) {
  if (!queue_.busy_) {
    queue_.busy_ = true;
    place_ = Place::writing;
    co_return done();
  }
  if (queue_.waiting_.size() >= kMaxWaitingWriters) {
    co_return Error{Errc::overloaded, "too many frames wait to be written to one peer"};
  }
  place_ = Place::waiting;
  queue_.waiting_.push_back(this);
  co_await wakeup_.wait_until(deadline);
  // The turn may have come in the same moment as the deadline: then it is ours, and the write itself finds out.
  if (place_ == Place::writing) co_return done();
  co_return Error{Errc::timeout, "the peer did not read for too long"};
}

void TurnQueue::pass_on() {
  if (waiting_.empty()) {
    busy_ = false;
    return;
  }
  Turn* next = waiting_.front();
  waiting_.erase(waiting_.begin());
  next->place_ = Turn::Place::writing;
  next->wakeup_.notify();
}

void TurnQueue::wake_all() {
  for (Turn* turn : waiting_) turn->wakeup_.notify();
}

}  // namespace gearbox::net
