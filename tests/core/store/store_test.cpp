#include "store/store.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>
#include <thread>

#include "support/temp_dir.hpp"

namespace gearbox::store {
namespace {

using testing::TempDir;

/// Counts the `written` calls, and waits for them.
class Written {
 public:
  std::function<void()> one() {
    return [this] {
      const std::lock_guard lock(mutex_);
      ++count_;
      changed_.notify_all();
    };
  }
  bool wait_for(int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return count_ >= count; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
};

/// The bytes that items view: the store reads them on its own thread, perhaps after a test's own variables are gone.
const std::string& kept(const std::string& bytes) {
  static std::deque<std::string> all;
  return all.emplace_back(bytes);
}

Item item(unsigned char number, const std::string& its_input, const std::string& its_output) {
  const std::string& input = kept(its_input);
  const std::string& output = kept(its_output);
  Item out;
  out.key.id.bytes[0] = std::byte{number};
  out.key.device.bytes[0] = std::byte{7};
  out.user = "anna";
  out.task = "read-text";
  out.node = "node-1";
  out.ok = true;
  out.inputs = {{.name = "image",
                 .dtype = wire::DType::uint8,
                 .shape = {static_cast<std::int64_t>(input.size())},
                 .bytes = input.size()}};
  out.input_bytes = {view_of(input)};
  out.outputs = {{.name = "lines",
                  .dtype = wire::DType::uint8,
                  .shape = {static_cast<std::int64_t>(output.size())},
                  .bytes = output.size()}};
  // In two pieces, as a gathered list comes.
  out.output_bytes = {view_of(output).first(output.size() / 2), view_of(output).subspan(output.size() / 2)};
  return out;
}

std::string content(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::size_t files_in(const std::filesystem::path& folder) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const auto ending = entry.path().extension();
    if (ending == ".in" || ending == ".out" || ending == ".part") ++files;
  }
  return files;
}

/// Something to sweep in the folder that is swept last: made before a store opens, gone when its sweep is over.
std::filesystem::path leave_marker(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder / "ff");
  const auto marker = folder / "ff" / "0700000000000000-ff.in.part";
  std::ofstream(marker) << "left over";
  return marker;
}
bool wait_until_gone(const std::filesystem::path& file) {
  const Instant give_up = Clock::now() + seconds(20);
  while (std::filesystem::exists(file) && Clock::now() < give_up) std::this_thread::yield();
  return !std::filesystem::exists(file);
}

TEST(ResultStore, KeepsInputAndResultWhereAnotherProcessFindsThem) {
  const TempDir folder;
  const std::string input = "raw picture";
  const std::string output = "HERD 0417";
  Written written;
  auto store = ResultStore::open(folder.path(), {});
  ASSERT_TRUE(store) << describe(store.error());
  store.value()->put(item(0xAB, input, output), written.one());
  ASSERT_TRUE(written.wait_for(1));

  const auto row = find(folder.path(), "ab00");
  ASSERT_TRUE(row) << describe(row.error());
  EXPECT_EQ(content(row.value().input_file), input);
  EXPECT_EQ(content(row.value().output_file), output);
  EXPECT_TRUE(row.value().ok);
  EXPECT_EQ(row.value().user, "anna");
  EXPECT_NE(row.value().outputs_json.find("\"lines\""), std::string::npos);
}

TEST(ResultStore, ListsNewestFirstAndByTask) {
  const TempDir folder;
  Written written;
  {
    auto store = ResultStore::open(folder.path(), {});
    ASSERT_TRUE(store);
    for (unsigned char i = 1; i <= 3; ++i) {
      Item one = item(i, "x", "yy");
      if (i == 2) one.task = "other";
      store.value()->put(std::move(one), written.one());
    }
  }  // the destructor finishes what is queued
  const auto all = list(folder.path(), "", 10);
  ASSERT_TRUE(all);
  ASSERT_EQ(all.value().size(), 3U);
  EXPECT_EQ(all.value().front().request.substr(0, 2), "03");
  const auto some = list(folder.path(), "other", 10);
  ASSERT_TRUE(some);
  ASSERT_EQ(some.value().size(), 1U);
  EXPECT_EQ(some.value().front().request.substr(0, 2), "02");
}

TEST(ResultStore, RemovesTheOldestWhenThereIsTooMuch) {
  const TempDir folder;
  config::StoreConfig config;
  config.max_bytes = 2500;
  const std::string input(900, 'i');  // they outlive the store, which reads them on its own thread
  const std::string output(100, 'o');
  Written written;
  {
    auto store = ResultStore::open(folder.path(), config);
    ASSERT_TRUE(store);
    for (unsigned char i = 1; i <= 5; ++i) store.value()->put(item(i, input, output), written.one());
    ASSERT_TRUE(written.wait_for(5));
  }
  {
    // Tidying comes first thing after a start, if the run before did not come to it.
    auto store = ResultStore::open(folder.path(), config);
    ASSERT_TRUE(store);
    const Instant give_up = Clock::now() + seconds(20);
    const auto count = [&] {
      const auto rows = list(folder.path(), "", 10);
      return rows ? rows.value().size() : 0;
    };
    while (count() != 2 && Clock::now() < give_up) std::this_thread::yield();
  }
  const auto rows = list(folder.path(), "", 10);
  ASSERT_TRUE(rows);
  ASSERT_EQ(rows.value().size(), 2U);
  EXPECT_EQ(rows.value().back().request.substr(0, 2), "04");
  EXPECT_EQ(files_in(folder.path()), 4U);
}

TEST(ResultStore, ARequestThatRanAgainReplacesItsEarlierRun) {
  const TempDir folder;
  Written written;
  auto store = ResultStore::open(folder.path(), {});
  ASSERT_TRUE(store);
  const std::string none;
  store.value()->put(item(1, "first in", "first out"), written.one());
  store.value()->put(item(2, "other", "other"), written.one());
  store.value()->put(item(1, "second in", "second out!"), written.one());
  ASSERT_TRUE(written.wait_for(3));
  auto rows = list(folder.path(), "", 10);
  ASSERT_TRUE(rows);
  ASSERT_EQ(rows.value().size(), 2U);
  EXPECT_EQ(rows.value()[0].request.substr(0, 2), "01");  // newest again
  EXPECT_EQ(content(rows.value()[0].input_file), "second in");
  EXPECT_EQ(content(rows.value()[0].output_file), "second out!");
  EXPECT_EQ(files_in(folder.path()), 4U);
  EXPECT_EQ(store.value()->counters().bytes, 9U + 11U + 10U);

  Item failed = item(1, none, none);  // a third run that ends without anything to keep
  failed.ok = false;
  store.value()->put(std::move(failed), written.one());
  ASSERT_TRUE(written.wait_for(4));
  const auto row = find(folder.path(), "0100");
  ASSERT_TRUE(row) << describe(row.error());
  EXPECT_FALSE(row.value().ok);
  EXPECT_TRUE(row.value().input_file.empty());
  EXPECT_EQ(files_in(folder.path()), 2U);
  EXPECT_EQ(store.value()->counters().bytes, 10U);
}

TEST(ResultStore, AFailedWriteLeavesNoFilesAndTheEarlierRunWhole) {
  const TempDir folder;
  Written written;
  const auto marker = leave_marker(folder.path());
  auto store = ResultStore::open(folder.path(), {});
  ASSERT_TRUE(store);
  ASSERT_TRUE(wait_until_gone(marker));  // or the sweep might clean up after the failure
  store.value()->put(item(1, "first in", "first out"), written.one());
  ASSERT_TRUE(written.wait_for(1));
  const auto row = find(folder.path(), "0100");
  ASSERT_TRUE(row);
  // The input can be written, the result cannot: a folder has its name.
  std::string again = row.value().output_file.string();
  again.insert(again.rfind(".out"), "-again");
  std::filesystem::create_directories(std::filesystem::path(again) / "in the way");
  store.value()->put(item(1, "second in", "second out"), written.one());
  ASSERT_TRUE(written.wait_for(2));
  EXPECT_EQ(store.value()->counters().dropped, 1U);
  std::filesystem::remove_all(again);
  EXPECT_EQ(files_in(folder.path()), 2U);
  const auto still = find(folder.path(), "0100");
  ASSERT_TRUE(still);
  EXPECT_EQ(content(still.value().input_file), "first in");
  EXPECT_EQ(content(still.value().output_file), "first out");
}

TEST(ResultStore, SweepsWhatAPowerCutLeftAndNothingElse) {
  const TempDir folder;
  const std::string id = std::string("ab") + std::string(30, '0');
  {
    auto store = ResultStore::open(folder.path(), {});
    ASSERT_TRUE(store);
    Written written;
    store.value()->put(item(0xAB, "in", "out"), written.one());
    ASSERT_TRUE(written.wait_for(1));
  }
  const auto ab = folder.path() / "ab";
  const std::string device = "0700000000000000-";
  for (const std::string& name : {device + "ab11" + std::string(28, '0') + ".in", device + id + "-again.out",
                                  device + id + ".in.part", device + "ab12" + std::string(28, '0') + ".out.part"}) {
    std::ofstream(ab / name) << "left over";
  }
  std::ofstream(ab / "notes.txt") << "somebody's";
  ASSERT_EQ(files_in(folder.path()), 6U);
  const auto marker = leave_marker(folder.path());
  auto store = ResultStore::open(folder.path(), {});
  ASSERT_TRUE(store);
  EXPECT_TRUE(wait_until_gone(marker));
  store.value().reset();
  EXPECT_EQ(files_in(folder.path()), 2U);
  EXPECT_TRUE(std::filesystem::exists(ab / "notes.txt"));
  const auto row = find(folder.path(), "ab00");
  ASSERT_TRUE(row);
  EXPECT_EQ(content(row.value().input_file), "in");
  EXPECT_EQ(content(row.value().output_file), "out");
}

TEST(ResultStore, DropsAndCountsWhatThe64MiBQueueCannotHold) {
  const TempDir folder;
  const std::string mib(1 << 20, 'x');
  Written written;
  std::mutex gate;
  std::atomic<bool> at_gate{false};
  auto store = ResultStore::open(folder.path(), {});
  ASSERT_TRUE(store);
  std::unique_lock closed(gate);
  store.value()->put(item(1, "a", "b"), [&] {
    at_gate = true;
    const std::lock_guard wait(gate);  // the disk's thread stands still here
  });
  const Instant give_up = Clock::now() + seconds(20);
  while (!at_gate && Clock::now() < give_up) std::this_thread::yield();
  ASSERT_TRUE(at_gate);
  const auto of_mib = [&](unsigned char number, std::size_t count) {
    Item out = item(number, "", "");
    out.input_bytes.assign(count, view_of(mib));
    return out;
  };
  store.value()->put(of_mib(2, 65), written.one());  // alone too much
  EXPECT_EQ(store.value()->counters().dropped, 1U);
  EXPECT_NE(store.value()->counters().last_error.find("too_large"), std::string::npos);
  store.value()->put(of_mib(3, 40), written.one());
  EXPECT_EQ(store.value()->counters().dropped, 1U);
  store.value()->put(of_mib(4, 25), written.one());  // 65 MiB with the one before
  EXPECT_EQ(store.value()->counters().dropped, 2U);
  ASSERT_TRUE(written.wait_for(2));  // told at once: their memory is free again
  closed.unlock();
  ASSERT_TRUE(written.wait_for(3));
  store.value().reset();
  const auto rows = list(folder.path(), "", 10);
  ASSERT_TRUE(rows);
  EXPECT_EQ(rows.value().size(), 2U);
}

class DamagedStore : public ::testing::TestWithParam<std::string> {};

TEST_P(DamagedStore, IsSetAsideAndANewOneBegins) {
  const TempDir folder;
  {
    auto store = ResultStore::open(folder.path(), {});
    ASSERT_TRUE(store);
    Written written;
    store.value()->put(item(1, "in", "out"), written.one());
    ASSERT_TRUE(written.wait_for(1));
  }
  const auto index = folder.path() / "index.db";
  std::filesystem::remove(folder.path() / "index.db-wal");
  const auto size = std::filesystem::file_size(index);
  if (GetParam() == "zeros") {
    std::ofstream(index, std::ios::binary) << std::string(size, '\0');
  } else if (GetParam() == "cut") {
    std::filesystem::resize_file(index, size / 2 + 7);
  } else {
    std::ofstream(index, std::ios::binary)
        << "this is no database, whatever its name says, and it goes on for a while...";
  }
  auto store = ResultStore::open(folder.path(), {});
  ASSERT_TRUE(store) << describe(store.error());
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "index.db.damaged-1"));
  Written written;
  store.value()->put(item(2, "in", "out"), written.one());
  ASSERT_TRUE(written.wait_for(1));
  EXPECT_EQ(store.value()->counters().kept, 1U);
  store.value().reset();
  // The set-aside index names files: they stay with it, over the next start too.
  const auto marker = leave_marker(folder.path());
  store = ResultStore::open(folder.path(), {});
  ASSERT_TRUE(store);
  EXPECT_TRUE(wait_until_gone(marker));
  EXPECT_EQ(files_in(folder.path()), 4U);
}
INSTANTIATE_TEST_SUITE_P(Kinds, DamagedStore, ::testing::Values("zeros", "cut", "text"));

