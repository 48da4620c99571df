// What SQLite has to look at for each report of a sink: it must not grow with what waits.
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <ranges>

#include "scripted_sink.hpp"
#include "sinks/outbox.hpp"
#include "sinks/queue.hpp"

namespace gearbox::sinks {
namespace {

constexpr std::uint32_t kMany = 50'000;

/// The steps of SQLite's machine that the dearest run of each statement took, of all connections opened meanwhile.
class Work {
 public:
  Work() {
    here() = this;
    sqlite3_auto_extension(reinterpret_cast<void (*)()>(&watch));
  }
  ~Work() {
    sqlite3_cancel_auto_extension(reinterpret_cast<void (*)()>(&watch));
    here() = nullptr;
  }
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  void begin_anew() {
    const std::lock_guard lock(mutex_);
    dearest_.clear();
  }
  std::map<std::string, int> dearest() const {
    const std::lock_guard lock(mutex_);
    return dearest_;
  }

 private:
  static Work*& here() {
    static Work* one = nullptr;
    return one;
  }
  static int watch(sqlite3* database, char** /*message*/, const void* /*routines*/) {
    return sqlite3_trace_v2(database, SQLITE_TRACE_PROFILE, &ended, nullptr);
  }
  static int ended(unsigned /*what*/, void* /*context*/, void* statement, void* /*ns*/) {
    auto* const over = static_cast<sqlite3_stmt*>(statement);
    const int steps = sqlite3_stmt_status(over, SQLITE_STMTSTATUS_VM_STEP, 1);
    if (Work* const work = here()) {
      const std::lock_guard lock(work->mutex_);
      int& most = work->dearest_[sqlite3_sql(over)];
      most = std::max(most, steps);
    }
    return 0;
  }
  mutable std::mutex mutex_;
  std::map<std::string, int> dearest_;
};

RequestKey numbered(std::uint32_t number) {
  RequestKey key;
  for (std::size_t i = 0; i < 4; ++i) key.id.bytes[i] = static_cast<std::byte>(number >> (8 * i));
  return key;
}

void fill(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  auto queue = Queue::open(folder / "queue.db");
  ASSERT_TRUE(queue) << describe(queue.error());
  ASSERT_TRUE(queue.value().begin());
  for (std::uint32_t i = 0; i < kMany; ++i) {
    ASSERT_TRUE(queue.value().put(numbered(i), "done", "{}", {"one"}, false));
  }
  ASSERT_TRUE(queue.value().commit());
}

TEST(SinkQueueWork, AReportOverManyLooksAtItsOwnEventsOnly) {
  const gearbox::testing::TempDir folder;
  ASSERT_NO_FATAL_FAILURE(fill(folder.path() / "outbox"));
  Work work;
  Latch latch;
  std::size_t batches = 0;
  const auto sink = std::make_shared<ScriptedSink>([&](const auto&) {
    latch.pass();
    return ++batches <= 20 ? plugin::Verdict{} : plugin::Verdict{plugin::Fate::later, "enough", milliseconds{60'000}};
  });
  auto opened = Outbox::open(in(folder.path(), {setup_of("one", sink)}));
  ASSERT_TRUE(opened) << describe(opened.error());
  const auto outbox = std::move(opened).value();
  EXPECT_EQ(outbox->facts().sinks.at(0).queued, kMany) << "counted at the start";
  EXPECT_GT(std::ranges::max(work.dearest() | std::views::values), static_cast<int>(kMany)) << "this test sees a scan";
  work.begin_anew();
  latch.open();
  ASSERT_TRUE(sink->wait_for_calls(21));
  ASSERT_TRUE(comes_true([&] { return outbox->facts().sinks.at(0).queued == kMany - 20 * 64; }));
  EXPECT_EQ(outbox->facts().sinks.at(0).queued_bytes, (kMany - 20 * 64) * 2U);
  const std::map<std::string, int> dearest = work.dearest();
  EXPECT_TRUE(dearest.contains("COMMIT"));
  for (const auto& [sql, steps] : dearest) EXPECT_LT(steps, 5000) << sql;
}

}  // namespace
}  // namespace gearbox::sinks
