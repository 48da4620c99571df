#include "scheduler/hosts.hpp"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <functional>
#include <map>
#include <string>

namespace gearbox::scheduler {
namespace {

namespace asio = boost::asio;
namespace json = boost::json;

/// A host that says what it is told to.
class FakeDoor final : public HostDoor {
 public:
  explicit FakeDoor(asio::io_context& io) : gate_(io) {}

  asio::awaitable<Outcome<void>> open() override {
    ++opened;
    if (!refusal.empty()) co_return Error{Errc::not_allowed, refusal};
    co_return done();
  }
  asio::awaitable<gear_facts::Answer> ask(std::string_view role, json::object command, milliseconds within) override {
    const bool observer = role == "observer";
    if (observer) ++asked;
    if (silent) {
      gate_.expires_after(within);
      boost::system::error_code woken;
      co_await gate_.async_wait(asio::redirect_error(asio::use_awaitable, woken));
    }
    if (silent) co_return Error{Errc::timeout, "no answer in time"};
    json::object answer{{"list", json::array()}, {"more", false}};
    if (observer) {
      answer["observer"] = "o";
      answer["sequence"] = sequence;
      json::object group{{"name", "story"}, {"gear", 2}};
      answer["list"].get_array().push_back(std::move(group));
    } else {
      answer["term"] = term;
      told_term = command.contains("term") ? command.at("term").to_number<std::uint64_t>() : 0;
    }
    co_return answer;
  }
  asio::awaitable<gear_facts::Answer> price(std::string, std::uint8_t, milliseconds) override {
    co_return Error{Errc::internal, {}};
  }
  void close() override { ++closed; }
  void speak() {
    silent = false;
    gate_.cancel();
  }

  std::string refusal;
  bool silent = false;
  std::uint64_t sequence = 1, term = 0, told_term = 0;
  int opened = 0, asked = 0, closed = 0;

 private:
  asio::steady_timer gate_;
};

class HostsTest : public ::testing::Test {
 protected:
  HostsTest()
      : own_(std::make_shared<FakeDoor>(io_)),
        hosts_(std::make_shared<Hosts>(io_.get_executor(), "north", own_, [this](const std::string& node) {
          return doors_[node] = std::make_shared<FakeDoor>(io_);
        })) {}
  void look(std::uint64_t term = 0) {
    bool over = false;
    asio::co_spawn(io_, Hosts::look(hosts_, term), [&over](const std::exception_ptr&) { over = true; });
    io_.restart();
    while (!over) io_.run_one();
  }
  void look_until_all_answered(std::uint64_t term = 0) {
    look(term);
    until([&] {
      return std::none_of(hosts_->all().begin(), hosts_->all().end(), [](const HostPtr& each) { return each->asking; });
    });
  }
  void until(const std::function<bool()>& what) {
    io_.restart();
    while (!what()) io_.run_one();
  }
  const Host& host(std::size_t at) const { return *hosts_->all().at(at); }