TEST(ResultStore, SaysWhenTheDiskRefusesAndGoesOnWhenItWorksAgain) {
  const TempDir folder;
  auto store = ResultStore::open(folder.path(), {});
  ASSERT_TRUE(store);
  // A file where the folder for requests "01..." would be: works for root, too, unlike a mode.
  std::ofstream(folder.path() / "01") << "in the way";
  Written written;
  store.value()->put(item(1, "in", "out"), written.one());
  ASSERT_TRUE(written.wait_for(1));
  store.value()->put(item(2, "in", "out"), written.one());  // behind it: when this is written, the first was counted
  ASSERT_TRUE(written.wait_for(2));
  EXPECT_EQ(store.value()->counters().dropped, 1U);
  std::filesystem::remove(folder.path() / "01");
  store.value()->put(item(1, "in", "out"), written.one());
  ASSERT_TRUE(written.wait_for(3));
  store.value().reset();
  const auto rows = list(folder.path(), "", 10);
  ASSERT_TRUE(rows);
  EXPECT_EQ(rows.value().size(), 2U);
}

TEST(ResultStore, NeverServesAPathThatAnIdSpells) {
  const TempDir folder;
  auto store = ResultStore::open(folder.path(), {});
  ASSERT_TRUE(store);
  for (const char* bad : {"../x", "ab", "", "%%%%", "ABCD", "abcd'"}) {
    const auto row = find(folder.path(), bad);
    ASSERT_FALSE(row) << bad;
    EXPECT_EQ(row.error().code, Errc::bad_input) << bad;
  }
  const auto none = find(folder.path(), "abcd");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Errc::not_found);
}

