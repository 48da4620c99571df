#include "node_link.hpp"

#include <gtest/gtest.h>

#include <set>

namespace gearbox::client {
namespace {

TEST(PauseBeforeRetry, GrowsToItsCapAndSpreads) {
  std::set<std::int64_t> seen;
  for (unsigned tries = 0; tries < 64; ++tries) {
    const std::int64_t ceiling = std::min<std::int64_t>(10'000, 200LL << std::min(tries, 20U));
    for (int i = 0; i < 50; ++i) {
      const std::int64_t pause =
          pause_before_retry(tries, milliseconds(200), milliseconds(10'000), milliseconds(0)).count();
      EXPECT_GE(pause, ceiling / 2);
      EXPECT_LE(pause, ceiling);
      seen.insert(pause);
    }
  }
  EXPECT_GT(seen.size(), 500U);
}

TEST(PauseBeforeRetry, NeverComesBeforeItIsAdvised) {
  for (int i = 0; i < 100; ++i) {
    EXPECT_GE(pause_before_retry(0, milliseconds(2), milliseconds(10'000), milliseconds(700)), milliseconds(700));
  }
}

TEST(WorthRetrying, TellsMomentsFromRefusals) {
  for (const Errc code :
       {Errc::unreachable, Errc::timeout, Errc::closed, Errc::io_error, Errc::overloaded, Errc::shutting_down}) {
    EXPECT_TRUE(worth_retrying(code)) << name_of(code);
  }
  for (const Errc code :
       {Errc::auth_failed, Errc::wrong_server_key, Errc::unknown_task, Errc::not_gearbox, Errc::bad_picture,
        Errc::too_large, Errc::not_allowed, Errc::bad_input, Errc::digest_mismatch}) {
    EXPECT_FALSE(worth_retrying(code)) << name_of(code);
  }
}

}  // namespace
}  // namespace gearbox::client
