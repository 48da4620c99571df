// Members that are not etcd: what comes of answers, refusals and silence.
#include "coordination/etcd_members.hpp"

#include <gtest/gtest.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>

#include <atomic>
#include <fstream>
#include <thread>

#include "support/temp_dir.hpp"

namespace gearbox::coordination {
namespace {

namespace asio = boost::asio;

/// Answers each connection with the same text; an empty one: with silence.
class Member {
 public:
  explicit Member(std::string answer)
      : answer_(std::move(answer)),
        acceptor_(io_, {asio::ip::make_address("127.0.0.1"), 0}),
        thread_([this] { serve(); }) {}
  ~Member() {
    stopping_ = true;
    asio::ip::tcp::socket wake(io_);
    boost::system::error_code ignored;
    wake.connect(acceptor_.local_endpoint(), ignored);
    thread_.join();
  }
  sink::HttpUrl url() const { return {"127.0.0.1", std::to_string(acceptor_.local_endpoint().port()), "/"}; }
  int asked() const { return asked_; }
  std::string last() const { return last_; }  // when nobody asks any more

 private:
  void serve() {
    for (;;) {
      held_.emplace_back(io_);
      boost::system::error_code error;
      acceptor_.accept(held_.back(), error);
      if (stopping_) return;
      ++asked_;
      if (answer_.empty()) continue;  // and leaves it open
      std::string got;
      asio::read_until(held_.back(), asio::dynamic_buffer(got), "\r\n\r\n", error);
      last_ = got;
      const std::string head = "HTTP/1.1 " + answer_.substr(0, answer_.find('\n')) + "\r\nContent-Length: ";
      const std::string body = answer_.substr(answer_.find('\n') + 1);
      asio::write(held_.back(), asio::buffer(head + std::to_string(body.size()) + "\r\n\r\n" + body), error);
      held_.pop_back();
    }
  }

  std::string answer_;
  asio::io_context io_;
  asio::ip::tcp::acceptor acceptor_;
  std::vector<asio::ip::tcp::socket> held_;
  std::atomic<bool> stopping_{false};
  std::atomic<int> asked_{0};
  std::string last_;
  std::thread thread_;  // last: it uses what is above
};

constexpr milliseconds kTimeout{300};
const std::string kGood = "200 OK\n{\"header\": {}}";

Instant in_ten_seconds() {
  return after(Clock::now(), milliseconds{10'000});
}

TEST(EtcdMembers, TheNextOneIsAskedWhenOneIsSilentOrWithoutAMajority) {
  Member silent(""), lonely("503 Service Unavailable\n{\"error\": \"etcdserver: no leader\", \"code\": 14}"),
      good(kGood);
  EtcdMembers members({silent.url(), lonely.url(), good.url()}, kTimeout, {});
  const Instant began = Clock::now();
  EXPECT_TRUE(members.ask("/v3/kv/range", {}, in_ten_seconds()));
  EXPECT_GE(Clock::now() - began, kTimeout);
  EXPECT_EQ(lonely.asked(), 1);
  EXPECT_TRUE(members.ask("/v3/kv/range", {}, in_ten_seconds()));
  EXPECT_EQ(silent.asked(), 1) << "the one that answered last is asked first";
  EXPECT_EQ(good.asked(), 2);
}

TEST(EtcdMembers, WhenNobodyAnswersItIsToldWhatEachSaid) {
  Member lonely("503 Service Unavailable\n{\"error\": \"etcdserver: no leader\"}"), odd("200 OK\nhello");
  const sink::HttpUrl nobody{"127.0.0.1", "1", "/"};
  EtcdMembers members({lonely.url(), nobody, odd.url()}, kTimeout, {});
  const auto answer = members.ask("/v3/kv/range", {}, in_ten_seconds());
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Errc::unreachable);
  EXPECT_NE(answer.error().detail.find("etcdserver: no leader"), std::string::npos) << answer.error().detail;
  EXPECT_NE(answer.error().detail.find("127.0.0.1:1: "), std::string::npos) << answer.error().detail;
  EXPECT_NE(answer.error().detail.find("no JSON object"), std::string::npos) << answer.error().detail;
}

TEST(EtcdMembers, AllOfThemTogetherKeepTheDeadline) {
  Member one(""), two("");
  EtcdMembers members({one.url(), two.url()}, milliseconds{5'000}, {});
  const Instant began = Clock::now();
  EXPECT_FALSE(members.ask("/v3/kv/range", {}, after(began, milliseconds{400})));
  EXPECT_LT(Clock::now() - began, milliseconds{2'000});
  EXPECT_EQ(two.asked(), 1) << "each had its share";
  const auto late = members.ask("/v3/kv/range", {}, Clock::now());
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Errc::timeout);
}

TEST(EtcdMembers, ARefusalOfWhoWeAreIsNotAskedOfEverybody) {
  Member strict("403 Forbidden\n{\"error\": \"etcdserver: permission denied\", \"code\": 7}"), good(kGood);
  EtcdMembers members({strict.url(), good.url()}, kTimeout, {});
  const auto answer = members.ask("/v3/kv/range", {}, in_ten_seconds());
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Errc::not_allowed);
  EXPECT_EQ(good.asked(), 0);
}

TEST(EtcdMembers, ALoginGivesATokenThatIsShown) {
  const gearbox::testing::TempDir folder;
  std::ofstream(folder.path() / "password") << "secret\nmore\n";
  Member member("200 OK\n{\"token\": \"abc.1\"}");
  EtcdMembers members({member.url()}, kTimeout, {"root", (folder.path() / "password").string()});
  EXPECT_TRUE(members.ask("/v3/kv/range", {}, in_ten_seconds()));
  EXPECT_EQ(member.asked(), 2);
  EXPECT_NE(member.last().find("Authorization: abc.1"), std::string::npos) << member.last();
  EXPECT_TRUE(members.ask("/v3/kv/range", {}, in_ten_seconds()));
  EXPECT_EQ(member.asked(), 3) << "one login is enough";
  EtcdMembers without({member.url()}, kTimeout, {"root", (folder.path() / "none").string()});
  EXPECT_FALSE(without.ask("/v3/kv/range", {}, in_ten_seconds()));
}

TEST(EtcdMembers, AnAnswerWithoutAnEndIsNotReadToIt) {
  Member endless("200 OK\n{\"x\": \"" + std::string(200'000, 'x') + "\"}");
  EtcdMembers members({endless.url()}, kTimeout, {});
  const auto answer = members.ask("/v3/kv/range", {}, in_ten_seconds());
  ASSERT_FALSE(answer);
  EXPECT_NE(answer.error().detail.find("too long"), std::string::npos) << answer.error().detail;
}

}  // namespace
}  // namespace gearbox::coordination