TEST(ResultStore, FollowsOtherLimitsWhileItRuns) {
  const TempDir folder;
  Written written;
  auto store = ResultStore::open(folder.path(), {});
  ASSERT_TRUE(store);
  for (unsigned char i = 1; i <= 5; ++i) {
    store.value()->put(item(i, std::string(1000, 'i'), std::string(1000, 'o')), written.one());
  }
  ASSERT_TRUE(written.wait_for(5));

  const auto removes = [&](std::uint64_t count) {
    const Instant end = Clock::now() + seconds(20);
    while (store.value()->counters().removed < count && Clock::now() < end) std::this_thread::yield();
    return store.value()->counters().removed == count;
  };
  config::StoreConfig limits;
  limits.max_bytes = 8500;
  store.value()->reconfigure(limits);
  ASSERT_TRUE(removes(1));  // perhaps only by the look that each start begins with
  limits.keep_inputs = false;
  limits.max_bytes = 4500;
  store.value()->reconfigure(limits);
  ASSERT_TRUE(removes(3));
  store.value()->put(item(6, std::string(1000, 'i'), std::string(10, 'o')), written.one());
  ASSERT_TRUE(written.wait_for(6));
  const auto rows = list(folder.path(), "", 10);
  ASSERT_TRUE(rows);
  ASSERT_EQ(rows.value().size(), 3U);
  EXPECT_TRUE(rows.value()[0].input_file.empty());
  EXPECT_FALSE(rows.value()[1].input_file.empty());
}

}  // namespace
}  // namespace gearbox::store