  asio::io_context io_;
  std::shared_ptr<FakeDoor> own_;
  std::map<std::string, std::shared_ptr<FakeDoor>> doors_;
  std::shared_ptr<Hosts> hosts_;
};

TEST_F(HostsTest, AreAskedWithTheTermAndNameThemselvesOnlyWhenThereAreSeveral) {
  own_->term = 3;
  look(4);
  EXPECT_EQ(own_->told_term, 4U);
  EXPECT_EQ(host(0).term, 3U);
  EXPECT_TRUE(host(0).news);
  EXPECT_EQ(hosts_->name_of(host(0), "story"), "story");
  hosts_->use({"north", "south"});  // one list for all hosts: this one's own name is skipped
  ASSERT_EQ(hosts_->all().size(), 2U);
  EXPECT_EQ(hosts_->name_of(host(1), "story"), "south/story");
  EXPECT_NE(host(1).away(Clock::now()), "");
  look_until_all_answered(4);
  EXPECT_EQ(host(1).away(Clock::now()), "");
  const json::object page = hosts_->groups("north/story", Clock::now());
  ASSERT_EQ(page.at("list").as_array().size(), 1U);
  EXPECT_EQ(page.at("list").as_array()[0].at("name").as_string(), "south/story");
  EXPECT_EQ(page.at("list").as_array()[0].at("host").as_string(), "south");
}

TEST_F(HostsTest, OneThatIsSilentHoldsUpOneRoundAndNoFurtherOne) {
  hosts_->use({"south"});
  look_until_all_answered();
  hosts_->all()[1]->news = false;
  doors_["south"]->silent = true;
  doors_["south"]->sequence = 2;
  own_->sequence = 2;
  look();
  EXPECT_TRUE(host(0).news);
  EXPECT_TRUE(host(1).asking);
  look();  // ends with the answer of the one that speaks
  EXPECT_EQ(doors_["south"]->asked, 2) << "it is not asked again while it owes an answer";
  doors_["south"]->speak();
  until([&] { return !host(1).asking; });
  EXPECT_EQ(host(1).away(Clock::now()), "");
  EXPECT_TRUE(host(1).news) << "a late answer is one";
}

TEST_F(HostsTest, OneThatIsAwayIsNotWaitedFor) {
  hosts_->use({"south"});
  doors_["south"]->silent = true;  // from the beginning
  const Instant begun = Clock::now();
  look();
  EXPECT_LT(Clock::now() - begun, milliseconds(900)) << "a round's patience is for hosts that answer";
  EXPECT_TRUE(host(0).news);
  EXPECT_TRUE(host(1).asking);
  EXPECT_NE(host(1).away(Clock::now()), "");
}

TEST_F(HostsTest, OneThatRefusesSaysWhyIsLeftInPeaceForAWhileAndKeepsWhatIsKnownAsStale) {
  hosts_->use({"south"});
  look_until_all_answered();
  doors_["south"]->refusal = "gears.leaders there does not name it";
  look();
  EXPECT_EQ(host(1).away(Clock::now()), "not_allowed: gears.leaders there does not name it");
  EXPECT_FALSE(host(1).news);
  const int opened = doors_["south"]->opened;
  look();
  EXPECT_EQ(doors_["south"]->opened, opened);
  EXPECT_EQ(host(0).away(Clock::now()), "");
  const json::object page = hosts_->groups("north/story", Clock::now());
  EXPECT_TRUE(page.at("list").as_array()[0].at("stale").as_bool());
  EXPECT_NE(page.at("list").as_array()[0].at("problem").as_string().find("host south: not_allowed"), std::string::npos);
}

TEST_F(HostsTest, TheSameSnapshotIsNoNewsAndNeitherIsWhatWasSeenBeforeAnOrderEnded) {
  look();
  Host& own = *hosts_->all().front();
  own.news = false;
  look();
  EXPECT_FALSE(own.news);
  own_->sequence = 2;
  own.ordering = true;
  look();
  EXPECT_FALSE(own.news) << "shifts are being ordered";
  own.ordering = false;
  ++own.orders;
  look();
  EXPECT_FALSE(own.news) << "and what was seen then is not looked at again";
  own_->sequence = 3;
  look();
  EXPECT_TRUE(own.news);
  own.news = false;
  own_->sequence = 4;
  own_->silent = true;
  look();
  ++own.orders;  // ordered and done while it was asked
  own_->speak();
  until([&] { return !own.asking; });
  EXPECT_FALSE(own.news);
}

TEST_F(HostsTest, AreClosedWhenTheyAreNotWantedOrSomebodyElseLeads) {
  hosts_->use({"east", "south"});
  look_until_all_answered();
  hosts_->use({"south"});
  EXPECT_EQ(doors_["east"]->closed, 1);
  EXPECT_EQ(doors_["south"]->closed, 0);
  EXPECT_EQ(host(1).away(Clock::now()), "") << "what is known of one that stays is kept";
  hosts_->let_go();
  EXPECT_EQ(doors_["south"]->closed, 1);
  EXPECT_EQ(own_->closed, 0);
  EXPECT_NE(host(1).away(Clock::now()), "");
}

TEST(Host, TrustIsOfItsOwnLinksAndCountsEachProbeOnce) {
  Host host;
  gear_facts::Snapshot snapshot;
  snapshot.observer = "o";
  snapshot.link_probed = snapshot.link_failed = true;
  snapshot.link_samples = 5;
  for (std::uint64_t i = 1; i <= 3; ++i) {
    snapshot.sequence = i;
    host.take(snapshot, {}, true, Clock::now(), Clock::now());
  }
  EXPECT_DOUBLE_EQ(host.trust.value(), 0.8);
  snapshot.observer = "another";
  snapshot.link_samples = 1;
  host.take(snapshot, {}, true, Clock::now(), Clock::now());
  EXPECT_LT(host.trust.value(), 0.8) << "its observer was started again, and has probed";
  snapshot.link_probed = false;
  host.take(snapshot, {}, true, Clock::now(), Clock::now());
  EXPECT_DOUBLE_EQ(host.trust.value(), 1) << "a host without links is trusted";
}

}  // namespace
}  // namespace gearbox::scheduler
