// Who leads: asking for the lease again and again, giving it back at the end, and another store of leases meanwhile.
#include <spdlog/spdlog.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <utility>

#include "gearbox/base/text.hpp"
#include "scheduler/scheduler.hpp"

namespace gearbox::scheduler {

namespace asio = boost::asio;

namespace {

constexpr milliseconds kLeastPause{100};  // between two questions, however long the first one took

asio::awaitable<void> give_back(std::shared_ptr<Lease> lease, std::string holder, std::uint64_t term) {
  co_await lease->release(std::move(holder), term);
}

}  // namespace

Scheduler::~Scheduler() {
  hosts_->let_go();
  if (setup_.store.lease) setup_.store.lease->close();
}

void Scheduler::end(std::function<void()> ended) {
  asio::co_spawn(*setup_.io, leave(this, std::move(ended)), asio::detached);
}

asio::awaitable<void> Scheduler::leave(Scheduler* self, std::function<void()> ended) {
  self->leaving_ = true;
  if (self->setup_.store.lease && self->keeper_.holds(Clock::now())) {
    std::string holder = self->setup_.config->node.name;
    co_await give_back(self->setup_.store.lease, std::move(holder), *self->keeper_.term());
  }
  ended();
}

asio::awaitable<void> Scheduler::keep_lease(Scheduler* self) {
  while (!self->leaving_) {
    const Instant asked = Clock::now();
    const std::shared_ptr<Lease> lease = self->setup_.store.lease;
    Outcome<LeaseAnswer> answer = Error{Errc::bad_plugin, "its plugin is barred; see `broker plugins`"};
    if (lease) {
      std::string holder = self->setup_.config->node.name;
      answer = co_await lease->ask(std::move(holder), self->keeper_.ttl(), self->keeper_.term(), self->keeper_.above());
    }
    if (self->leaving_) co_return;
    if (lease != self->setup_.store.lease) continue;  // what the one before says counts no more
    self->lease_answered(answer, asked);
    // So often, also when the store takes its time to say nothing.
    self->lease_tick_.expires_at(std::max(after(asked, self->keeper_.pause()), after(Clock::now(), kLeastPause)));
    boost::system::error_code woken;
    co_await self->lease_tick_.async_wait(asio::redirect_error(asio::use_awaitable, woken));
  }
}

void Scheduler::lease_answered(const Outcome<LeaseAnswer>& answer, Instant asked) {
  const bool led = keeper_.holds(asked);
  const std::uint64_t before = keeper_.term().value_or(0);
  keeper_.answered(answer, asked);
  asked_ = true;
  const bool leads = keeper_.holds(Clock::now());
  if (leads && (!led || before != keeper_.term().value_or(0))) {
    spdlog::info("event=leads role=scheduler term={} coordination={}", *keeper_.term(), setup_.store.name);
  } else if (led && !leads) {
    spdlog::warn("event=leads_no_longer role=scheduler leader={} reason=\"{}\"", escaped(keeper_.leader()),
                 keeper_.problem());
  }
  if (leads && !led) tick_.cancel();  // the first round at once
}

void Scheduler::use_store(const LeaseStore& store) {
  const LeaseStore old = std::exchange(setup_.store, store);
  if (old.lease == store.lease) return;
  // With other options of the same store the lease is kept: whoever made its plugin's object anew can renew it.
  if (old.name != store.name || old.asks_for != store.asks_for) {
    if (old.lease && keeper_.holds(Clock::now())) {
      spdlog::warn("event=leads_no_longer role=scheduler reason=\"it asks {} for '{}' now, no more {} for '{}'\"",
                   store.name, store.asks_for, old.name, old.asks_for);
      asio::co_spawn(*setup_.io, give_back(old.lease, setup_.config->node.name, *keeper_.term()), asio::detached);
    }
    keeper_.moved();
  }
  lease_tick_.cancel();
}

}  // namespace gearbox::scheduler
