#include "gearbox/net/wakeup.hpp"

#include "core/net/stream_fixture.hpp"

namespace gearbox::net {
namespace {

class WakeupTest : public StreamFixture {
 protected:
  static asio::awaitable<void> wait(Wakeup& wakeup, milliseconds within, bool& result) {
    result = co_await wakeup.wait_until(after(Clock::now(), within));
  }
  static asio::awaitable<void> notify(Wakeup& wakeup) {
    wakeup.notify();
    co_return;
  }
  Wakeup wakeup_{io_.get_executor()};
};

TEST_F(WakeupTest, WakesTheOneWhoWaits) {
  bool woken = false;
  run(wait(wakeup_, kSoon, woken), notify(wakeup_));
  EXPECT_TRUE(woken);
}

TEST_F(WakeupTest, KeepsOneNotificationForTheNextWait) {
  wakeup_.notify();
  wakeup_.notify();
  bool woken = false;
  run(wait(wakeup_, kSoon, woken));
  EXPECT_TRUE(woken);
  run(wait(wakeup_, kShort, woken));
  EXPECT_FALSE(woken);
}

TEST_F(WakeupTest, EndsAtTheDeadlineOtherwise) {
  bool woken = true;
  const Instant begin = Clock::now();
  run(wait(wakeup_, kShort, woken));
  EXPECT_FALSE(woken);
  EXPECT_GE(Clock::now() - begin, kShort);
}

}  // namespace
}  // namespace gearbox::net
