// The executor on its strand, with an engine that does as the test says.
#include "executor/executor.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "executor/moment.hpp"
#include "serving/unix_socket.hpp"
#include "support/temp_dir.hpp"

namespace gearbox::executor {
namespace {

namespace json = boost::json;

/// One answer for each line: `answer(question)`; empty text hangs up.
class Engine {
 public:
  using Answer = std::function<std::string(const json::object&)>;
  Engine(const std::filesystem::path& path, Answer answer)
      : listener_(std::move(serving::UnixListener::open(path)).value()), answer_(std::move(answer)), thread_([this] {
          while (!over_) serve();
        }) {}
  ~Engine() {
    over_ = true;
    thread_.join();
  }

 private:
  void serve() {
    pollfd waiting{listener_.descriptor(), POLLIN, 0};
    if (::poll(&waiting, 1, 20) <= 0) return;
    const int client = ::accept(listener_.descriptor(), nullptr, nullptr);
    if (client < 0) return;
    std::string line;
    char byte = 0;
    while (::read(client, &byte, 1) == 1 && byte != '\n') line += byte;
    const std::string answer = answer_(json::parse(line).as_object());
    if (!answer.empty()) {
      EXPECT_EQ(::write(client, answer.data(), answer.size()), static_cast<ssize_t>(answer.size()));
    }
    ::close(client);
  }
  serving::UnixListener listener_;
  Answer answer_;
  std::atomic<bool> over_{false};
  std::thread thread_;
};

class ExecutorTest : public ::testing::Test {
 protected:
  ExecutorTest() {
    std::filesystem::create_directories(state_.groups());
    limits_.status = limits_.price = limits_.shift = limits_.recover = seconds(20);
    limits_.look = milliseconds(5);
    start();
  }
  void start() {
    executor_.reset();
    io_.emplace(1);
    auto ledger = Ledger::open(folder_.path() / "gears");
    ASSERT_TRUE(ledger);
    executor_.emplace(*io_, state_, std::move(ledger).value(), limits_);
    executor_->begin();
  }
  std::string answer(const json::object& question) {
    const std::lock_guard held(mutex_);
    const std::string op(question.at("op").as_string());
    if (op == "status") {
      json::object status{{"ok", true},      {"phase", "running"}, {"gear", gear_},
                          {"epoch", epoch_}, {"term", 0},          {"shift", going_on_ > 0 ? "preparing" : ""}};
      if (going_on_ > 0 && --going_on_ == 0) commit(wanted_);
      return json::serialize(status) + "\n";
    }
    if (op == "price") return price_;
    if (op == "history") return json::serialize(json::object{{"ok", true}, {"history", history_}}) + "\n";
    orders_.push_back(question);
    wanted_ = question.at("gear").to_number<int>();
    if (hangs_up_) {
      going_on_ = 3;  // it goes on, and is through after a few looks
      return {};
    }
    commit(wanted_);
    return json::serialize(json::object{{"ok", true}, {"pause_ms", 9.5}, {"epoch", epoch_}}) + "\n";
  }
  void commit(int gear) {
    gear_ = gear;
    ++epoch_;
    history_.push_back(json::object{{"epoch", epoch_}, {"pause_ms", 11.5}});
  }
  void engine() {
    engine_.emplace(state_.groups() / "story.sock", [this](const json::object& question) { return answer(question); });
  }
  static json::object order(int gear, std::uint64_t term, const char* origin = "scheduler") {
    return {{"group", "story"}, {"gear", gear}, {"term", term}, {"origin", origin}, {"decision", "a test"}};
  }
  /// Until the shift is over; its entry.
  json::object outcome(std::uint64_t number) {
    const Instant deadline = after(Clock::now(), seconds(30));
    while (Clock::now() < deadline) {
      io_->restart();
      io_->run_one_for(std::chrono::seconds(5));
      auto told = executor_->control("outcome", {{"number", number}});
      if (told && !told.value().contains("going_on")) return told.value();
    }
    return {};
  }
  std::uint64_t begin(const json::object& wanted) {
    auto begun = executor_->control("shift", wanted);
    EXPECT_TRUE(begun) << begun.error().detail;
    return begun ? begun.value().at("number").to_number<std::uint64_t>() : 0;
  }
  std::string refusal(const json::object& wanted) {
    auto begun = executor_->control("shift", wanted);
    return begun ? "taken" : begun.error().detail;
  }

