#include "replay/replica.hpp"

#include <cmath>

#include "scene.hpp"

namespace gearbox::replay {
namespace {

TEST(Replica, StretchesGiveWhatStepsGive) {
  const Cluster cluster = nodes_of("a100-80g", 2);
  const Model model = seven_billion();
  for (const std::uint8_t gear : {std::uint8_t{1}, std::uint8_t{2}, std::uint8_t{5}}) {
    Scenario by_steps = in_gear(gear);
    by_steps.one_by_one = true;
    const char* const traffic = "make:steady,rate=12,duration=60";
    const Result slow = run(by_steps, cluster, model, *made(traffic, 1));
    const Result fast = run(in_gear(gear), cluster, model, *made(traffic, 1));
    // A nanosecond of rounding may put an arrival before or behind a step's end.
    EXPECT_NEAR(static_cast<double>(fast.request_steps), static_cast<double>(slow.request_steps),
                1e-4 * static_cast<double>(slow.request_steps));
    EXPECT_LT(fast.events * 3, slow.events) << "nothing was skipped";
    EXPECT_NEAR(fast.latency.mean(), slow.latency.mean(), 0.001 * slow.latency.mean());
    EXPECT_NEAR(fast.latency.quantile(0.99), slow.latency.quantile(0.99), 0.01 * slow.latency.quantile(0.99));
    EXPECT_NEAR(fast.first_token.mean(), slow.first_token.mean(), 0.001 * slow.first_token.mean());
  }
}

class OneReplica : public ::testing::Test {
 protected:
  OneReplica() {
    setting_.model = &model_.shape;
    setting_.card = gears::card_named("a100-80g");
  }
  RequestIndex add(std::uint32_t input, std::uint32_t output) {
    Arrival arrival;
    arrival.input_tokens = input;
    arrival.output_tokens = output;
    return requests_.add(arrival, 0);
  }
  Model model_ = seven_billion();
  ReplicaSetting setting_;
  Requests requests_;
  std::vector<RequestIndex> done_;
};

TEST_F(OneReplica, JoiningCutsAStretchAtTheStepUnderWay) {
  Replica replica(setting_);
  const RequestIndex first = add(100, 1000);
  replica.join(first, requests_[first]);
  const Nanos prompt = replica.begin(0, requests_);
  replica.end(prompt, requests_, done_);
  const Nanos whole = replica.begin(prompt, requests_);
  const Nanos step = (whole - prompt) / 999;
  const Nanos now = prompt + 10 * step + step / 2;
  const Nanos cut = replica.cut(now);
  EXPECT_GE(cut, now);
  EXPECT_LT(cut, now + 2 * step) << "it ends with the step under way";
  EXPECT_EQ(replica.cut(now), kNever) << "which stays so";
  replica.end(cut, requests_, done_);
  const Nanos rest = replica.begin(cut, requests_);
  EXPECT_NEAR(static_cast<double>(rest), static_cast<double>(whole), 10) << "being cut costs nothing";
}

TEST_F(OneReplica, CachesAreAHardLimit) {
  Replica replica(setting_);
  const auto all = static_cast<std::uint32_t>(replica.capacity());
  const RequestIndex most = add(all - 1000, 500);
  const RequestIndex next = add(600, 10);
  ASSERT_TRUE(replica.fits(requests_[most]));
  replica.join(most, requests_[most]);
  EXPECT_FALSE(replica.fits(requests_[next]));
  while (done_.empty()) replica.end(replica.begin(0, requests_), requests_, done_);
  EXPECT_TRUE(replica.fits(requests_[next])) << "its room came free";
  EXPECT_EQ(replica.load(), 0);
}

TEST_F(OneReplica, ClearingTellsHowFarEachHasCome) {
  Replica replica(setting_);
  const RequestIndex first = add(100, 1000);
  replica.join(first, requests_[first]);
  const Nanos prompt = replica.begin(0, requests_);
  replica.end(prompt, requests_, done_);
  replica.begin(prompt, requests_);
  const Nanos cut = replica.cut(prompt + kSecond);
  replica.end(cut, requests_, done_);
  const double cached = replica.cached();
  EXPECT_EQ(replica.clear(requests_, false), std::vector<RequestIndex>{first});
  EXPECT_EQ(requests_[first].generated + 100, cached);
  EXPECT_EQ(replica.cached(), 0);
  replica.join(first, requests_[first]);
  EXPECT_EQ(replica.cached(), cached) << "its cache came along";
}

}  // namespace
}  // namespace gearbox::replay
