#include "journal/journal.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <future>
#include <map>
#include <random>

#include "journal/payloads.hpp"

namespace gearbox::journal::test {
namespace {

constexpr std::uint64_t kLarge = kRowBytes + 1;

RequestKey key_of(std::uint32_t number) {
  RequestKey key;
  std::memcpy(key.device.bytes.data(), "a device", 8);
  std::memcpy(key.id.bytes.data(), &number, sizeof number);
  return key;
}

/// Bytes that no two requests have in common.
Bytes payload(std::uint32_t number, std::size_t size) {
  Bytes bytes(size);
  std::mt19937 random(number);
  std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<std::byte>(random()); });
  return bytes;
}

class JournalTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "gearbox-journal-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    scratch_ = name;
    setup_.folder = scratch_ / "journal";
  }
  void TearDown() override {
    journal_.reset();
    std::filesystem::remove_all(scratch_);
  }
  void open() {
    journal_.reset();
    auto opened = Journal::open(setup_);
    ASSERT_TRUE(opened) << describe(opened.error());
    journal_ = std::move(opened).value();
  }
  Outcome<void> accept(std::uint32_t number, const Bytes& bytes, const std::string& head = "head") {
    std::promise<Outcome<void>> told;
    // Two views: an input of several tensors.
    const ByteView all(bytes);
    const std::size_t half = bytes.size() / 2;
    journal_->accept({key_of(number), head, {all.first(half), all.subspan(half)}},
                     [&](Outcome<void> outcome) { told.set_value(std::move(outcome)); });
    return told.get_future().get();
  }
  Outcome<bool> settle(std::uint32_t number, const Bytes& bytes, const std::string& head = "result", bool ok = true) {
    std::promise<Outcome<bool>> told;
    journal_->settle({key_of(number), ok, head, {ByteView(bytes)}},
                     [&](Outcome<bool> outcome) { told.set_value(std::move(outcome)); });
    return told.get_future().get();
  }
  Outcome<Found> fetch(std::uint32_t number) { return fetch_from(*journal_, key_of(number)); }
  static Outcome<Found> fetch_from(Journal& journal, const RequestKey& key) {
    std::promise<Outcome<Found>> told;
    journal.fetch(key, [&](Outcome<Found> found) { told.set_value(std::move(found)); });
    return told.get_future().get();
  }
  /// What was asked before has been done.
  void barrier() { ASSERT_FALSE(settle(999'999, {}).value()); }
  std::size_t payload_files() const {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(setup_.folder)) {
      count += entry.path().filename().string().starts_with("payload-") ? 1 : 0;
    }
    return count;
  }

  std::filesystem::path scratch_;
  Journal::Setup setup_;
  std::unique_ptr<Journal> journal_;
};

TEST_F(JournalTest, WhatWasAcceptedIsThereForTheNextProcessWithItsBytes) {
  open();
  EXPECT_TRUE(journal_->kept().empty());
  const std::vector<std::size_t> sizes{0, 1, 1000, kRowBytes, kLarge, 3'000'000};
  for (std::uint32_t i = 0; i < sizes.size(); ++i) {
    ASSERT_TRUE(accept(i, payload(i, sizes[i]), "head " + std::to_string(i)));
  }
  open();
  ASSERT_EQ(journal_->kept().size(), sizes.size());
  for (std::uint32_t i = 0; i < sizes.size(); ++i) {
    const Kept& kept = journal_->kept()[i];
    EXPECT_EQ(kept.key, key_of(i)) << "in the order in which they came";
    EXPECT_EQ(kept.head, "head " + std::to_string(i));
    EXPECT_FALSE(kept.settled);
    EXPECT_EQ(kept.input_bytes, sizes[i]);
    const auto found = fetch(i);
    ASSERT_TRUE(found) << describe(found.error());
    EXPECT_EQ(found.value().bytes, payload(i, sizes[i]));
    EXPECT_EQ(found.value().kept.head, kept.head);
    EXPECT_FALSE(found.value().kept.settled);
  }
  EXPECT_EQ(payload_files(), 2U);
  EXPECT_EQ(fetch(77).error().code, Errc::not_found);
}

TEST_F(JournalTest, TheFirstResultStandsAndALaterOneIsToldSo) {
  open();
  ASSERT_TRUE(accept(1, payload(1, 10)));
  EXPECT_TRUE(settle(1, payload(11, 20), "first").value());
  EXPECT_FALSE(settle(1, payload(12, 20), "second", false).value());
  EXPECT_FALSE(settle(2, {}, "of a request that was never accepted").value());
  open();
  ASSERT_EQ(journal_->kept().size(), 1U);
  EXPECT_TRUE(journal_->kept()[0].settled);
  EXPECT_TRUE(journal_->kept()[0].ok);
  EXPECT_EQ(journal_->kept()[0].result, "") << "read when somebody asks for it";
  const auto found = fetch(1);
  ASSERT_TRUE(found) << describe(found.error());
  EXPECT_EQ(found.value().bytes, payload(11, 20));
  EXPECT_EQ(found.value().kept.result, "first");
  EXPECT_EQ(found.value().kept.input_bytes, 0U) << "nobody needs the inputs of what is answered";
  EXPECT_FALSE(settle(1, payload(12, 20), "of the next process").value());
}

TEST_F(JournalTest, CountsHowOftenItWasOpenedWithARequestUnsettled) {
  open();
  ASSERT_TRUE(accept(1, {}));
  ASSERT_TRUE(accept(2, {}));
  open();
  EXPECT_EQ(journal_->kept()[0].openings, 1U);
  ASSERT_TRUE(settle(1, {}).value());
  open();
  EXPECT_EQ(journal_->kept()[0].openings, 1U);
  EXPECT_EQ(journal_->kept()[1].openings, 2U);
}

TEST_F(JournalTest, AProcessThatEndsInOrderIsNotCounted) {
  open();
  ASSERT_TRUE(accept(1, {}));
  for (int i = 0; i < 3; ++i) {
    open();
    EXPECT_EQ(journal_->kept()[0].openings, 1U) << i;
    journal_->ends_in_order();
  }
  open();
  open();  // as after a kill
  EXPECT_EQ(journal_->kept()[0].openings, 2U);
}

TEST_F(JournalTest, WhatIsForgottenIsGoneAndItsFilesAreUsedAgain) {
  open();
  for (std::uint32_t i = 0; i < 20; ++i) {
    ASSERT_TRUE(accept(i, payload(i, kLarge)));
    ASSERT_TRUE(settle(i, payload(100 + i, kLarge)).value());
    journal_->forget(key_of(i));
    barrier();
  }
  EXPECT_EQ(payload_files(), 2U) << "one for the input, one for the result";
  const Counters counters = journal_->counters();
  EXPECT_EQ(counters.requests, 0U);
  EXPECT_EQ(counters.bytes, 0U);
  EXPECT_EQ(counters.forgotten, 20U);
  ASSERT_TRUE(accept(50, payload(50, kLarge)));
  open();
  ASSERT_EQ(journal_->kept().size(), 1U);
  EXPECT_EQ(fetch(50).value().bytes, payload(50, kLarge)) << "not those of whoever had the payload file before";
}

TEST_F(JournalTest, TheSameRequestAcceptedAgainIsTheSameRequest) {
  open();
  ASSERT_TRUE(accept(1, payload(1, kLarge)));
  ASSERT_TRUE(accept(1, payload(2, kLarge)));
  EXPECT_EQ(journal_->counters().repeated, 1U);
  EXPECT_EQ(journal_->counters().requests, 1U);
  open();
  EXPECT_EQ(fetch(1).value().bytes, payload(1, kLarge));
}

TEST_F(JournalTest, WhatHasNoRoomIsRefusedTruthfully) {
  setup_.max_bytes = 1 << 20;
  open();
  ASSERT_TRUE(accept(1, payload(1, 600'000)));
  const auto refused = accept(2, payload(2, 600'000));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::no_space);
  ASSERT_TRUE(settle(1, payload(3, 600'000)).value()) << "a result is not refused for want of room";
  journal_->forget(key_of(1));
  ASSERT_TRUE(accept(2, payload(2, 600'000)));
  open();
  ASSERT_EQ(journal_->kept().size(), 1U);
  EXPECT_EQ(journal_->kept()[0].key, key_of(2));
}

TEST_F(JournalTest, WhatIsForgottenMakesRoomForWhatComesNext) {
  setup_.max_bytes = 1 << 20;
  open();
  ASSERT_TRUE(accept(1, payload(1, 600'000)));
  std::promise<void> both_asked;
  journal_->fetch(key_of(1), [&](const Outcome<Found>&) { both_asked.get_future().wait(); });
  journal_->forget(key_of(1));  // these two are taken together, while the journal's thread waits
  std::promise<Outcome<void>> told;
  const Bytes bytes = payload(2, 600'000);
  journal_->accept({key_of(2), "head", {ByteView(bytes)}},
                   [&](Outcome<void> outcome) { told.set_value(std::move(outcome)); });
  both_asked.set_value();
  const Outcome<void> taken = told.get_future().get();
  EXPECT_TRUE(taken) << describe(taken.error());
}

TEST_F(JournalTest, ManyAtOnceShareTheirCommits) {
  open();
  constexpr std::uint32_t kMany = 500;
  const Bytes bytes = payload(1, 100);
  std::atomic<std::uint32_t> durable{0};
  std::promise<void> all;
  for (std::uint32_t i = 0; i < kMany; ++i) {
    journal_->accept({key_of(i), "head", {ByteView(bytes)}}, [&](const Outcome<void>& outcome) {
      EXPECT_TRUE(outcome);
      if (++durable == kMany) all.set_value();
    });
  }
  all.get_future().get();
  EXPECT_LT(journal_->counters().commits, kMany / 2);
  setup_.level = Level::always;
  open();
  EXPECT_EQ(journal_->kept().size(), kMany);
  for (std::uint32_t i = 0; i < 20; ++i) ASSERT_TRUE(settle(i, bytes).value());
  EXPECT_EQ(journal_->counters().commits, 20U);
}

/// A node that is killed at any moment: what it was told to be durable is.
TEST_F(JournalTest, WhatWasAcknowledgedSurvivesAKill) {
  constexpr int kRounds = 8;
  std::uint32_t next = 0;
  std::map<std::uint32_t, bool> expected;  // number → is it settled
  for (int round = 0; round < kRounds; ++round) {
    int pipe_ends[2];
    ASSERT_EQ(::pipe(pipe_ends), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      auto opened = Journal::open(setup_);
      if (!opened) ::_exit(1);
      std::vector<Bytes> held;
      for (std::uint32_t i = next;; ++i) {
        held.push_back(payload(i, i % 3 == 0 ? kLarge : 500));
        const auto say = [&, i](std::uint32_t what) {
          const std::uint32_t words[2] = {i, what};
          if (::write(pipe_ends[1], words, sizeof words) != sizeof words) ::_exit(1);
        };
        std::promise<void> told;
        opened.value()->accept({key_of(i), "head", {ByteView(held.back())}}, [&](const Outcome<void>& outcome) {
          if (!outcome) ::_exit(1);
          say(0);
          told.set_value();
        });
        told.get_future().get();
        if (i % 2 == 0) continue;
        opened.value()->settle({key_of(i), true, "result", {ByteView(held.back())}}, [say](const Outcome<bool>& first) {
          if (!first || !first.value()) ::_exit(1);
          say(1);
        });
      }
    }
    ::close(pipe_ends[1]);
    const int wanted = 5 + round * 7;
    std::uint32_t words[2];
    for (int heard = 0; heard < wanted; ++heard) {
      ASSERT_EQ(::read(pipe_ends[0], words, sizeof words), static_cast<ssize_t>(sizeof words));
      expected[words[0]] = expected[words[0]] || words[1] == 1;
    }
    ::kill(child, SIGKILL);
    while (::read(pipe_ends[0], words, sizeof words) == static_cast<ssize_t>(sizeof words)) {
      expected[words[0]] = expected[words[0]] || words[1] == 1;
    }
    ::close(pipe_ends[0]);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "it had to be killed";
    open();
    std::map<std::uint32_t, Kept> kept;
    for (const Kept& one : journal_->kept()) {
      std::uint32_t number = 0;
      std::memcpy(&number, one.key.id.bytes.data(), sizeof number);
      kept[number] = one;
      next = std::max(next, number + 1);
    }
    for (const auto& [number, settled] : expected) {
      ASSERT_TRUE(kept.contains(number)) << number;
      EXPECT_TRUE(!settled || kept[number].settled) << number;
      // A settled one holds its answer, which here is what was sent.
      EXPECT_EQ(fetch(number).value().bytes, payload(number, number % 3 == 0 ? kLarge : 500));
    }
    journal_.reset();
  }
}

/// A power cut: of the log any beginning may have reached the disk, or zeros instead of its end.
TEST_F(JournalTest, ALogThatIsCutAnywhereOpensWithABeginningOfWhatWasWritten) {
  open();
  constexpr std::uint32_t kMany = 4;
  for (std::uint32_t i = 0; i < kMany; ++i) ASSERT_TRUE(accept(i, payload(i, 300)));
  // As it lies there while it is open: closing would fold the log into the database.
  const std::filesystem::path as_it_was = scratch_ / "as-it-was";
  std::filesystem::copy(setup_.folder, as_it_was);
  journal_.reset();
  const auto log_bytes = std::filesystem::file_size(as_it_was / "journal.db-wal");
  ASSERT_GT(log_bytes, 4096U);
  // long.journal_cut_at_every_byte says 1.
  const char* const told = std::getenv("GEARBOX_CUT_STEP");
  const std::uintmax_t step = told != nullptr ? std::strtoull(told, nullptr, 10) : 1013;
  ASSERT_GT(step, 0U);
  std::size_t whole = 0;
  const auto check = [&](std::uintmax_t at) {
    auto opened = Journal::open(setup_);
    ASSERT_TRUE(opened) << at << ": " << describe(opened.error());
    const std::vector<Kept>& kept = opened.value()->kept();
    for (std::uint32_t i = 0; i < kept.size(); ++i) {
      EXPECT_EQ(kept[i].key, key_of(i)) << at;
      EXPECT_EQ(fetch_from(*opened.value(), key_of(i)).value().bytes, payload(i, 300)) << at;
    }
    whole += kept.size() == kMany ? 1 : 0;
  };
  for (const bool zeros : {false, true}) {
    for (std::uintmax_t at = 0; at <= log_bytes;
         at += at == log_bytes ? 1 : std::min<std::uintmax_t>(step, log_bytes - at)) {
      std::filesystem::remove_all(setup_.folder);
      std::filesystem::copy(as_it_was, setup_.folder);
      std::filesystem::remove(setup_.folder / "journal.db-shm");
      std::filesystem::resize_file(setup_.folder / "journal.db-wal", at);
      if (zeros) std::filesystem::resize_file(setup_.folder / "journal.db-wal", log_bytes);
      check(at);
    }
  }
  EXPECT_GE(whole, 2U) << "the uncut ones";
}

TEST_F(JournalTest, ADamagedOneIsSetAsideWithItsFilesAndSaidSo) {
  for (const bool zeros : {true, false}) {
    open();
    ASSERT_TRUE(accept(1, payload(1, kLarge)));
    journal_.reset();
    std::fstream file(setup_.folder / "journal.db", std::ios::in | std::ios::out | std::ios::binary);
    const std::string bad(zeros ? 8192 : 60, zeros ? '\0' : 'x');
    file.write(bad.data(), static_cast<std::streamsize>(bad.size()));
    file.close();
    open();
    EXPECT_TRUE(journal_->kept().empty());
    const std::filesystem::path aside = journal_->counters().set_aside;
    ASSERT_FALSE(aside.empty());
    EXPECT_TRUE(std::filesystem::exists(aside / "journal.db"));
    EXPECT_TRUE(std::filesystem::exists(aside / "payload-1")) << "what it named is kept with it";
    ASSERT_TRUE(accept(1, payload(2, kLarge)));
    journal_->forget(key_of(1));
  }
}

/// SQLite takes an empty file for a new database, whatever its log holds.
TEST_F(JournalTest, AnEmptiedOneBesideItsLogIsDamagedNotNew) {
  open();
  ASSERT_TRUE(accept(1, payload(1, 100)));
  const std::filesystem::path as_it_was = scratch_ / "as-it-was";
  std::filesystem::copy(setup_.folder, as_it_was);
  for (const bool removed : {false, true}) {
    journal_.reset();
    std::filesystem::remove_all(setup_.folder);
    std::filesystem::copy(as_it_was, setup_.folder);
    std::filesystem::resize_file(setup_.folder / "journal.db", 0);
    if (removed) std::filesystem::remove(setup_.folder / "journal.db");
    open();
    EXPECT_TRUE(journal_->kept().empty());
    EXPECT_FALSE(journal_->counters().set_aside.empty());
    ASSERT_TRUE(accept(1, payload(1, 100)));
  }
}

TEST_F(JournalTest, WhatItHoldsIsCountedInBytesAndComesToNothing) {
  open();
  const std::string head = "ゆきの上のしか";
  for (std::uint32_t i = 0; i < 5; ++i) {
    ASSERT_TRUE(accept(i, payload(i, 1000), head));
    ASSERT_TRUE(settle(i, payload(i, 70'000), head).value());
  }
  const std::uint64_t held = journal_->counters().bytes;
  EXPECT_EQ(held, 5 * (70'000 + 256 + 2 * head.size()));
  open();
  EXPECT_EQ(journal_->counters().bytes, held);
  for (std::uint32_t i = 0; i < 5; ++i) journal_->forget(key_of(i));
  barrier();
  EXPECT_EQ(journal_->counters().bytes, 0U);
}

TEST_F(JournalTest, AnAnswersAgeGoesOnOverProcesses) {
  open();
  ASSERT_TRUE(accept(1, {}));
  ASSERT_TRUE(settle(1, {}).value());
  milliseconds age{0};
  for (int process = 0; process < 3; ++process) {
    const Instant until = Clock::now() + milliseconds(21);
    while (Clock::now() < until) barrier();  // it runs
    open();
    EXPECT_GE(journal_->kept()[0].age, age + milliseconds(20));
    age = journal_->kept()[0].age;
  }
}

TEST_F(JournalTest, BytesThatChangedOnTheDiskAreNotPassedOn) {
  open();
  ASSERT_TRUE(accept(1, payload(1, kLarge)));
  journal_.reset();
  {
    std::fstream file(setup_.folder / "payload-1", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(1000);
    file.put(static_cast<char>(payload(1, kLarge)[1000] ^ std::byte{1}));
  }
  open();
  EXPECT_EQ(fetch(1).error().code, Errc::corrupt_data);
  journal_.reset();
  std::filesystem::resize_file(setup_.folder / "payload-1", 10);
  open();
  EXPECT_EQ(fetch(1).error().code, Errc::corrupt_data);
  std::filesystem::remove(setup_.folder / "payload-1");
  EXPECT_EQ(fetch(1).error().code, Errc::corrupt_data);
}

/// A disk that is full, by the one way that needs no mount: no file of this process may grow.
class FullDisk {
 public:
  FullDisk() : before_(::signal(SIGXFSZ, SIG_IGN)) {
    EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &limit_), 0);
    struct rlimit none = limit_;
    none.rlim_cur = 4096;
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &none), 0);
  }
  ~FullDisk() {
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &limit_), 0);
    ::signal(SIGXFSZ, before_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  struct rlimit limit_ {};
  void (*before_)(int);
};

/// What cannot be forgotten for now holds up nobody, and is tried no oftener than once a second.
TEST_F(JournalTest, WhileTheDiskIsFullEverybodyIsAnswered) {
  for (const Level level : {Level::always, Level::batch}) {
    setup_.level = level;
    setup_.max_bytes = 1 << 20;
    setup_.folder = scratch_ / ("journal-" + std::to_string(static_cast<int>(level)));
    open();
    ASSERT_TRUE(accept(1, payload(1, 600'000)));
    {
      const FullDisk full;
      const std::uint64_t before = journal_->counters().failed;
      journal_->forget(key_of(1));
      const auto refused = accept(2, payload(2, 600'000));  // has no room as long as the other one is there
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.error().code, Errc::no_space);
      EXPECT_FALSE(settle(1, payload(3, 100)));
      constexpr int kReads = 200;
      for (int i = 0; i < kReads; ++i) EXPECT_TRUE(fetch(1)) << "reading needs no room";
      EXPECT_LT(journal_->counters().failed - before, 20U) << "it does not try without end, nor for each that reads";
    }
    EXPECT_TRUE(accept(4, payload(4, 100)));
    open();
    ASSERT_EQ(journal_->kept().size(), 1U) << "forgotten in the end";
    EXPECT_EQ(journal_->kept()[0].key, key_of(4));
  }
}

TEST_F(JournalTest, AFullDiskIsSaidAndOverWhenThereIsRoomAgain) {
  open();
  ASSERT_TRUE(accept(1, payload(1, 100)));
  std::optional<FullDisk> full(std::in_place);
  journal_->forget(key_of(1));  // nobody waits for this, and it is not lost
  const auto small = accept(2, payload(2, 100));
  const auto large = accept(3, payload(3, kLarge));
  full.reset();
  EXPECT_FALSE(small);
  ASSERT_FALSE(large);
  EXPECT_EQ(payload_files(), 0U) << "half a file does not keep a full disk full";
  EXPECT_EQ(large.error().code, Errc::no_space);
  EXPECT_FALSE(journal_->counters().last_error.empty());
  EXPECT_TRUE(accept(2, payload(2, 100)));
  EXPECT_TRUE(accept(3, payload(3, kLarge)));
  EXPECT_TRUE(journal_->counters().last_error.empty());
  open();
  EXPECT_EQ(journal_->kept().size(), 2U);
}

}  // namespace
}  // namespace gearbox::journal::test
