// A connection that is made on a thread: name servers that are silent, a server that is far away, one that is not
// there.
#include "sql/pg_opening.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <netdb.h>

#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>

#include "sql/postgres_connection.hpp"
#include "support/delaying_proxy.hpp"
#include "support/postgres_server.hpp"

namespace {

/// Name servers that say nothing about "silent.test" until they are let.
class Silence {
 public:
  void wait() {
    std::unique_lock lock(mutex_);
    ++inside_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return over_; });
    --inside_;
    changed_.notify_all();
  }
  bool somebody_asks(gearbox::milliseconds within) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, within, [this] { return inside_ > 0; });
  }
  /// True: nobody waits any more.
  bool end() {
    std::unique_lock lock(mutex_);
    over_ = true;
    changed_.notify_all();
    return changed_.wait_for(lock, gearbox::seconds{20}, [this] { return inside_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int inside_ = 0;
  bool over_ = false;
};
Silence silence;

}  // namespace

// libpq's own calls come here: a program's function goes before the C library's.
extern "C" __attribute__((visibility("default"))) int getaddrinfo(const char* node, const char* service,
                                                                  const addrinfo* hints, addrinfo** found) {
  if (node != nullptr && std::string_view(node) == "silent.test") {
    silence.wait();
    return EAI_AGAIN;
  }
  using Original = int (*)(const char*, const char*, const addrinfo*, addrinfo**);
  static const auto original = reinterpret_cast<Original>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  return original(node, service, hints, found);
}

namespace gearbox::sql {
namespace {

using gearbox::testing::DelayingProxy;
using gearbox::testing::PostgresServer;

PostgresSettings of_a_loop(const std::string& connection) {
  PostgresSettings settings;
  settings.connection = connection;
  settings.set_up = "SET client_min_messages TO warning";
  settings.connect_within = milliseconds{100};
  settings.pause = milliseconds{0};
  settings.connects_on_a_thread = true;
  return settings;
}

bool answers_within(Connection& database, milliseconds time) {
  const Instant begun = Clock::now();
  while (Clock::now() - begun < time) {
    if (database.run("SELECT 1")) return true;
  }
  return false;
}

TEST(PgOpening, SilentNameServersCostACallNoMoreThanItsWait) {
  {
    const auto database = connection_to(of_a_loop("host=silent.test user=x dbname=x"));
    const Instant begun = Clock::now();
    for (int i = 0; i < 3; ++i) {
      const auto away = database->run("SELECT 1");
      ASSERT_FALSE(away);
      EXPECT_EQ(away.error().code, Errc::overloaded);
    }
    EXPECT_LT(Clock::now() - begun, milliseconds{2'000});
    EXPECT_TRUE(silence.somebody_asks(milliseconds{10'000})) << "the name was never asked for";
  }  // nor does its end wait
  EXPECT_TRUE(silence.end());
}

TEST(PgOpening, AServerThatRefusesIsToldWithItsReasonAndTriedAgain) {
  const gearbox::testing::TempDir nobody;
  PgOpening opening("host=" + nobody.path().string() + " user=x dbname=x", "SET client_min_messages TO warning");
  for (int i = 0; i < 2; ++i) {
    const auto refused = opening.take(after(Clock::now(), milliseconds{10'000}));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::overloaded);
    EXPECT_NE(refused.error().detail.find("No such file"), std::string::npos) << refused.error().detail;
  }
}

TEST(PgOpening, PostgresIsReachedFromFarAwayAndAgainAfterACut) {
  if (const std::string missing = PostgresServer::get().missing(); !missing.empty()) GTEST_SKIP() << missing;
  const DelayingProxy far(PostgresServer::get().socket(), milliseconds{150});
  const auto database =
      connection_to(of_a_loop("host=127.0.0.1 sslmode=disable gssencmode=disable user=gearbox dbname=postgres port=" +
                              std::to_string(far.port())));
  EXPECT_TRUE(answers_within(*database, milliseconds{10'000}));
  EXPECT_FALSE(database->run("SELECT pg_terminate_backend(pg_backend_pid())"));
  EXPECT_TRUE(answers_within(*database, milliseconds{10'000}));
}

}  // namespace
}  // namespace gearbox::sql
