#include "sql/pg_opening.hpp"

#include <condition_variable>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

namespace gearbox::sql {

namespace {

constexpr milliseconds kLook{50};  // between two looks whether anybody still wants it

}  // namespace

struct PgOpening::Try {
  explicit Try(std::unique_ptr<PgLink> given) : link(std::move(given)) {}

  std::mutex mutex;
  std::condition_variable changed;
  bool wanted = true;
  std::optional<Outcome<bool>> ended;  // true: open
  std::unique_ptr<PgLink> link;        // of the thread, until it has ended

  void run() {
    for (;;) {
      Outcome<bool> open = link->connect(after(Clock::now(), kLook));
      const std::lock_guard lock(mutex);
      if (!wanted) return;
      if (open && !open.value()) continue;
      ended = std::move(open);
      changed.notify_one();
      return;
    }
  }
};

PgOpening::PgOpening(std::string connection, std::string set_up)
    : connection_(std::move(connection)), set_up_(std::move(set_up)) {}

PgOpening::~PgOpening() {
  if (!try_) return;
  const std::lock_guard lock(try_->mutex);
  try_->wanted = false;
}

bool PgOpening::has_ended() const {
  if (!try_) return false;
  const std::lock_guard lock(try_->mutex);
  return try_->ended.has_value();
}

Outcome<std::unique_ptr<PgLink>> PgOpening::take(Instant deadline) {
  if (!try_) {
    if (!link_) link_ = std::make_unique<PgLink>(connection_, set_up_);
    auto next = std::make_shared<Try>(std::move(link_));
    try {
      // Not waited for by anybody: a resolver cannot be called back, and a central that stops has no half minute.
      std::thread([next] { next->run(); }).detach();
    } catch (const std::system_error& error) {
      link_ = std::move(next->link);
      return Error{Errc::overloaded, std::string("no thread to connect to the database on: ") + error.what()};
    }
    try_ = std::move(next);
  }
  std::unique_lock lock(try_->mutex);
  if (!try_->changed.wait_until(lock, deadline, [&] { return try_->ended.has_value(); })) {
    return std::unique_ptr<PgLink>();
  }
  const Outcome<bool> ended = *try_->ended;
  std::unique_ptr<PgLink> link = std::move(try_->link);
  lock.unlock();
  try_.reset();
  if (ended) return link;
  link_ = std::move(link);
  return ended.error();
}

}  // namespace gearbox::sql
