// `pi_client run` with two nodes: what one has acknowledged stays there, until it has been silent for long; then the
// first of two answers is the answer.
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <mutex>

#include "spooling.hpp"

namespace gearbox::client {
namespace {

/// Two nodes, and a central that names one of them to whoever does not ask for the other.
class Moves : public ::testing::Test {
 protected:
  Moves() {
    a_script_.name = "a";
    b_script_.name = "b";
  }
  /// Makes all of it as the scripts say. The first question is answered with `first`, those after it with b; but who
  /// asks for a certain node gets that.
  void start() {
    a_ = std::make_unique<test::FakeNode>(a_script_);
    b_ = std::make_unique<test::FakeNode>(b_script_);
    test::FakeScript script;
    script.ticket_ttl_ms = ttl_ms_;
    script.place = [this](const wire::Locate& asked) {
      const std::lock_guard lock(mutex_);
      asked_.push_back(asked);
      const bool first = asked_.size() == 1;
      if (!asked.node.empty()) return asked.node == "a" ? a_.get() : b_.get();
      return first ? a_.get() : b_.get();
    };
    central_ = std::make_unique<test::FakeNode>(std::move(script));
    device_ = std::make_unique<Spooling>(*central_);
    device_->options.spool.move_after = milliseconds(400);
    device_->settings.pace.silence = milliseconds(3'000);
    device_->add({device_->picture("a.ppm", 30, 1)});
  }
  void stop() {
    for (const auto& each : {&a_, &b_, &central_}) (*each)->stop();
  }
  std::vector<wire::Locate> asked() {
    const std::lock_guard lock(mutex_);
    return asked_;
  }
  /// The node that the one answer came from. Fails unless there is exactly one, and an empty spool.
  std::string answered_by() const {
    const auto answers = device_->answers();
    EXPECT_EQ(answers.size(), 1U) << device_->console.err;
    EXPECT_TRUE(device_->ids().empty());
    if (answers.size() != 1) return "nobody";
    EXPECT_TRUE(answers[0].at("ok").as_bool());
    return std::string(answers[0].at("node").as_string());
  }

  std::uint32_t ttl_ms_ = 60'000;
  std::mutex mutex_;
  std::vector<wire::Locate> asked_;
  test::FakeScript a_script_, b_script_;
  std::unique_ptr<test::FakeNode> a_, b_, central_;
  std::unique_ptr<Spooling> device_;
};

/// A node's whole thread, held the first time that it comes by: like SIGSTOP after an acceptance.
class Hold {
 public:
  std::function<void()> here() {
    return [this] {
      if (!passed_.exchange(true)) opened_.get_future().wait_for(seconds(20));
    };
  }
  void open() {
    if (!open_.exchange(true)) opened_.set_value();
  }
  bool reached() const { return passed_; }

