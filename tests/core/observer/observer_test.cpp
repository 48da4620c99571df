// The observer's rounds, with links that the test makes better and worse.
#include "observer/observer.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>

#include "serving/unix_socket.hpp"
#include "support/temp_dir.hpp"

namespace gearbox::observer {
namespace {

namespace json = boost::json;

using Links = std::map<std::string, LinkMeasure>;

class FakeProber final : public LinkProber {
 public:
  explicit FakeProber(const Links& links) : links_(links) {}
  std::vector<std::string> peers() const override {
    std::vector<std::string> all;
    for (const auto& [peer, measure] : links_) all.push_back(peer);
    return all;
  }
  boost::asio::awaitable<LinkMeasure> probe(std::string peer) override { co_return links_.at(peer); }

 private:
  const Links& links_;
};

class ObserverTest : public ::testing::Test {
 protected:
  ObserverTest() {
    std::filesystem::create_directories(state_.groups());
    observer_ = std::make_unique<Observer>(io_, state_, milliseconds(5), std::make_unique<FakeProber>(links_));
    observer_->begin();
  }
  ~ObserverTest() override { observer_.reset(); }
  json::object snapshot() {
    auto answer = observer_->control("snapshot", {});
    EXPECT_TRUE(answer);
    return answer ? answer.value() : json::object();
  }
  /// Rounds go on until `wanted` holds for a snapshot; that one, or an empty one after 20 s.
  json::object until(const std::function<bool(json::object&)>& wanted) {
    const Instant deadline = after(Clock::now(), seconds(20));
    while (Clock::now() < deadline) {
      io_.run_one_for(std::chrono::seconds(5));
      json::object seen = snapshot();
      if (wanted(seen)) return seen;
    }
    ADD_FAILURE() << "it was never seen";
    return {};
  }
  static double share(const json::object& seen) { return seen.at("link_share").to_number<double>(); }

  const testing::TempDir folder_;
  config::StateDir state_{folder_.path()};
  Links links_;
  boost::asio::io_context io_{1};
  std::unique_ptr<Observer> observer_;
};

TEST_F(ObserverTest, SnapshotsAreNumbered) {
  const auto first = until([](json::object& seen) { return seen["sequence"].to_number<int>() >= 1; });
  const int number = first.at("sequence").to_number<int>();
  until([&](json::object& seen) { return seen["sequence"].to_number<int>() >= number + 2; });
  EXPECT_FALSE(first.at("link_probed").as_bool()) << "a host alone has no links";
  EXPECT_EQ(share(first), 1);
  EXPECT_FALSE(first.at("node_answers").as_bool());
}

TEST_F(ObserverTest, LinksAreProbedEachRound) {
  links_["b"] = {false, microseconds(100), 1e9};
  until([](json::object& seen) { return seen["link_probed"].as_bool() && seen["link_samples"].to_number<int>() > 0; });
  links_["b"].bytes_per_s = 2.5e8;
  until([](json::object& seen) { return share(seen) < 0.3; });
  links_["b"].failed = true;
  until([](json::object& seen) { return seen["link_failed"].as_bool() && share(seen) == 0; });
  links_.erase("b");
  until([](json::object& seen) { return !seen["link_probed"].as_bool() && share(seen) == 1; });
}

TEST_F(ObserverTest, AGroupThatNobodyAnswersForIsStale) {
  {
    auto listener = serving::UnixListener::open(state_.groups() / "story.sock");
    ASSERT_TRUE(listener);
    // Renamed, it stays when its listener goes: as after a kill.
    std::filesystem::rename(state_.groups() / "story.sock", state_.groups() / "tale.sock");
  }
  const auto seen = until([](json::object& answer) {
    const json::array& groups = answer["list"].as_array();
    return !groups.empty() && groups[0].at("problem").as_string() == "nobody answers at its socket";
  });
  EXPECT_TRUE(seen.at("list").as_array()[0].at("stale").as_bool());
  json::object status;
  observer_->add_status(status);
  EXPECT_EQ(status.at("stale").to_number<int>(), 1);
  std::filesystem::remove(state_.groups() / "tale.sock");
  until([](json::object& answer) { return answer["list"].as_array().empty(); });
}

}  // namespace
}  // namespace gearbox::observer