  const testing::TempDir folder_;
  config::StateDir state_{folder_.path()};
  Limits limits_;
  std::optional<boost::asio::io_context> io_;
  std::optional<Executor> executor_;
  std::mutex mutex_;
  int gear_ = 1, wanted_ = 0, going_on_ = 0;
  std::uint64_t epoch_ = 5;
  bool hangs_up_ = false;
  std::string price_ = "{\"ok\": true, \"fits\": true}\n";
  json::array history_;
  std::vector<json::object> orders_;
  std::optional<Engine> engine_;
};

TEST_F(ExecutorTest, AShiftIsPricedDoneAndKept) {
  engine();
  const json::object entry = outcome(begin(order(2, 3)));
  EXPECT_TRUE(entry.at("ok").as_bool()) << entry.at("why").as_string();
  EXPECT_EQ(entry.at("from").to_number<int>(), 1);
  EXPECT_EQ(entry.at("report").as_object().at("pause_ms").as_double(), 9.5);
  ASSERT_EQ(orders_.size(), 1U);
  EXPECT_EQ(orders_[0].at("term").to_number<int>(), 3);
  const auto groups = executor_->control("groups", {});
  const json::object& record = groups.value().at("list").as_array().at(0).as_object();
  EXPECT_EQ(record.at("came_from").to_number<int>(), 1);
  EXPECT_FALSE(record.at("shifting").as_bool());
}

TEST_F(ExecutorTest, ALeaderThatHasOrderedNothingYetIsKnownByItsTerm) {
  engine();
  const auto told = executor_->control("groups", {{"term", 5}});
  ASSERT_TRUE(told);
  EXPECT_EQ(told.value().at("term").to_number<int>(), 5);
  EXPECT_EQ(executor_->control("groups", {}).value().at("term").to_number<int>(), 5)
      << "who does not lead changes nothing";
  EXPECT_EQ(executor_->control("groups", {{"term", 4}}).value().at("term").to_number<int>(), 5);
  EXPECT_NE(refusal(order(2, 4)).find("term 4 is older than 5"), std::string::npos);
  start();
  EXPECT_NE(refusal(order(2, 4)).find("term 4 is older than 5"), std::string::npos) << "it is on disk";
  json::object by_hand = order(2, 0, "person");
  by_hand.erase("term");
  outcome(begin(by_hand));
  EXPECT_EQ(orders_.at(0).at("term").to_number<int>(), 5);
  EXPECT_FALSE(executor_->control("groups", {{"term", "5"}}));
}

TEST_F(ExecutorTest, AnOlderTermIsRefusedAlsoByTheNextLife) {
  engine();
  outcome(begin(order(2, 3)));
  EXPECT_NE(refusal(order(1, 2)).find("term 2 is older than 3"), std::string::npos);
  start();
  EXPECT_NE(refusal(order(1, 2)).find("term 2 is older than 3"), std::string::npos);
  EXPECT_EQ(orders_.size(), 1U) << "its engine never heard of it";
}

TEST_F(ExecutorTest, OneShiftOfAGroupAtATime) {
  engine();
  const std::uint64_t first = begin(order(2, 1));
  EXPECT_NE(refusal(order(4, 1)).find("is shifting already"), std::string::npos);
  outcome(first);
  EXPECT_TRUE(outcome(begin(order(4, 1))).at("ok").as_bool());
}

TEST_F(ExecutorTest, WhatDoesNotFitIsNotOrdered) {
  engine();
  price_ = "{\"ok\": false, \"fits\": false, \"why\": \"rank 1: no room\"}\n";
  const json::object entry = outcome(begin(order(2, 1)));
  EXPECT_FALSE(entry.at("ok").as_bool());
  EXPECT_EQ(entry.at("why").as_string(), "the price: rank 1: no room");
  EXPECT_TRUE(orders_.empty());
}

TEST_F(ExecutorTest, PeopleHoldAndAllow) {
  engine();
  EXPECT_NE(refusal({{"group", "other"}, {"gear", 2}, {"term", 1}, {"origin", "person"}}).find("no group 'other'"),
            std::string::npos);
  ASSERT_TRUE(executor_->control("hold", {{"group", "story"}, {"held", true}}));
  EXPECT_NE(refusal(order(2, 1)).find("a person keeps"), std::string::npos);
  json::object by_hand = order(2, 0, "person");
  by_hand.erase("term");
  EXPECT_TRUE(outcome(begin(by_hand)).at("ok").as_bool());
  ASSERT_TRUE(executor_->control("hold", {{"group", "story"}, {"held", false}}));
  ASSERT_TRUE(executor_->control("allow", {{"group", "story"}, {"gears", json::array{2, 1}}}));
  start();
  EXPECT_NE(refusal(order(3, 1)).find("gear 3 is closed for group 'story': allowed are 1,2"), std::string::npos);
  EXPECT_FALSE(executor_->control("allow", {{"group", "story"}, {"gears", json::array{7}}}));
  EXPECT_FALSE(executor_->control("hold", {{"group", "../x"}, {"held", true}}));
}

TEST_F(ExecutorTest, ALostAnswerIsAskedForUntilTheEngineIsThrough) {
  engine();
  hangs_up_ = true;
  const json::object entry = outcome(begin(order(2, 1)));
  EXPECT_TRUE(entry.at("ok").as_bool()) << entry.at("why").as_string();
  EXPECT_TRUE(entry.at("recovered").as_bool());
  EXPECT_EQ(entry.at("report").as_object().at("pause_ms").as_double(), 11.5) << "of the engine's own history";
}

TEST_F(ExecutorTest, TheNextOneAsksWhatBecameOfAShift) {
  Kept kept;
  kept.pending = Pending{4, 1, 2, 1, epoch_, "scheduler", "a test", 0};
  {
    auto ledger = Ledger::open(folder_.path() / "gears");
    ASSERT_TRUE(ledger.value().keep("story", kept));
  }
  engine();
  start();
  const json::object fell_back = outcome(4);
  EXPECT_FALSE(fell_back.at("ok").as_bool()) << "the engine never heard of it";
  EXPECT_EQ(fell_back.at("why").as_string(), "its engine is in the gear before: it fell back");
  {
    auto ledger = Ledger::open(folder_.path() / "gears");
    kept.pending->number = 9;
    ASSERT_TRUE(ledger.value().keep("story", kept));
    const std::lock_guard held(mutex_);
    commit(2);
  }
  start();
  EXPECT_TRUE(outcome(9).at("ok").as_bool());
  EXPECT_EQ(executor_->control("history", {}).value().at("list").as_array().size(), 2U);
}

TEST_F(ExecutorTest, AGroupThatIsGoneEndsItsShift) {
  Kept kept;
  kept.pending = Pending{4, 1, 2, 1, 5, "scheduler", "a test", 0};
  {
    auto ledger = Ledger::open(folder_.path() / "gears");
    ASSERT_TRUE(ledger.value().keep("story", kept));
  }
  start();
  EXPECT_FALSE(outcome(4).at("ok").as_bool());
}

}  // namespace
}  // namespace gearbox::executor