 private:
  std::promise<void> opened_;
  std::atomic<bool> passed_{false}, open_{false};
};

TEST_F(Moves, WhatIsAcknowledgedStaysWithItsNode) {
  a_script_.drop_before_result = 3;  // central would name b each time
  start();
  EXPECT_EQ(device_->run(), 0);
  EXPECT_TRUE(a_->wait_for_acks(1));
  stop();
  EXPECT_EQ(answered_by(), "a");
  EXPECT_EQ(a_->counts().runs, 1);
  EXPECT_EQ(b_->counts().runs, 0);
}

TEST_F(Moves, TheNextProcessAsksTheNodeThatHasIt) {
  Hold hold;
  a_script_.on_accepted = hold.here();
  start();
  device_->options.spool.move_after = milliseconds(60'000);
  {
    // The acceptance is on its way to the client when the hold is reached; its note is what is waited for.
    const auto noted = device_->scratch.path() / "spool/homes";
    const StopWhen stop([&] { return std::filesystem::exists(noted) && std::filesystem::file_size(noted) > 0; });
    EXPECT_EQ(device_->run(), 0);
  }
  EXPECT_TRUE(device_->answers().empty());
  EXPECT_EQ(device_->ids().size(), 1U);
  hold.open();
  EXPECT_EQ(device_->run(), 0);
  EXPECT_TRUE(a_->wait_for_acks(1));
  stop();
  EXPECT_EQ(answered_by(), "a");
  EXPECT_EQ(a_->counts().runs, 1);
  EXPECT_EQ(b_->counts().runs, 0);
  EXPECT_EQ(asked().back().node, "a");
}

TEST_F(Moves, ASilentNodeIsLeftAndCalledOffWhenItIsBack) {
  for (const milliseconds silence : {milliseconds(5'000), milliseconds(200)}) {  // its connection outlives it, or not
    asked_.clear();
    Hold hold;
    a_script_.on_accepted = hold.here();
    start();
    device_->settings.pace.silence = silence;
    device_->settings.connect_within = milliseconds(200);
    device_->options.spool.until_empty = false;
    const Instant begun = Clock::now();
    {
      const StopWhen stop([&] {
        if (!device_->answers().empty()) hold.open();
        return a_->acks() >= 1;
      });
      EXPECT_EQ(device_->run(), 0);
    }
    EXPECT_GE(a_->acks(), 1);
    stop();
    EXPECT_EQ(answered_by(), "b");
    EXPECT_EQ(b_->counts().runs, 1);
    EXPECT_EQ(b_->counts().acks, 1);
    EXPECT_GE(a_->counts().cancels, 1);
    EXPECT_GE(elapsed(begun, Clock::now()), milliseconds(400));
    EXPECT_EQ(a_->counts().digests, b_->counts().digests) << "the same request under the same id";
    EXPECT_NE(device_->console.err.find("node a has been silent"), std::string::npos) << device_->console.err;
  }
}

TEST_F(Moves, TheFirstOfTwoAnswersCountsAndTheOtherNodeIsToldSo) {
  Hold hold;
  a_script_.on_accepted = hold.here();
  b_script_.never_answer = true;
  b_script_.on_accepted = [&hold] { hold.open(); };
  start();
  EXPECT_EQ(device_->run(), 0);
  EXPECT_TRUE(a_->wait_for_acks(1));
  EXPECT_TRUE(b_->wait_for_acks(1));
  stop();
  EXPECT_EQ(answered_by(), "a");
  EXPECT_EQ(b_->counts().runs, 1);
  EXPECT_GE(b_->counts().cancels, 1);
}

TEST_F(Moves, OfTwoAnswersAtOnceOneIsWrittenDown) {
  for (int round = 0; round < 10; ++round) {
    asked_.clear();
    Hold hold;
    a_script_.on_accepted = hold.here();
    b_script_.on_accepted = [&hold] { hold.open(); };  // and sends its own answer
    start();
    device_->options.spool.move_after = milliseconds(200);
    EXPECT_EQ(device_->run(), 0);
    EXPECT_TRUE(a_->wait_for_acks(1) || b_->wait_for_acks(1));
    stop();
    EXPECT_NE(answered_by(), "nobody");
    EXPECT_EQ(a_->counts().runs + b_->counts().runs, 2);
  }
}

TEST_F(Moves, ZeroIsNever) {
  Hold hold;
  a_script_.on_accepted = hold.here();
  start();
  device_->options.spool.move_after = milliseconds(0);
  device_->settings.pace.silence = milliseconds(300);
  device_->settings.connect_within = milliseconds(100);
  device_->options.spool.until_empty = false;
  {
    // Long past the silence limit, central is asked again and again.
    const StopWhen stop([&] { return asked().size() >= 6; });
    EXPECT_EQ(device_->run(), 0);
  }
  hold.open();
  stop();
  EXPECT_TRUE(device_->answers().empty());
  EXPECT_EQ(b_->counts().runs, 0);
}

TEST_F(Moves, WhatWasNotAcknowledgedGoesElsewhereAtOnce) {
  a_script_.node_url = "tcp://127.0.0.1:1";  // nobody there
  start();
  device_->options.spool.move_after = milliseconds(60'000);
  EXPECT_EQ(device_->run(), 0);
  stop();
  EXPECT_EQ(answered_by(), "b");
  ASSERT_GE(asked().size(), 2U);
  EXPECT_EQ(asked()[1].avoid, std::vector<std::string>{"a"});
}

TEST_F(Moves, WhatANodeMayHaveAcknowledgedUnheardIsCalledOffThere) {
  a_script_.drop_before_accepted = 1;  // it has it whole
  ttl_ms_ = 1;                         // central is asked again, and names b
  start();
  device_->options.spool.until_empty = false;
  {
    const StopWhen stop([&] { return a_->acks() >= 1; });
    EXPECT_EQ(device_->run(), 0);
  }
  EXPECT_GE(a_->acks(), 1);
  stop();
  EXPECT_EQ(answered_by(), "b");
  EXPECT_GE(a_->counts().cancels, 1);
}

TEST_F(Moves, AHomeThatHasLostWhatItAcknowledgedHoldsNobodyUp) {
  a_script_.never_answer = true;
  start();
  device_->options.spool.move_after = milliseconds(60'000);
  {
    const auto noted = device_->scratch.path() / "spool/homes";
    const StopWhen stop([&] { return std::filesystem::exists(noted) && std::filesystem::file_size(noted) > 0; });
    EXPECT_EQ(device_->run(), 0);
  }
  a_->stop();
  a_script_.busy_submits = 1'000;  // it comes back, and knows nothing
  a_script_.busy_code = Errc::unknown_task;
  a_ = std::make_unique<test::FakeNode>(a_script_);
  device_->options.spool.until_empty = false;
  {
    const StopWhen stop([&] { return b_->acks() >= 1; });
    EXPECT_EQ(device_->run(), 0);
  }
  stop();
  EXPECT_EQ(answered_by(), "b");
  EXPECT_GE(a_->counts().submits, 1);
  EXPECT_NE(device_->console.err.find("has lost"), std::string::npos) << device_->console.err;
}

TEST_F(Moves, WhatANodeHasAcknowledgedIsNotReplacedByANewcomer) {
  Hold hold;
  a_script_.on_accepted = hold.here();
  start();
  device_->options.spool.limits.policy = SpoolPolicy::newest_only;
  device_->options.spool.move_after = milliseconds(60'000);
  {
    const auto noted = device_->scratch.path() / "spool/homes";
    const StopWhen stop([&] { return std::filesystem::exists(noted) && std::filesystem::file_size(noted) > 0; });
    EXPECT_EQ(device_->run(), 0);
  }
  hold.open();
  device_->add({device_->picture("b.ppm", 30, 2)});  // by another process, while nobody sends
  EXPECT_EQ(device_->ids().size(), 2U);
  EXPECT_EQ(device_->run(), 0);
  EXPECT_EQ(device_->answers().size(), 2U);
}

TEST_F(Moves, WhatAPersonDropsIsCalledOffAtTheNodeThatHasIt) {
  a_script_.never_answer = true;
  start();
  device_->options.spool.until_empty = false;
  const auto noted = device_->scratch.path() / "spool/homes";
  bool dropped = false;
  {
    const StopWhen stop([&] {
      if (!dropped && std::filesystem::exists(noted) && std::filesystem::file_size(noted) > 0) {
        SpoolOptions dropping = device_->options.spool;
        dropping.all = true;
        StringConsole quiet;
        EXPECT_EQ(run_spool_drop(dropping, quiet), 0) << quiet.err;
        dropped = true;
      }
      return a_->acks() >= 1;
    });
    EXPECT_EQ(device_->run(), 0);
  }
  stop();
  EXPECT_GE(a_->counts().cancels, 1);
  EXPECT_TRUE(device_->answers().empty());
}

TEST_F(Moves, ANodeThatTakesNothingNewKeepsWhatItHas) {
  a_script_.takes = 1;
  a_script_.busy_code = Errc::shutting_down;
  a_script_.hold_results = 1'000;
  b_script_.on_accepted = [this] { a_->answer_held(); };
  start();
  device_->options.spool.move_after = milliseconds(60'000);
  device_->add({device_->picture("b.ppm", 30, 2)});
  EXPECT_EQ(device_->run(), 0);
  EXPECT_TRUE(a_->wait_for_acks(1));
  EXPECT_TRUE(b_->wait_for_acks(1));
  stop();
  EXPECT_EQ(a_->counts().connections, 1) << "those who wait there are not cut off";
  EXPECT_EQ(a_->counts().runs, 1);
  EXPECT_EQ(b_->counts().runs, 1);
  EXPECT_EQ(device_->answers().size(), 2U);
}

TEST_F(Moves, SendStaysWithTheNodeThatHasAcknowledged) {
  a_script_.drop_before_result = 1;
  ttl_ms_ = 1;  // so that central is asked again
  start();
  device_->options.send.files = {device_->picture("b.ppm", 30, 2)};
  EXPECT_EQ(device_->send(), 0) << device_->console.err;
  stop();
  EXPECT_EQ(a_->counts().runs, 1);
  EXPECT_EQ(b_->counts().runs, 0);
}

TEST_F(Moves, SendGoesElsewhereWithWhatADrainingNodeDoesNotTake) {
  a_script_.takes = 1;
  a_script_.busy_code = Errc::shutting_down;
  a_script_.hold_results = 1'000;
  b_script_.on_accepted = [this] { a_->answer_held(); };
  start();
  device_->options.send.files = {device_->picture("b.ppm", 30, 2), device_->picture("c.ppm", 30, 3)};
  EXPECT_EQ(device_->send(), 0) << device_->console.err;
  stop();
  EXPECT_EQ(a_->counts().connections, 1);
  EXPECT_EQ(a_->counts().runs, 1);
  EXPECT_EQ(b_->counts().runs, 1);
  EXPECT_EQ(asked()[1].avoid, std::vector<std::string>{"a"});
}

TEST_F(Moves, SendGoesElsewhereWhenTheNodeHasBeenSilentForLong) {
  Hold hold;
  a_script_.on_accepted = hold.here();
  start();
  device_->settings.pace.silence = milliseconds(200);
  device_->settings.connect_within = milliseconds(100);
  device_->settings.move_after = milliseconds(800);
  device_->options.send.files = {device_->picture("b.ppm", 30, 2)};
  const Instant begun = Clock::now();
  EXPECT_EQ(device_->send(), 0) << device_->console.err;
  EXPECT_GE(elapsed(begun, Clock::now()), milliseconds(800));
  hold.open();
  stop();
  EXPECT_EQ(b_->counts().runs, 1);
}

TEST(SeveralCentrals, TheNextOneIsAskedWhenOneIsAway) {
  test::FakeNode fake({});
  Spooling device(fake);
  device.add({device.picture("a.ppm", 30, 1)});
  device.options.central.others.push_back(device.options.central);
  device.options.central.url = "tcp://127.0.0.1:1";
  EXPECT_EQ(device.run(), 0);
  EXPECT_EQ(device.answers().size(), 1U);
  device.options.send.files = {device.picture("b.ppm", 30, 2)};
  EXPECT_EQ(device.send(), 0) << device.console.err;
}

TEST(SeveralCentrals, WhatOneRefusesAnotherMayGrant) {
  test::FakeScript script;
  script.no_node = 1'000'000;
  test::FakeNode knows_nobody(script);
  test::FakeNode fake({});
  Spooling device(knows_nobody);
  CentralPlace second;
  second.url = fake.central_url();
  second.server_key = fake.central_key();
  device.options.central.others = {second};
  device.options.send.files = {device.picture("b.ppm", 30, 2)};
  EXPECT_EQ(device.send(), 0) << device.console.err;
  device.options.central.others[0].url = "tcp://127.0.0.1:1";
  device.console.out.clear();
  EXPECT_EQ(device.send(), 1);
  EXPECT_NE(device.console.out.find("no_node"), std::string::npos) << device.console.out;
}

}  // namespace
}  // namespace gearbox::client
