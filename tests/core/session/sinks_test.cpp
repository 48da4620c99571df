// What sinks hear of requests, over the death of the node's process at the worst of times.
#include <map>
#include <mutex>
#include <thread>

#include "core/session/node_fixture.hpp"
#include "session/written.hpp"
#include "sinks/outbox.hpp"

namespace gearbox::session {
namespace {

using wire::FrameType;

/// Remembers what it was given: requests and their states; from the outbox's own thread.
class Listening final : public plugin::Sink {
 public:
  Outcome<void> open(const plugin::SinkPlace&) override { return done(); }
  plugin::Verdict deliver(std::span<const plugin::EventView> events, Instant) override {
    const std::lock_guard lock(mutex_);
    for (const plugin::EventView& event : events) {
      ++heard_[std::string(event.request) + " " + std::string(event.state)];
      results_.emplace_back(event.result_json);
      times_.emplace_back(event.accepted_unix_ms, event.finished_unix_ms);
      input_bytes_.push_back(event.input_bytes);
    }
    return {};
  }
  std::map<std::string, int> heard() const {
    const std::lock_guard lock(mutex_);
    return heard_;
  }
  std::vector<std::string> results() const {
    const std::lock_guard lock(mutex_);
    return results_;
  }
  std::vector<std::pair<std::int64_t, std::int64_t>> times() const {
    const std::lock_guard lock(mutex_);
    return times_;
  }
  std::vector<std::uint64_t> input_bytes() const {
    const std::lock_guard lock(mutex_);
    return input_bytes_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::pair<std::int64_t, std::int64_t>> times_;
  std::vector<std::uint64_t> input_bytes_;
  std::map<std::string, int> heard_;
  std::vector<std::string> results_;
};

class SinksOfRequests : public NodeFixture {
 protected:
  ~SinksOfRequests() override { end_process(); }

  void begin(bool with_sink, const std::vector<std::string>& models = {"echo", "fail"}) {
    journal::Journal::Setup journal;
    journal.folder = folder_.path() / "journal";
    auto opened = journal::Journal::open(journal);
    ASSERT_TRUE(opened) << describe(opened.error());
    journal_ = std::move(opened).value();
    service_.journal = journal_.get();
    if (with_sink) {
      sinks::Outbox::Setup setup;
      setup.queue_folder = folder_.path() / "outbox";
      setup.sinks_folder = folder_.path() / "sinks";
      setup.node = "test-node";
      sinks::SinkSetup one;
      one.config.name = "one";
      sink_ = std::make_shared<Listening>();
      one.sink = sink_;
      setup.sinks = {one};
      setup.let_go = [journal_now = journal_.get()](const RequestKey& key) { journal_now->forget(key); };
      auto outbox = sinks::Outbox::open(std::move(setup));
      ASSERT_TRUE(outbox) << describe(outbox.error());
      outbox_ = std::move(outbox).value();
      service_.sinks = outbox_.get();
    }
    config_.workers.clear();
    start(models);
  }
  void end_process() {
    devices_.clear();
    outbox_.reset();
    journal_.reset();
    service_.journal = nullptr;
    service_.sinks = nullptr;
    for (int i = 0; i < 100; ++i) io_.poll();
    requests_.reset();
    for (int i = 0; i < 100; ++i) io_.poll();
    dispatcher_.reset();
    pool_.reset();
    for (int i = 0; i < 100; ++i) io_.poll();
  }
  static std::string done_of(unsigned char number) { return to_text(id_of(number)) + " done"; }
  static std::string failed_of(unsigned char number) { return to_text(id_of(number)) + " failed"; }

