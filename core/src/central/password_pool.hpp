// password_pool.hpp: the few threads on which passwords are checked and accounts written: slow work, kept off the loop.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "central/accounts.hpp"
#include "gearbox/base/outcome.hpp"

namespace gearbox::central {

/// Bounded: `threads` jobs at once (64 MiB each for a password), `queue` more waiting, of which one group of addresses
/// may hold half. Each thread has the database open on its own.
class PasswordPool {
 public:
  static Outcome<std::unique_ptr<PasswordPool>> start(const AccountsPlace& place, std::uint32_t threads,
                                                      std::size_t queue = 64);
  ~PasswordPool();

  /// Waits for the jobs under way, drops the waiting ones, takes no more. Before the executor ends. Idempotent.
  void stop();

  using Job = std::function<void(Accounts&)>;
  /// Any thread. Errors: overloaded when the queue, or this group's share of it, is full.
  Outcome<void> submit(const std::string& group, Job job);

  /// Runs `job` there and comes back to `executor` with its answer, which is `overloaded` when there is no room, or
  /// shutting_down. The job may outlive the caller: it must own what it uses.
  static boost::asio::awaitable<Outcome<User>> run(std::shared_ptr<PasswordPool> pool,
                                                   boost::asio::any_io_executor executor, std::string group,
                                                   std::function<Outcome<User>(Accounts&)> job);

 private:
  struct State;
  explicit PasswordPool(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace gearbox::central
