#include "central/password_pool.hpp"

#include <boost/asio/post.hpp>

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "gearbox/base/clock.hpp"
#include "gearbox/net/wakeup.hpp"

namespace gearbox::central {

namespace asio = boost::asio;

struct PasswordPool::State {
  struct Waiting {
    std::string group;
    Job job;
  };
  std::mutex mutex;  // guards all below up to `threads`
  std::condition_variable changed;
  std::deque<Waiting> queue;
  std::map<std::string, std::size_t> held;  // waiting or under way, by group
  bool stopping = false;
  std::size_t limit = 0;
  std::vector<std::unique_ptr<Accounts>> accounts;  // one for each thread
  std::vector<std::thread> threads;

  void work(Accounts& mine) {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return stopping || !queue.empty(); });
      if (stopping) return;
      Waiting next = std::move(queue.front());
      queue.pop_front();
      lock.unlock();
      next.job(mine);
      next.job = nullptr;
      lock.lock();
      if (--held[next.group] == 0) held.erase(next.group);
    }
  }
};

PasswordPool::PasswordPool(std::unique_ptr<State> state) : state_(std::move(state)) {}

Outcome<std::unique_ptr<PasswordPool>> PasswordPool::start(const AccountsPlace& place, std::uint32_t threads,
                                                           std::size_t queue) {
  auto state = std::make_unique<State>();
  state->limit = queue;
  for (std::uint32_t i = 0; i < threads; ++i) {
    BOOST_OUTCOME_TRY(auto accounts, Accounts::open(place, OnDamage::refuse));
    state->accounts.push_back(std::move(accounts));
  }
  for (auto& accounts : state->accounts) {
    state->threads.emplace_back([state = state.get(), mine = accounts.get()] { state->work(*mine); });
  }
  return std::unique_ptr<PasswordPool>(new PasswordPool(std::move(state)));
}

PasswordPool::~PasswordPool() {
  stop();
}

void PasswordPool::stop() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->changed.notify_all();
  for (std::thread& thread : std::exchange(state_->threads, {})) thread.join();
  state_->queue.clear();
}

Outcome<void> PasswordPool::submit(const std::string& group, Job job) {
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->stopping) return Error{Errc::shutting_down, "stopping"};
    const auto found = state_->held.find(group);
    const std::size_t of_group = found == state_->held.end() ? 0 : found->second;
    if (state_->queue.size() >= state_->limit || of_group >= (state_->limit + 1) / 2) {
      return Error{Errc::overloaded, "too many password checks are waiting: try again later"};
    }
    ++state_->held[group];
    State::Waiting waiting{group, std::move(job)};
    state_->queue.push_back(std::move(waiting));
  }
  state_->changed.notify_one();
  return done();
}

namespace {
constexpr milliseconds kLongest{30'000};  // a full queue takes seconds; the database's busy timeout as well

/// What the thread and the waiting coroutine share; touched on the executor's strand only.
struct Answer {
  explicit Answer(const asio::any_io_executor& executor) : news(executor) {}
  net::Wakeup news;
  std::optional<Outcome<User>> value;
};
}  // namespace

asio::awaitable<Outcome<User>> PasswordPool::run(std::shared_ptr<PasswordPool> pool, asio::any_io_executor executor,
                                                 std::string group, std::function<Outcome<User>(Accounts&)> job) {
  auto answer = std::make_shared<Answer>(executor);
  Job task = [answer, executor, job = std::move(job)](Accounts& accounts) {
    Outcome<User> result = job(accounts);
    asio::post(executor, [answer, result = std::move(result)]() mutable {
      answer->value.emplace(std::move(result));
      answer->news.notify();
    });
  };
  if (Outcome<void> taken = pool->submit(group, std::move(task)); !taken) co_return taken.error();
  const bool told = co_await answer->news.wait_until(after(Clock::now(), kLongest));
  if (!told || !answer->value) co_return Error{Errc::overloaded, "the password check took too long: try again later"};
  co_return std::move(*answer->value);
}

}  // namespace gearbox::central
