// What the queue holds when its process is killed: its files are copied while it is at work, and opened by another one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <iterator>

#include "scripted_sink.hpp"
#include "sinks/outbox.hpp"

namespace gearbox::sinks {
namespace {

namespace fs = std::filesystem;

class SinkCrash : public ::testing::Test {
 protected:
  Outbox::Setup setup(std::shared_ptr<plugin::Sink> sink) {
    return in(folder_.path(), {setup_of("one", std::move(sink))});
  }
  static std::unique_ptr<Outbox> open(Outbox::Setup setup) {
    auto opened = Outbox::open(std::move(setup));
    EXPECT_TRUE(opened) << describe(opened.error());
    return std::move(opened).value();
  }
  /// As a kill at this moment would leave it.
  void copy_now() {
    fs::create_directories(copy_.path() / "outbox");
    for (const auto& entry : fs::directory_iterator(folder_.path() / "outbox")) {
      if (entry.path().extension() == ".db-shm") continue;  // an index of the log, made anew
      fs::copy_file(entry.path(), copy_.path() / "outbox" / entry.path().filename());
    }
  }
  gearbox::testing::TempDir folder_, copy_;
};

TEST_F(SinkCrash, WhatWasWrittenIsDeliveredByTheNextProcess) {
  const auto outbox = open(setup(absent_sink()));
  for (std::uint8_t i = 0; i < 40; ++i) outbox->put(event_of(i));
  ASSERT_TRUE(comes_true([&] { return outbox->facts().handed_over == 0; }));
  copy_now();
  const auto sink = good_sink();
  const auto next = open(in(copy_.path(), {setup_of("one", sink)}));
  EXPECT_EQ(sink->wait_for(40), names(0, 40));
}

TEST_F(SinkCrash, ARequestIsLetGoOfOnlyBehindItsEvent) {
  Outbox::Setup with_journal = setup(absent_sink());
  std::atomic<int> let_go{0};
  with_journal.let_go = [&](const RequestKey& key) {
    EXPECT_EQ(key, key_of(1));
    if (let_go == 0) copy_now();  // a kill right behind the journal's last word
    ++let_go;
  };
  const auto outbox = open(std::move(with_journal));
  outbox->put(event_of(1));
  outbox->forget(key_of(1));
  ASSERT_TRUE(comes_true([&] { return let_go > 0; }));
  const auto sink = good_sink();
  const auto next = open(in(copy_.path(), {setup_of("one", sink)}));
  EXPECT_EQ(sink->wait_for(1), names(1, 2));
  EXPECT_TRUE(comes_true([&] { return outbox->facts().handed_over == 0; }));
  EXPECT_EQ(let_go, 1);
}

TEST_F(SinkCrash, TheNextProcessKnowsWhichEventsWereWritten) {
  const auto let_go = [](const RequestKey&) {};
  {
    const auto sink = good_sink();
    Outbox::Setup with_journal = setup(sink);
    with_journal.let_go = let_go;
    const auto outbox = open(std::move(with_journal));
    outbox->put(event_of(1));
    outbox->put(event_of(2));
    EXPECT_EQ(sink->wait_for(2).size(), 2U);
    outbox->forget(key_of(1));
  }
  const auto sink = good_sink();
  Outbox::Setup with_journal = setup(sink);
  with_journal.let_go = let_go;
  const auto next = open(std::move(with_journal));
  EXPECT_EQ(next->known(), std::vector<RequestKey>{key_of(2)});
  next->put(event_of(2));  // told once more
  next->put(event_of(3));
  EXPECT_EQ(sink->wait_for(1), names(3, 4)) << "it is known, and was delivered";
}

TEST_F(SinkCrash, ALetterIsWrittenOnceThoughTheQueuesDiskIsFullForAWhile) {
  Outbox::Setup small = setup(absent_sink());
  small.sinks.front().config.max_events = 40;
  const auto outbox = open(std::move(small));
  for (std::uint8_t i = 0; i < 40; ++i) {  // one by one: the database's log is far longer than a letter afterwards
    outbox->put(event_of(i));
    ASSERT_TRUE(comes_true([&] { return outbox->facts().handed_over == 0; }));
  }
  const fs::path log = folder_.path() / "outbox/queue.db-wal";
  ASSERT_GT(fs::file_size(log), 64U << 10);
  const auto before = ::signal(SIGXFSZ, SIG_IGN);
  struct rlimit limit {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  struct rlimit none = limit;
  none.rlim_cur = 64U << 10;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &none), 0);
  outbox->put(event_of(40));  // one too many: a letter
  const bool failed = comes_true([&] { return !outbox->facts().last_error.empty(); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  ::signal(SIGXFSZ, before);
  ASSERT_TRUE(failed);
  ASSERT_TRUE(comes_true([&] { return outbox->facts().handed_over == 0; }));
  EXPECT_EQ(outbox->facts().sinks.front().dead_letters, 1U);
  std::ifstream file(folder_.path() / "sinks/one/dead.ndjson");
  std::string line;
  int lines = 0;
  while (std::getline(file, line)) ++lines;
  EXPECT_EQ(lines, 1);
}

TEST_F(SinkCrash, ADamagedQueueIsSetAside) {
  { const auto outbox = open(setup(absent_sink())); }
  const fs::path file = folder_.path() / "outbox/queue.db";
  const auto size = fs::file_size(file);
  std::ofstream(file, std::ios::binary | std::ios::trunc) << std::string(size, 'x');
  const auto sink = good_sink();
  const auto next = open(setup(sink));
  EXPECT_EQ(next->facts().set_aside, folder_.path() / "outbox.damaged-1");
  EXPECT_TRUE(fs::exists(next->facts().set_aside / "queue.db"));
  next->put(event_of(1));
  EXPECT_EQ(sink->wait_for(1), names(1, 2));
}

TEST_F(SinkCrash, EventsOfASinkThatIsConfiguredNoMoreBecomeDeadLetters) {
  {
    const auto outbox = open(setup(absent_sink()));
    for (std::uint8_t i = 0; i < 3; ++i) outbox->put(event_of(i));
    ASSERT_TRUE(comes_true([&] { return outbox->facts().sinks.at(0).queued == 3; }));
  }
  { const auto next = open(in(folder_.path(), {setup_of("other", good_sink())})); }
  std::ifstream file(folder_.path() / "sinks/one/dead.ndjson");
  const std::string lines{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(std::ranges::count(lines, '\n'), 3);
  const auto sink = good_sink();
  const auto back = open(setup(sink));
  EXPECT_EQ(back->facts().sinks.at(0).queued, 0U);
}

TEST_F(SinkCrash, EventsThatCannotEvenBecomeDeadLettersStayAndTheNodeStarts) {
  {
    const auto outbox = open(setup(absent_sink()));
    for (std::uint8_t i = 0; i < 3; ++i) outbox->put(event_of(i));
    ASSERT_TRUE(comes_true([&] { return outbox->facts().sinks.at(0).queued == 3; }));
  }
  fs::remove_all(folder_.path() / "sinks/one");
  std::ofstream(folder_.path() / "sinks/one") << "no folder";
  {
    const auto sink = good_sink();
    const auto next = open(in(folder_.path(), {setup_of("other", sink)}));
    const std::map<std::string, std::uint64_t> stranded{{"one", 3}};
    EXPECT_EQ(next->facts().stranded, stranded);
    next->put(event_of(7));
    EXPECT_EQ(sink->wait_for(1), names(7, 8)) << "the others are not held up";
  }
  fs::remove(folder_.path() / "sinks/one");
  const auto sink = good_sink();
  const auto back = open(setup(sink));
  EXPECT_EQ(sink->wait_for(3), names(0, 3)) << "nothing was lost";
  EXPECT_TRUE(back->facts().stranded.empty());
}

}  // namespace
}  // namespace gearbox::sinks