  std::unique_ptr<journal::Journal> journal_;
  std::unique_ptr<sinks::Outbox> outbox_;
  std::shared_ptr<Listening> sink_;
};

TEST_F(SinksOfRequests, HearOfAnswersAndOfFailures) {
  begin(true);
  const DevicePtr device = log_in();
  const Bytes bytes = some_bytes(4);
  ASSERT_EQ(ask(device, "echo", bytes, id_of(1)).header.type, FrameType::result);
  error_of(ask(device, "fail", bytes, id_of(2)));
  ASSERT_TRUE(until([&] { return sink_->heard().size() == 2; }));
  EXPECT_EQ(sink_->heard(), (std::map<std::string, int>{{done_of(1), 1}, {failed_of(2), 1}}));
  std::string values;
  for (const std::byte byte : bytes) {
    values += (values.empty() ? "" : ",") + std::to_string(std::to_integer<unsigned>(byte));
  }
  EXPECT_NE(sink_->results()[0].find("\"values\":[" + values + "]"), std::string::npos) << sink_->results()[0];
}

TEST_F(SinksOfRequests, WhatWasRefusedOnItsWayInIsNoEvent) {
  begin(true);
  const DevicePtr device = log_in();
  error_of(ask(device, "no-such-task", some_bytes(4), id_of(1)));
  ASSERT_EQ(ask(device, "echo", some_bytes(4), id_of(2)).header.type, FrameType::result);
  ASSERT_TRUE(until([&] { return !sink_->heard().empty(); }));
  EXPECT_EQ(sink_->heard(), (std::map<std::string, int>{{done_of(2), 1}}));
}

TEST_F(SinksOfRequests, AnAcknowledgedRequestLeavesJournalAndQueue) {
  begin(true);
  const DevicePtr device = log_in();
  ASSERT_EQ(ask(device, "echo", some_bytes(4), id_of(1)).header.type, FrameType::result);
  send(device, FrameType::result_ack, id_of(1), {});
  EXPECT_TRUE(until([&] { return journal_->counters().requests == 0; }));
  end_process();
  begin(true);
  EXPECT_TRUE(outbox_->known().empty());
}

TEST_F(SinksOfRequests, AnEndWithoutAnEventIsToldAtTheNextStart) {
  begin(false);  // as when the process dies before the event is written
  const DevicePtr device = log_in();
  const Bytes bytes = some_bytes(4);
  ASSERT_EQ(ask(device, "echo", bytes, id_of(1)).header.type, FrameType::result);
  error_of(ask(device, "fail", bytes, id_of(2)));
  ASSERT_TRUE(until([&] { return journal_->counters().settled == 2; }));
  end_process();
  const std::int64_t over = unix_ms();
  // The next process starts later: what it tells is when it ended, not when it was told.
  while (unix_ms() <= over + 5) std::this_thread::sleep_for(milliseconds(1));
  begin(true);
  ASSERT_TRUE(until([&] { return sink_->heard().size() == 2; }));
  EXPECT_EQ(sink_->heard(), (std::map<std::string, int>{{done_of(1), 1}, {failed_of(2), 1}}));
  for (const auto& [accepted, finished] : sink_->times()) {
    EXPECT_LE(finished, over);
    EXPECT_GT(finished, over - 60'000);
    EXPECT_LE(accepted, finished);
    EXPECT_GT(accepted, over - 60'000);
  }
  EXPECT_EQ(sink_->input_bytes(), (std::vector<std::uint64_t>{4, 4}));
  const std::vector<std::string> results = sink_->results();
  EXPECT_TRUE(std::any_of(results.begin(), results.end(),
                          [](const std::string& text) { return text.find("\"values\":[") != std::string::npos; }));
  end_process();
  begin(true);
  EXPECT_EQ(outbox_->known().size(), 2U);
  const DevicePtr again = log_in();
  ASSERT_EQ(ask(again, "echo", bytes, id_of(3)).header.type, FrameType::result);
  ASSERT_TRUE(until([&] { return !sink_->heard().empty(); }));
  EXPECT_EQ(sink_->heard(), (std::map<std::string, int>{{done_of(3), 1}})) << "those before are known";
}

TEST_F(SinksOfRequests, WhatIsAcknowledgedBeforeItWasToldIsToldFirst) {
  constexpr unsigned char kMany = 12;
  begin(false);
  const DevicePtr device = log_in();
  for (unsigned char i = 1; i <= kMany; ++i) ask(device, "echo", some_bytes(4), id_of(i));
  ASSERT_TRUE(until([&] { return journal_->counters().settled == kMany; }));
  end_process();
  begin(true, {});
  for (const journal::Kept& kept : std::vector<journal::Kept>(journal_->kept())) requests_->acknowledge(kept.key);
  EXPECT_TRUE(until([&] { return sink_->heard().size() == kMany && journal_->counters().requests == 0; }))
      << sink_->heard().size() << ' ' << journal_->counters().requests;
}

TEST_F(SinksOfRequests, ANodeMayEndWhileItTellsWhatItsLastProcessDidNot) {
  begin(false);
  const DevicePtr device = log_in();
  for (unsigned char i = 1; i <= 3; ++i) ask(device, "echo", some_bytes(4), id_of(i));
  ASSERT_TRUE(until([&] { return journal_->counters().settled == 3; }));
  end_process();
  begin(true, {});
  end_process();
  begin(true);
  EXPECT_TRUE(until([&] { return sink_->heard().size() == 3; }));
}

}  // namespace
}  // namespace gearbox::session
