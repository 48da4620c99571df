#include "scheduler/plugin_lease.hpp"

#include <spdlog/spdlog.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <utility>

#include "gearbox/base/text.hpp"

namespace gearbox::scheduler {

namespace asio = boost::asio;

namespace {

constexpr milliseconds kRelease{500};

/// A wish with texts of its own.
struct Question {
  std::string name, holder, home;
  milliseconds ttl{0};
  std::uint64_t term = 0, above = 0;
  Instant deadline;
  plugin::LeaseWish wish() const { return {name, holder, home, ttl, term, above}; }
};

/// Asio wants to make an empty one; it holds something when this has run.
using Told = std::optional<Outcome<LeaseAnswer>>;

asio::awaitable<Told> ask_store(std::shared_ptr<plugin::Coordination> store, Question question) {
  co_return Told(store->ask(question.wish(), question.deadline));
}

asio::awaitable<Told> release_at(std::shared_ptr<plugin::Coordination> store, Question question) {
  const Outcome<void> released = store->release(question.wish(), question.deadline);
  if (!released) co_return Told(released.error());
  co_return Told(LeaseAnswer{});
}

}  // namespace

asio::awaitable<Outcome<LeaseAnswer>> PluginLease::ask(std::string holder, milliseconds ttl,
                                                       std::optional<std::uint64_t> term, std::uint64_t above) {
  // Over before the next question is due: what is left of the lease then is enough for one more.
  Question question{name_, std::move(holder), home_, ttl, term.value_or(0), above, after(Clock::now(), ttl * 3 / 10)};
  auto asked = ask_store(store_, std::move(question));
  Told told = co_await asio::co_spawn(thread_, std::move(asked), asio::use_awaitable);
  if (!told) co_return Error{Errc::internal, "the store was not asked"};
  co_return std::move(*told);
}

asio::awaitable<void> PluginLease::release(std::string holder, std::uint64_t term) {
  Question question{name_, std::move(holder), home_, milliseconds{0}, term, 0, after(Clock::now(), kRelease)};
  auto asked = release_at(store_, std::move(question));
  const Told told = co_await asio::co_spawn(thread_, std::move(asked), asio::use_awaitable);
  // It ends by itself a moment later.
  if (told && !*told) spdlog::debug("event=lease_not_released reason=\"{}\"", escaped(describe(told->error())));
}

void PluginLease::close() {
  thread_.stop();
  thread_.join();
}

}  // namespace gearbox::scheduler
